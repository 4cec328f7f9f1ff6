"""Moments as people read them."""

from __future__ import annotations

from datetime import UTC, datetime

_YEAR_US = 31_556_952_000_000
"""Mean length of a year of the calendar, in microseconds."""


def utc_text(time_us: int) -> str:
    """Return a time in microseconds since the epoch to the second, in UTC; of the year alone where no date has it."""
    try:
        return f"{datetime.fromtimestamp(time_us // 1_000_000, UTC):%Y-%m-%d %H:%M:%S} UTC"
    except (ValueError, OverflowError):
        return f"the year {1970 + time_us // _YEAR_US}"
