"""What the simple policies share: the scores they learn from, by base, and the decision from one bound per base.

A score is a need that is at least 0. The literature of these policies uses lateness, which is never negative. For
windows the floor is necessary: within one window the need rises from minus the window's length to the delay, so a
memory shorter than a window would hold strongly negative needs at the window's start, and a bound made of them would
close the window that has just begun (literature S2).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from tidemark.models.base.duration import format_duration
from tidemark.models.base.operators import Int64s
from tidemark.models.live.policy import NO_BASE_US, Decision, Observation, Scope

_KNOWN_ABOVE_US = NO_BASE_US // 2
"""A need below it was computed without a base and says nothing of lateness. Half of it is 63,000 years away."""


@dataclass(frozen=True, slots=True)
class Scores:
    """The scores of one batch for one base: with scope ``global`` the stream's, with ``partition`` a partition's."""

    group: int
    """Index of the base: 0, or the partition's."""
    value_us: Int64s
    """Needs, at least 0, ascending, shape (counts,); never empty."""
    count: Int64s
    """Rows behind each, at least 1, shape (counts,)."""

    @property
    def max_us(self) -> int:
        """The maximum score."""
        return int(self.value_us[-1])

    def share_above(self, bound_us: float) -> float:
        """Return the share of the rows that a bound misses."""
        return float(self.count[self.value_us > bound_us].sum() / self.count.sum())


def scores_of(seen: Observation, scope: Scope) -> list[Scores]:
    """Return the scores of a batch, by base in ascending order; bases without a row of known need are left out."""
    need = seen.need_us if scope == "global" else seen.own_need_us
    has_need = (need > _KNOWN_ABOVE_US) & (seen.count > 0)
    if not has_need.any():
        return []
    group = seen.partition[has_need] if scope == "partition" else np.zeros(int(has_need.sum()), np.int64)
    value, count = np.maximum(need[has_need], 0), seen.count[has_need]
    order = np.lexsort((value, group))
    group, value, count = group[order], value[order], count[order]
    edges = [0, *(np.flatnonzero(np.diff(group)) + 1).tolist(), len(group)]
    return [
        Scores(int(group[first]), value[first:last], count[first:last]) for first, last in pairwise(edges)
    ]


def decision_of(bounds_us: Sequence[int | None], scope: Scope) -> Decision:
    """Return the decision for one bound per base, None where nothing is known yet.

    With scope ``partition`` a base without a bound takes the widest bound of the others: their watermarks move on, and
    it is the safest one measured. Without any bound nothing changes.
    """
    measured_us = [bound for bound in bounds_us if bound is not None]
    if not measured_us:
        return Decision()
    if scope == "global":
        return Decision(bound_us=measured_us[0])
    widest = max(measured_us)
    return Decision(bounds_us=np.array([widest if bound is None else bound for bound in bounds_us], np.int64))


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
                f"a fixed bound must be at least 0, not {format_duration(bound_us)}: no engine takes it"
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
        scope: one bound for the stream, or one per partition from its own needs.

    Raises:
        ValueError: when the span is not above 0.
    """

    native = False

    def __init__(self, span_us: int = DEFAULT_SPAN_US, *, scope: Scope = "global") -> None:
        if span_us <= 0:
            raise ValueError(f"the span must be above 0, not {format_duration(span_us)}")
        self._span_us = span_us
        self._scope = scope
        self._recent: list[deque[tuple[int, int]]] = []
        """By base: (wall time, maximum need) of the batches that no later batch exceeds; needs strictly fall."""

    def observe(self, seen: Observation) -> None:
        """Add the maximum need of a batch, in amortised constant time for each base."""
        bases = 1 if self._scope == "global" else len(seen.base_us)
        self._recent += [deque() for _ in range(bases - len(self._recent))]
        for scores in scores_of(seen, self._scope):
            recent = self._recent[scores.group]
            while recent and recent[-1][1] <= scores.max_us:
                recent.pop()
            recent.append((seen.now_us, scores.max_us))
        for recent in self._recent:
            while len(recent) > 1 and recent[0][0] < seen.now_us - self._span_us:
                recent.popleft()

    def decide(self, now_us: int, in_force_us: int) -> Decision:  # noqa: ARG002 - the policy's signature
        """Return the maximum needs; no decision before the first."""
        return decision_of([self._max_us(recent, now_us) for recent in self._recent], self._scope)

    def _max_us(self, recent: deque[tuple[int, int]], now_us: int) -> int | None:
        for ran_us, need_us in recent:
            if ran_us >= now_us - self._span_us:
                return need_us
        return recent[-1][1] if recent else None
