"""What the simple policies share: the scores that they learn from.

A score is a need that is at least 0. The literature of these policies uses lateness, which is never negative. For
windows the floor is necessary: within one window the need rises from minus the window's length to the delay, so a
memory shorter than a window would hold strongly negative needs at the window's start, and a bound made of them would
close the window that has just begun (literature S2).
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np

from tidemark.models.base.duration import format_duration
from tidemark.models.base.operators import Int64s
from tidemark.models.live.policy import NO_BASE_US, Decision, Observation

_KNOWN_ABOVE_US = NO_BASE_US // 2
"""A need below it was computed without a base and says nothing of lateness. Half of it is 63,000 years away."""


@dataclass(frozen=True, slots=True)
class Scores:
    """The scores of one batch."""

    value_us: Int64s
    """Needs, at least 0, ascending, shape (counts,); never empty."""
    count: Int64s
    """Rows behind each, at least 1, shape (counts,)."""

    @property
    def max_us(self) -> int:
        """The maximum score."""
        return int(self.value_us[-1])


def scores_of(seen: Observation) -> Scores | None:
    """Return the scores of a batch; None without a row of known need."""
    has_need = (seen.need_us > _KNOWN_ABOVE_US) & (seen.count > 0)
    if not has_need.any():
        return None
    value, count = np.maximum(seen.need_us[has_need], 0), seen.count[has_need]
    order = np.argsort(value, kind="stable")
    return Scores(value[order], count[order])


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
        recent, scores = self._recent, scores_of(seen)
        if scores is not None:
            while recent and recent[-1][1] <= scores.max_us:
                recent.pop()
            recent.append((seen.now_us, scores.max_us))
        while len(recent) > 1 and recent[0][0] < seen.now_us - self._span_us:
            recent.popleft()

    def decide(self, now_us: int, in_force_us: int) -> Decision:  # noqa: ARG002 - the policy's signature
        """Return the maximum need; no decision before the first."""
        since_us = now_us - self._span_us
        needs = [need_us for ran_us, need_us in self._recent if ran_us >= since_us]
        if needs:
            return Decision(bound_us=needs[0])
        return Decision(bound_us=self._recent[-1][1]) if self._recent else Decision()
