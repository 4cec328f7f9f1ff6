"""What rows asked for at recent decisions: the memory by which a recommendation narrows late."""

from __future__ import annotations

from tidemark.models.defaults import NARROW_STABILISATION_MS
from tidemark.models.recommend.steps import Recommendation

__all__ = ["RecentBounds"]

_SPAN_US = NARROW_STABILISATION_MS * 1_000


class RecentBounds:
    """The bounds asked for under one SLO, in the time of the stream's own batches.

    A decision on the same newest batch is not an earlier one, so that deciding again gives the same.
    """

    __slots__ = ("_asked",)

    def __init__(self) -> None:
        self._asked: dict[int, int] = {}

    def before(self, at_us: int) -> tuple[int, ...]:
        """Return what was asked for before the batch of ``at_us``, as far back as it counts, in milliseconds."""
        return tuple(
            bound_ms
            for when_us, bound_ms in sorted(self._asked.items())
            if at_us - _SPAN_US <= when_us < at_us
        )

    def keep(self, at_us: int, recommendation: Recommendation) -> None:
        """Note what was asked for by the batches up to ``at_us``, and forget what counts no more."""
        if recommendation.required_ms is not None:
            self._asked = {when: bound for when, bound in self._asked.items() if when >= at_us - _SPAN_US}
            self._asked[at_us] = recommendation.required_ms
