"""The clock, injected wherever time matters, so that tests control it."""

from __future__ import annotations

import time
from collections.abc import Callable

Clock = Callable[[], int]
"""Returns the wall time in microseconds since the epoch."""

SteadyClock = Callable[[], float]
"""Returns seconds that never decrease, from an arbitrary start; ``time.monotonic`` is one."""


def system_clock() -> int:
    """Return the machine's wall time in microseconds since the epoch."""
    return time.time_ns() // 1_000
