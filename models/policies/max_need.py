"""The recent maximum need: K-slack's buffer over a span of time, without a target.

K-slack waits as long as the longest delay seen (Babu, Srivastava, Widom, TODS 29(3), 2004; without a priori knowledge
Mutschler and Philippsen, IPDPS 2013). Its maximum over all time never falls; the maximum over the last minute is
the stronger baseline (literature 1.3, S1: 9.7 s against 19.5 s where 2.0 s suffice).
"""

from __future__ import annotations

from collections import deque

from tidemark.models.duration import format_duration
from tidemark.models.policies.groups import decision_of, scores_of
from tidemark.models.policies.policy import Decision, Observation
from tidemark.models.policies.setup import Scope

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

    __slots__ = ("_recent", "_scope", "_span_us")

    def __init__(self, span_us: int = DEFAULT_SPAN_US, *, scope: Scope = "global") -> None:
        if span_us <= 0:
            raise ValueError(f"the span must be above 0, not {format_duration(span_us)}")
        self._span_us = span_us
        self._scope = scope
        self._recent: list[deque[tuple[int, int]]] = []
        """By base: (wall time, maximum need) of the batches that no later batch exceeds; needs strictly fall."""

    @property
    def native(self) -> bool:
        """No: the bound moves."""
        return False

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
