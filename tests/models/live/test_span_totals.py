"""Totals by span: a little short in each cohort, beyond chance in ten."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from tidemark.models.live.chance import SpanTotals
from tidemark.models.live.defaults import MISSING_DEVIATIONS, UNEVENNESS_PRIOR

from support.examples import examples

SECOND = 1_000_000
SPAN = 10
EXPECTED = 200.0


def starts(cohorts: int, first: int = 0) -> NDArray[np.int64]:
    return (first + np.arange(cohorts)) * SECOND


def raised(
    totals: list[int], missing: list[float] | None = None, *, spans: SpanTotals | None = None, first: int = 0
) -> NDArray[np.float64]:
    found = np.array(missing or [0.0] * len(totals))
    (spans or even()).raise_missing(
        found, starts(len(totals), first), np.array(totals), np.full(len(totals), EXPECTED)
    )
    return found


def even() -> SpanTotals:
    """Return spans that have shown for long that they are even."""
    spans = SpanTotals(SECOND, SPAN)
    spans.close(starts(400 * SPAN), np.full(400 * SPAN, round(EXPECTED)), EXPECTED)
    return spans


def test_what_is_short_in_ten_cohorts_is_missing_though_it_is_within_the_chance_of_each() -> None:
    """20 of 200 are 1.4 deviations; 200 of 2,000 are 4.5."""
    assert raised([180] * SPAN).tolist() == pytest.approx([20.0] * SPAN)


def test_what_chance_explains_is_not_missing() -> None:
    """170 of 2,000 are 3.8 deviations."""
    assert not raised([183] * SPAN).any()


def test_while_little_is_known_of_spans_they_are_assumed_to_be_uneven() -> None:
    new = SpanTotals(SECOND, SPAN)
    assert not raised([180] * SPAN, spans=new).any()
    beyond = round(EXPECTED - MISSING_DEVIATIONS * (UNEVENNESS_PRIOR * EXPECTED / SPAN) ** 0.5) - 1
    assert raised([beyond] * SPAN, spans=new).all()


def test_cohorts_that_have_more_than_expected_miss_nothing_and_reduce_what_the_others_miss() -> None:
    found = raised([150] * 8 + [220] * 2)
    assert not found[8:].any()
    assert found.sum() == pytest.approx(8 * 50 - 2 * 20)


def test_what_cohorts_miss_already_is_explained_and_the_rest_must_be_beyond_chance_too() -> None:
    """160 more are within the chance of a span, 200 more are not."""
    known = [200.0] * 2 + [0.0] * 8
    assert raised([0] * 2 + [180] * 8, known).tolist() == known
    assert raised([0] * 2 + [175] * 8, known).tolist() == pytest.approx([200.0] * 2 + [25.0] * 8)


@examples(100)
@given(
    st.lists(st.integers(100, 220), min_size=1, max_size=45),
    st.integers(0, 25),
)
def test_each_span_is_judged_by_itself(totals: list[int], first: int) -> None:
    """What is missing in it is what it is short of, or nothing."""
    found = raised(totals, first=first)
    assert (found >= 0).all()
    span = (first + np.arange(len(totals))) // SPAN
    for one in np.unique(span):
        short = (EXPECTED - np.array(totals))[span == one].sum()
        beyond = short > MISSING_DEVIATIONS * np.sqrt(EXPECTED * (span == one).sum())
        assert found[span == one].sum() == pytest.approx(short if beyond else 0)


def test_spans_that_vary_are_short_only_beyond_their_own_variation() -> None:
    """Whole spans of which cohorts are alike: each cohort says nothing of it."""
    spans, dice = even(), np.random.default_rng(1)
    per_span = dice.normal(EXPECTED, 20, 200).repeat(SPAN).round().astype(np.int64)
    spans.close(starts(200 * SPAN, 4_000), per_span, EXPECTED)
    assert not raised([180] * SPAN, spans=spans).any()
    assert raised([100] * SPAN, spans=spans).all()


def test_a_span_of_which_a_part_was_closed_elsewhere_shows_nothing() -> None:
    """Cohorts are closed a few at a time; the first span and one with a gap are not whole."""
    spans = SpanTotals(SECOND, SPAN)
    for first, cohorts in ((4, 3), (7, 3), (10, 5)):
        spans.close(starts(cohorts, first), np.zeros(cohorts, np.int64), EXPECTED)
    spans.close(starts(9, 20), np.full(9, 200), EXPECTED)
    assert spans._unevenness.ratio[0] == UNEVENNESS_PRIOR
    spans.close(starts(2, 29), np.full(2, 200), EXPECTED)
    assert spans._unevenness.ratio[0] < UNEVENNESS_PRIOR


def test_who_resumes_finds_the_same_spans_short() -> None:
    resumed = SpanTotals(SECOND, SPAN)
    resumed.resume(even().learned())
    assert raised([180] * SPAN, spans=resumed).tolist() == raised([180] * SPAN).tolist()
