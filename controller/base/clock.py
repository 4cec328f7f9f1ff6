"""The clock, injected wherever time matters, so that tests control it; and moments as people read them."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime

Clock = Callable[[], int]
"""Returns the wall time in microseconds since the epoch."""

SteadyClock = Callable[[], float]
"""Returns seconds that never decrease, from an arbitrary start; ``time.monotonic`` is one."""


def system_clock() -> int:
    """Return the machine's wall time in microseconds since the epoch."""
    return time.time_ns() // 1_000


_YEAR_US = 31_556_952_000_000
"""Mean length of a year of the calendar, in microseconds."""


def utc_text(time_us: int) -> str:
    """Return a time in microseconds since the epoch to the second, in UTC; of the year alone where no date has it."""
    try:
        return f"{datetime.fromtimestamp(time_us // 1_000_000, UTC):%Y-%m-%d %H:%M:%S} UTC"
    except (ValueError, OverflowError):
        return f"the year {1970 + time_us // _YEAR_US}"
