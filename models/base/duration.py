"""Durations as people and Spark write them, turned into whole microseconds and back.

Accepted are Spark's interval strings of fixed length ("10 minutes", "1 hour 30 minutes", "INTERVAL '5' SECONDS")
and the short forms of a command line ("5s", "250ms", "1h30m"). Months and years have no fixed length: only what goes
to ``withWatermark`` may have them (``parse_delay``), which counts 31 days for a month.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal

MICROSECONDS: dict[str, int] = {
    "us": 1,
    "ms": 1_000,
    "s": 1_000_000,
    "m": 60_000_000,
    "h": 3_600_000_000,
    "d": 86_400_000_000,
    "w": 604_800_000_000,
}
"""Microseconds in each unit, by the unit's shortest name."""

_ALIASES = {
    "microsecond": "us",
    "microseconds": "us",
    "micros": "us",
    "millisecond": "ms",
    "milliseconds": "ms",
    "millis": "ms",
    "sec": "s",
    "secs": "s",
    "second": "s",
    "seconds": "s",
    "min": "m",
    "mins": "m",
    "minute": "m",
    "minutes": "m",
    "hour": "h",
    "hours": "h",
    "day": "d",
    "days": "d",
    "week": "w",
    "weeks": "w",
}
_NUMBER = r"(?:\d+\.?\d*|\.\d+)"
_PART = re.compile(rf"\s*([+-]?)\s*(?:'\s*([+-]?{_NUMBER})\s*'|({_NUMBER}))\s*([a-z]+)\s*")
"""A number, which may be quoted as SQL has it, and its unit."""
_LITERAL = re.compile(r"interval\s*'([^']*)'")
"""Numbers and units in one pair of quotes."""
_MONTH_US = 31 * MICROSECONDS["d"]
"""A month to Spark (4.2, ``IntervalUtils.getDuration``)."""
_VARIABLE_US = dict.fromkeys(("month", "months"), _MONTH_US) | dict.fromkeys(
    ("year", "years"), 12 * _MONTH_US
)
"""What has no fixed length."""
_COMPOUND_FROM_US = 2 * MICROSECONDS["m"]
"""From two minutes on, minutes read better than seconds."""


def parse_duration(text: str) -> int:
    """Return the duration in ``text``, in microseconds.

    A bare ``"0"`` is zero. Parts add up, so ``"1h30m"`` is 90 minutes.

    Raises:
        ValueError: for what is no text, an empty text, an unknown or variable unit, or a part finer than a microsecond.
    """
    total_us = _total_us(text, {})
    if total_us != total_us.to_integral_value():
        raise ValueError(f"duration {text!r} is finer than one microsecond")
    return int(total_us)


def parse_delay(text: str) -> int:
    """Return the delay of a watermark in ``text``, in milliseconds, as Spark's ``withWatermark`` has it.

    A month has 31 days and a year 12 months, and what is finer than a millisecond is cut off.

    Raises:
        ValueError: for what is no text, an empty text, an unknown unit, or a delay below 0.
    """
    total_us = _total_us(text, _VARIABLE_US)
    if total_us < 0:
        raise ValueError(f"{text!r} must be at least 0, as Spark's delay is")
    return int(total_us // MICROSECONDS["ms"])


def _total_us(text: str, variable_us: Mapping[str, int]) -> Decimal:
    """Return the sum of the parts of a duration; units of ``variable_us`` are known, too."""
    if not isinstance(text, str):
        raise ValueError(f"duration {text!r} must be text with a unit, such as '10 minutes'")  # noqa: TRY004
    rest = text.strip().lower()
    literal = _LITERAL.fullmatch(rest)
    rest = (literal[1] if literal else rest.removeprefix("interval")).strip()
    if rest == "0":
        return Decimal(0)
    total = Decimal(0)
    position = 0
    while position < len(rest):
        match = _PART.match(rest, position)
        if match is None:
            break
        sign, in_quotes, plain, name = match.groups()
        unit = _ALIASES.get(name, name)
        size_us = MICROSECONDS.get(unit, variable_us.get(unit))
        if size_us is None:
            if unit in _VARIABLE_US:
                raise ValueError(f"duration {text!r}: a {name} has no fixed length; write days instead")
            raise ValueError(
                f"duration {text!r}: unknown unit {name!r}; use one of {', '.join(MICROSECONDS)}"
            )
        total += Decimal(in_quotes or plain) * size_us * (-1 if sign == "-" else 1)
        position = match.end()
    if not rest or position != len(rest):
        raise ValueError(f"duration {text!r}: expected something like '10 minutes', '5s' or '250ms'")
    return total


def format_duration(duration_us: int) -> str:
    """Return ``duration_us`` to the millisecond, as ``parse_duration`` reads it: ``"1.25 s"``, ``"1 h 30 min"``.

    Bounds are copied from what is shown, so 28 d and a millisecond must not read 28 d.
    """
    if 0 < abs(duration_us) < MICROSECONDS["s"]:
        ms = _trim(duration_us / MICROSECONDS["ms"])
        return f"{ms} ms" if abs(duration_us) >= MICROSECONDS["ms"] else f"{duration_us} us"
    if duration_us < _COMPOUND_FROM_US:
        return f"{_trim(duration_us / MICROSECONDS['s'])} s"
    return " ".join(_parts(round(duration_us, -3)))


def format_about(duration_us: float) -> str:
    """Return a measured duration with as few digits as a reader needs: ``"943 ms"``, ``"12.04 s"``, ``"11 d 20 h"``.

    It is 0 only when it is exactly 0.
    """
    if 0 < abs(duration_us) < 1:
        return "< 1 us"
    if abs(duration_us) < 10 * MICROSECONDS["ms"]:
        return format_duration(round(duration_us))
    if duration_us < _COMPOUND_FROM_US:
        unit_us = 10_000 if abs(duration_us) >= MICROSECONDS["s"] else 1_000
        return format_duration(round(duration_us / unit_us) * unit_us)
    return " ".join(_parts(round(duration_us / MICROSECONDS["s"]) * MICROSECONDS["s"])[:2])


def _parts(duration_us: int) -> list[str]:
    parts, rest = [], duration_us
    for unit, name in (("d", "d"), ("h", "h"), ("m", "min")):
        number, rest = divmod(rest, MICROSECONDS[unit])
        if number:
            parts.append(f"{number} {name}")
    return parts + ([f"{_trim(rest / MICROSECONDS['s'])} s"] if rest else [])


def _trim(number: float) -> str:
    return f"{number:.3f}".rstrip("0").rstrip(".")
