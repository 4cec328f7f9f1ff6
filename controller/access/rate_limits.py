"""Rate limits: a bucket of tokens for each caller, filled at a steady rate."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable

from tidemark.controller.access.roles import Right

__all__ = ["BURST_SECONDS", "MAX_CALLERS", "RateLimit", "RateLimits"]

BURST_SECONDS = 2.0
"""How much of its rate a caller may use at once, in seconds' worth."""

MAX_CALLERS = 10_000
"""Callers remembered; of more, those that have been silent longest are forgotten, and begin anew."""


class RateLimit:
    """Lets each caller ask at a rate, with bursts. Used from one thread.

    Args:
        per_second: requests a second that one caller may make for good; 0 for no limit.
        steady: a clock that never goes back, in seconds.
    """

    def __init__(self, per_second: float, steady: Callable[[], float]) -> None:
        self.per_second = per_second
        self._steady = steady
        self._burst = max(per_second * BURST_SECONDS, 1.0)
        self._left: OrderedDict[Hashable, tuple[float, float]] = OrderedDict()

    def wait_seconds(self, caller: Hashable) -> float:
        """Count a request; return 0 when it may go on, else in how many seconds one may, uncounted."""
        if not self.per_second:
            return 0.0
        now = self._steady()
        left, since = self._left.pop(caller, (self._burst, now))
        left = min(left + (now - since) * self.per_second, self._burst)
        allowed = left >= 1
        self._left[caller] = (left - 1 if allowed else left, now)
        if len(self._left) > MAX_CALLERS:
            self._left.popitem(last=False)
        return 0.0 if allowed else (1 - left) / self.per_second


class RateLimits:
    """The limits of a process: what jobs send and ask has one of its own, so that nothing else takes its room.

    Args:
        reports_per_second: requests of jobs a second and caller; 0 for no limit.
        requests_per_second: all others.
        steady: a clock that never goes back, in seconds.
    """

    def __init__(
        self, reports_per_second: float, requests_per_second: float, steady: Callable[[], float]
    ) -> None:
        self._reports = RateLimit(reports_per_second, steady)
        self._requests = RateLimit(requests_per_second, steady)

    def of(self, right: Right | None) -> RateLimit:
        """Return the limit of operations that ask for ``right``; None for those of whoever is not let in."""
        return self._reports if right in {"Ask", "Report"} else self._requests
