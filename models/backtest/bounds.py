"""The simple policies: one bound for ever, and the maximum need of late.

A need counts as at least 0. The literature of such policies uses lateness, which is never negative. For windows the
floor is necessary: within one window the need rises from minus the window's length to the delay, so a memory shorter
than a window would hold strongly negative needs at the window's start, and a bound made of them would close the window
that has just begun (literature S2).
"""

from __future__ import annotations

from collections import deque

from tidemark.models.base.duration import format_duration
from tidemark.models.live.policy import NO_BASE_US, Decision, Observation

KNOWN_ABOVE_US = NO_BASE_US // 2
"""A need below it was computed without a base and says nothing of lateness. Half of it is 63,000 years away."""


class Fixed:
    """One bound for ever.

    Args:
        bound_us: the bound in microseconds, at least 0 as Spark's ``delayThreshold``.

    Raises:
        ValueError: when the bound is negative.
    """

    native = True
    """It is in the plan."""

    def __init__(self, bound_us: int) -> None:
        if bound_us < 0:
            raise ValueError(
                f"a fixed bound must be at least 0, not {format_duration(bound_us)}: Spark takes none"
            )
        self._decision = Decision(bound_us=bound_us)

    def observe(self, seen: Observation) -> None:
        """Learn nothing."""

    def decide(self, now_us: int, in_force_us: int) -> Decision:  # noqa: ARG002 - the policy's signature
        """Return the bound."""
        return self._decision


DEFAULT_SPAN_US = 60_000_000
"""60 s of wall time, as in literature S1."""


class MaxNeed:
    """The maximum need of the batches that ran at most ``span_us`` ago; after a silent span, the last one.

    Args:
        span_us: how long a batch counts, wall time in microseconds.

    Raises:
        ValueError: when the span is not above 0.
    """

    native = False

    def __init__(self, span_us: int = DEFAULT_SPAN_US) -> None:
        if span_us <= 0:
            raise ValueError(f"the span must be above 0, not {format_duration(span_us)}")
        self._span_us = span_us
        self._recent: deque[tuple[int, int]] = deque()
        """(Wall time, maximum need) of the batches that no later batch exceeds; needs strictly fall."""

    def observe(self, seen: Observation) -> None:
        """Add the maximum need of a batch, in amortised constant time."""
        recent = self._recent
        needs_us = seen.need_us[(seen.need_us > KNOWN_ABOVE_US) & (seen.count > 0)]
        if len(needs_us):
            need_us = max(int(needs_us.max()), 0)
            while recent and recent[-1][1] <= need_us:
                recent.pop()
            recent.append((seen.now_us, need_us))
        while len(recent) > 1 and recent[0][0] < seen.now_us - self._span_us:
            recent.popleft()

    def decide(self, now_us: int, in_force_us: int) -> Decision:  # noqa: ARG002 - the policy's signature
        """Return the maximum need; no decision before the first."""
        since_us = now_us - self._span_us
        needs = [need_us for ran_us, need_us in self._recent if ran_us >= since_us]
        if needs:
            return Decision(bound_us=needs[0])
        return Decision(bound_us=self._recent[-1][1]) if self._recent else Decision()
