"""The maximum need of late: by hand, and against a list that forgets nothing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemark.models.backtest.bounds import MaxNeed
from tidemark.models.live.policy import Decision

from support.seen import UNKNOWN_US, seen_rows
from support.streams import SECOND

streams = st.lists(
    st.tuples(st.integers(1, 40), st.lists(st.integers(-20, 50), max_size=4)), min_size=1, max_size=30
)
"""Seconds since the batch before, and needs in seconds."""


def test_the_maximum_need_counts_for_60_seconds() -> None:
    policy = MaxNeed()
    for at, needs in [(0, [9, 3]), (10, [5]), (30, [2, 4])]:
        policy.observe(seen_rows(at * SECOND, [need * SECOND for need in needs]))
    bounds = {at: policy.decide(at * SECOND, at * SECOND).bound_us for at in (30, 60, 61, 70, 71, 90)}
    assert bounds == {
        30: 9 * SECOND,
        60: 9 * SECOND,
        61: 5 * SECOND,
        70: 5 * SECOND,
        71: 4 * SECOND,
        90: 4 * SECOND,
    }


def test_after_a_silent_span_the_last_need_stays() -> None:
    policy = MaxNeed()
    policy.observe(seen_rows(0, [9 * SECOND]))
    policy.observe(seen_rows(SECOND, [4 * SECOND]))
    for at in range(10, 1_000, 10):
        policy.observe(seen_rows(at * SECOND, []))
    assert policy.decide(1_000 * SECOND, 1_000 * SECOND).bound_us == 4 * SECOND


def test_a_window_that_has_just_begun_is_not_closed_at_once() -> None:
    """Its rows need minus ten minutes; a bound of that would put the watermark ten minutes ahead of the base."""
    policy = MaxNeed()
    policy.observe(seen_rows(0, [-600 * SECOND, -590 * SECOND]))
    assert policy.decide(0, 0).bound_us == 0


@given(streams)
def test_it_is_the_maximum_of_a_list_that_forgets_nothing(stream: list[tuple[int, list[int]]]) -> None:
    policy, everything, now = MaxNeed(60 * SECOND), list[tuple[int, int]](), 0
    for pause, needs in stream:
        now += pause * SECOND
        policy.observe(seen_rows(now, [need * SECOND for need in needs]))
        if needs:
            everything.append((now, max(*needs, 0) * SECOND))
        young = [need for at, need in everything if at >= now - 60 * SECOND]
        expected = max(young) if young else everything[-1][1] if everything else None
        assert policy.decide(now, now).bound_us == expected


def test_a_need_against_no_base_is_no_need() -> None:
    policy = MaxNeed()
    policy.observe(seen_rows(0, [UNKNOWN_US]))
    assert policy.decide(0, 0) == Decision()


def test_a_span_of_nothing_is_rejected() -> None:
    with pytest.raises(ValueError, match="the span must be above 0, not 0 s"):
        MaxNeed(0)
