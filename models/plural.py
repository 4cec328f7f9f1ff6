"""A count with its noun."""

from __future__ import annotations


def plural(number: int, noun: str, nouns: str | None = None) -> str:
    """Return ``"1 row"`` or ``"1,452 rows"``.

    Args:
        number: how many.
        noun: what one of them is called.
        nouns: what several are called; ``noun`` with an s unless given.
    """
    return f"{number:,} {noun if number == 1 else nouns or f'{noun}s'}"
