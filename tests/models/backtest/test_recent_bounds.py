"""The memory by which a recommendation narrows late."""

from __future__ import annotations

from tidemark.models.backtest.recommended import RecentBounds
from tidemark.models.base.defaults import NARROW_STABILISATION_MS
from tidemark.models.recommend.steps import DecisionStep, Recommendation, StepKind

SPAN_US = NARROW_STABILISATION_MS * 1_000


def required(bound_ms: int | None) -> Recommendation:
    kind = StepKind.QUANTILE if bound_ms is None else StepKind.ROUND_UP
    return Recommendation(bound_ms, (DecisionStep(kind, bound_ms, "why"),))


def test_the_bounds_required_within_the_span_before_a_batch_count_and_its_own_does_not() -> None:
    recent = RecentBounds()
    for at_us, bound_ms in ((0, 900), (1, 800), (2, None), (SPAN_US, 700)):
        recent.keep(at_us, required(bound_ms))
    assert recent.before(1) == (900,)
    assert recent.before(SPAN_US) == (900, 800)
    assert recent.before(SPAN_US + 1) == (800, 700)
    assert recent.before(3 * SPAN_US) == ()


def test_a_decision_made_again_on_the_same_batch_takes_the_place_of_the_first() -> None:
    recent = RecentBounds()
    recent.keep(1, required(900))
    recent.keep(1, required(800))
    assert recent.before(2) == (800,)


def test_what_no_longer_counts_is_forgotten() -> None:
    recent = RecentBounds()
    for at_us in range(0, 10 * SPAN_US, SPAN_US // 2):
        recent.keep(at_us, required(5))
    assert len(recent._required) == 3
