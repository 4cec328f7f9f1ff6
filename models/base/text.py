"""Numbers as people read them: never in scientific notation."""

from __future__ import annotations

import math
from decimal import Decimal

_GREATEST = 10**18


def format_number(number: float, digits: int = 6) -> str:
    """Return a number to so many significant digits, and to the last whole one: ``"0.004"``, ``"4,215"``."""
    if math.isnan(number):
        return "unknown"
    if abs(number) > _GREATEST:
        return f"more than {_GREATEST:,}" if number > 0 else f"less than {-_GREATEST:,}"
    if abs(number) >= 10**digits:
        return f"{round(number):,}"
    return f"{Decimal(f'{number:.{digits - 1}e}').normalize():,f}"


def plain(text: str) -> str:
    """Return a text in which what a terminal would obey is written out: a name may hold any character."""
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode()
        for character in text
    )


def plural(number: int, noun: str, nouns: str | None = None) -> str:
    """Return ``"1 row"`` or ``"1,452 rows"``."""
    return f"{number:,} {noun if number == 1 else nouns or f'{noun}s'}"
