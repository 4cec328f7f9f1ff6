"""Bounds required at recent decisions: the memory by which a recommendation narrows late."""

from __future__ import annotations

from tidemark.models.defaults import NARROW_STABILISATION_MS
from tidemark.models.recommend.steps import Recommendation

_SPAN_US = NARROW_STABILISATION_MS * 1_000


class RecentBounds:
    """The bounds required under one SLO, in the time of the stream's own batches.

    A decision on the same newest batch is not an earlier one, so that deciding again gives the same result.
    """

    __slots__ = ("_required",)

    def __init__(self) -> None:
        self._required: dict[int, int] = {}

    def before(self, at_us: int) -> tuple[int, ...]:
        """Return the bounds required before the batch of ``at_us``, as far back as they count, in milliseconds."""
        return tuple(
            bound_ms
            for when_us, bound_ms in sorted(self._required.items())
            if at_us - _SPAN_US <= when_us < at_us
        )

    def keep(self, at_us: int, recommendation: Recommendation) -> None:
        """Remember the bound required by the batches up to ``at_us``, and forget those that no longer count."""
        if recommendation.required_ms is not None:
            self._required = {
                when: bound for when, bound in self._required.items() if when >= at_us - _SPAN_US
            }
            self._required[at_us] = recommendation.required_ms
