"""Freeze windows: minutes of the week, in UTC, in which nothing is narrowed."""

from __future__ import annotations

from typing import get_args

from tidemark.models.slo import MINUTES_OF_DAY, Day, FreezeWindow

_DAYS: tuple[Day, ...] = get_args(Day)
_MINUTE_US = 60_000_000
_DAY_US = MINUTES_OF_DAY * _MINUTE_US

_EPOCH_DAY = 3
"""1970-01-01 was a Thursday, the fourth of the days."""


def frozen_until_us(windows: tuple[FreezeWindow, ...], now_us: int) -> int | None:
    """Return when the freeze that holds at ``now_us`` ends; None when none does.

    Windows that follow each other directly are one freeze. The end of one that never ends is given as in a week.
    """
    until_us = now_us
    while (further_us := _end_us(windows, until_us)) is not None:
        until_us = further_us
        if until_us - now_us >= 7 * _DAY_US:
            return until_us
    return until_us if until_us > now_us else None


def _end_us(windows: tuple[FreezeWindow, ...], at_us: int) -> int | None:
    day, in_day_us = divmod(at_us, _DAY_US)
    name = _DAYS[(day + _EPOCH_DAY) % 7]
    ends = [
        window.to_minute * _MINUTE_US
        for window in windows
        if name in window.days
        and window.from_minute * _MINUTE_US <= in_day_us < window.to_minute * _MINUTE_US
    ]
    return day * _DAY_US + max(ends) if ends else None
