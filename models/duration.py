"""Durations as people and Spark write them, turned into whole microseconds and back.

Accepted are Spark's interval strings of fixed length ("10 minutes", "1 hour 30 minutes", "interval 5 seconds")
and the short forms of a command line ("5s", "250ms", "1h30m"). Months and years have no fixed length and are
rejected, because a lateness bound must mean the same in February as in March.
"""

from __future__ import annotations

import re
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
_PART = re.compile(r"\s*([+-]?\d+(?:\.\d+)?)\s*([a-zA-Z]+)\s*")
_VARIABLE = {"month", "months", "mon", "year", "years"}
_COMPOUND_FROM_US = 2 * MICROSECONDS["m"]
"""From two minutes on, minutes read better than seconds."""


def parse_duration(text: str) -> int:
    """Return the duration in ``text``, in microseconds.

    A bare ``"0"`` is zero. Parts add up, so ``"1h30m"`` is 90 minutes.

    Raises:
        ValueError: for an empty text, an unknown or variable unit, or a part finer than a microsecond.
    """
    rest = text.strip().lower().removeprefix("interval").strip()
    if rest == "0":
        return 0
    total = Decimal(0)
    position = 0
    while position < len(rest):
        match = _PART.match(rest, position)
        if match is None:
            break
        number, name = match.groups()
        if name in _VARIABLE:
            raise ValueError(f"duration {text!r}: a {name} has no fixed length; write days instead")
        unit = _ALIASES.get(name, name)
        if unit not in MICROSECONDS:
            raise ValueError(
                f"duration {text!r}: unknown unit {name!r}; use one of {', '.join(MICROSECONDS)}"
            )
        total += Decimal(number) * MICROSECONDS[unit]
        position = match.end()
    if not rest or position != len(rest):
        raise ValueError(f"duration {text!r}: expected something like '10 minutes', '5s' or '250ms'")
    if total != total.to_integral_value():
        raise ValueError(f"duration {text!r} is finer than one microsecond")
    return int(total)


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
