"""A watchdog: how long ago a loop last made progress.

Progress is one finished step, not a whole tick: a tick over many streams may take minutes and is not stuck.
"""

from __future__ import annotations

from tidemark.controller.runtime.clock import SteadyClock


class Watchdog:
    """Measures the time since the last progress. Safe to call from several threads.

    Args:
        steady: a clock that never jumps, in seconds.
    """

    def __init__(self, steady: SteadyClock) -> None:
        self._steady = steady
        self._progressed_s = steady()

    def progressed(self) -> None:
        """Note that a step has ended."""
        self._progressed_s = self._steady()

    @property
    def idle_seconds(self) -> float:
        """Seconds since the last step ended; before the first, since the watchdog was made."""
        return self._steady() - self._progressed_s
