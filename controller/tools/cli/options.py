"""How the texts of options are read."""

from __future__ import annotations

import re
from decimal import Decimal, InvalidOperation

from tidemark.models.base.duration import format_duration, parse_duration
from tidemark.models.base.operators import Operator, row_level, session, sliding, tumbling
from tidemark.models.base.target import PPM

NONE = "none"
"""The text that removes an optional value."""


def duration_of(text: str) -> int:
    """Return the microseconds of a duration; a bare number is in seconds."""
    return parse_duration(_with_unit(text))


def milliseconds_of(text: str, option: str) -> int | None:
    """Return the whole milliseconds of a duration; None for "none".

    Raises:
        ValueError: when it is not a duration, or finer than a millisecond.
    """
    if text == NONE:
        return None
    try:
        duration_us = duration_of(text)
    except ValueError as error:
        raise ValueError(f"{option}: {error}") from None
    if duration_us % 1_000:
        raise ValueError(f"{option} {text!r} is finer than a millisecond")
    return duration_us // 1_000


def share_of(text: str, option: str) -> int | None:
    """Return the parts per million of a share such as 0.95 or 1; None for "none".

    Raises:
        ValueError: when it is not a decimal, or finer than a millionth.
    """
    if text == NONE:
        return None
    try:
        share = Decimal(text) * PPM
    except InvalidOperation:
        raise ValueError(f"{option} {text!r} is not a decimal share such as 0.95") from None
    if not share.is_finite() or share != share.to_integral_value():
        raise ValueError(f"{option} {text!r} is finer than one part per million, or not a number")
    return int(share)


def number_of(text: str, option: str) -> int | None:
    """Return a whole number; None for "none".

    Raises:
        ValueError: when it is not a whole number.
    """
    if text == NONE:
        return None
    if not re.fullmatch(r"[0-9][0-9_,]*", text):
        raise ValueError(f"{option} {text!r} is not a whole number such as 100000")
    return int(re.sub("[_,]", "", text))


def bounds_of(text: str, tick_us: int) -> list[int]:
    """Return bounds in microseconds, ascending, from a text such as "0,2s,5s".

    Raises:
        ValueError: when one is not a duration, negative, or not a multiple of ``tick_us``.
    """
    found = sorted({duration_of(part) for part in text.split(",")})
    for bound in found:
        if bound < 0 or bound % tick_us:
            raise ValueError(
                f"bound {format_duration(bound)}: a bound is at least 0 and, for Spark, of whole milliseconds"
            )
    return found


def operator_of(window: str, slide: str | None, session_gap: str | None = None) -> Operator:
    """Return the operator that the options name.

    Raises:
        ValueError: when a duration is not valid, or the options exclude each other.
    """
    if session_gap is not None:
        return session(_with_unit(session_gap))
    size = _with_unit(window)
    if not parse_duration(size):
        if slide is not None:
            raise ValueError("--slide needs a --window above 0")
        return row_level()
    return tumbling(size) if slide is None else sliding(size, _with_unit(slide))


def _with_unit(text: str) -> str:
    """Return the duration; a bare number gets the unit s."""
    return f"{text}s" if re.fullmatch(r"\s*[+-]?\d+(\.\d+)?\s*", text) else text
