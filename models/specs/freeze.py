"""Freeze windows as people write them: "Mon-Fri 08:00-18:00", in UTC."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, get_args

from tidemark.models.specs.slo import MINUTES_OF_DAY, Day

DAYS: tuple[Day, ...] = get_args(Day)

_WINDOW = re.compile(r"([A-Za-z,-]+|daily)(?:\s+(\d\d):(\d\d)-(\d\d):(\d\d))?")


def parse_freeze(text: str) -> dict[str, Any]:
    """Return a freeze window as in the API.

    The text has days ("Sat", "Mon,Wed", "Mon-Fri", "daily") and, after a space, a time of day ("08:00-18:00"); without
    one it is the whole day. Times are in UTC, and 24:00 is the end of the day.

    Raises:
        ValueError: when it is not a freeze window.
    """
    match = _WINDOW.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text!r}: expected something like 'Mon-Fri 08:00-18:00', 'Sat' or 'daily'")
    days, *times = match.groups()
    window: dict[str, Any] = {"days": _days(days, text)}
    if times[0] is not None:
        hours = [int(number) for number in times]
        window["from_minute"], window["to_minute"] = hours[0] * 60 + hours[1], hours[2] * 60 + hours[3]
        if max(hours[1], hours[3]) > 59 or window["to_minute"] > MINUTES_OF_DAY:
            raise ValueError(f"{text!r}: times are between 00:00 and 24:00")
        if window["from_minute"] >= window["to_minute"]:
            raise ValueError(f"{text!r}: write a window across midnight as two")
    return window


def format_freeze(window: Mapping[str, Any]) -> str:
    """Return a freeze window as ``parse_freeze`` reads it."""
    days = "daily" if len(window["days"]) == len(DAYS) else ",".join(window["days"])
    first, last = window["from_minute"], window["to_minute"]
    if (first, last) == (0, MINUTES_OF_DAY):
        return days
    return f"{days} {first // 60:02}:{first % 60:02}-{last // 60:02}:{last % 60:02}"


def _days(text: str, whole: str) -> list[Day]:
    if text.lower() == "daily":
        return [*DAYS]
    days: list[Day] = []
    for part in text.split(","):
        first, dash, last = part.partition("-")
        begin, end = _day(first, whole), _day(last if dash else first, whole)
        # Fri-Mon spans the weekend.
        days += [DAYS[(begin + step) % 7] for step in range((end - begin) % 7 + 1)]
    if len(set(days)) != len(days):
        raise ValueError(f"{whole!r}: name each day once")
    return days


def _day(name: str, whole: str) -> int:
    for index, day in enumerate(DAYS):
        if day.lower() == name.lower():
            return index
    raise ValueError(f"{whole!r}: {name!r} is not a day; use {', '.join(DAYS)}")
