"""Rate limits: a token bucket for each caller."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable

from tidemark.controller.access.roles import Right

BURST_SECONDS = 2.0
"""Burst of a caller, in seconds of its rate."""

MAX_CALLERS = 10_000
"""Callers remembered; beyond that, those idle longest are forgotten and start with a full bucket."""


class RateLimit:
    """Limits each caller to a rate, with bursts. Used from one thread.

    Args:
        per_second: sustained requests a second of one caller; 0 for no limit.
        steady: a clock that never goes back, in seconds.
    """

    def __init__(self, per_second: float, steady: Callable[[], float]) -> None:
        self.per_second = per_second
        self._steady = steady
        self._burst = max(per_second * BURST_SECONDS, 1.0)
        self._left: OrderedDict[Hashable, tuple[float, float]] = OrderedDict()

    def wait_seconds(self, caller: Hashable) -> float:
        """Count a request and return 0 if it is allowed; else return the seconds to wait, without counting it."""
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
    """The limits of a process. Requests of jobs have their own, so that other requests cannot use it up.

    Args:
        reports_per_second: requests of jobs, a second and caller; 0 for no limit.
        requests_per_second: all other requests.
        steady: a clock that never goes back, in seconds.
    """

    def __init__(
        self, reports_per_second: float, requests_per_second: float, steady: Callable[[], float]
    ) -> None:
        self._reports = RateLimit(reports_per_second, steady)
        self._requests = RateLimit(requests_per_second, steady)

    def of(self, right: Right | None) -> RateLimit:
        """Return the limit of operations that require ``right``; None for unauthenticated requests."""
        return self._reports if right in {"Ask", "Report"} else self._requests
