"""What a recommended bound would save: limits of numbers that are partly known, and their sums."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tidemark.models.evidence.curve import Emissions, MeanLatency
from tidemark.models.recommend.savings import (
    NOTHING,
    UNKNOWN,
    ZERO,
    Figures,
    Interval,
    Savings,
    a_day,
    latency_between,
    total_of,
    windows_a_day,
)

MINUTE_US = 60_000_000
numbers = st.integers(-(10**9), 10**9)


@st.composite
def within(draw: st.DrawFn) -> tuple[int, Interval]:
    """Return a number, and limits that hold it, each of which may be unknown."""
    number = draw(numbers)
    least = draw(st.none() | st.integers(0, 1_000).map(lambda below: number - below))
    most = draw(st.none() | st.integers(0, 1_000).map(lambda above: number + above))
    return number, Interval(least, most)


def holds(interval: Interval, number: int) -> bool:
    return (interval.min is None or interval.min <= number) and (
        interval.max is None or number <= interval.max
    )


@given(one=within(), other=within(), count=st.integers(0, 1_000))
def test_sum_difference_and_multiple_hold_those_of_the_numbers(
    one: tuple[int, Interval], other: tuple[int, Interval], count: int
) -> None:
    assert holds(one[1] + other[1], one[0] + other[0])
    assert holds(one[1] - other[1], one[0] - other[0])
    assert holds(one[1].times(count), one[0] * count)


@given(number=numbers)
def test_exact_numbers_stay_exact_and_the_unknown_stays_unknown(number: int) -> None:
    exact = Interval.exactly(number)
    assert exact - exact == ZERO
    assert exact + exact == exact.times(2) == Interval.exactly(2 * number)
    assert exact.times(None) == exact - UNKNOWN == UNKNOWN + exact == UNKNOWN


def test_a_censored_latency_is_a_minimum() -> None:
    assert latency_between(MeanLatency(1_500_000, censored=False)) == Interval.exactly(1_500)
    assert latency_between(MeanLatency(1_500_000, censored=True)) == Interval(1_500)
    assert latency_between(None) == UNKNOWN


def test_counts_are_scaled_to_a_day_outwards() -> None:
    assert a_day(Interval(1, 1), 7 * 86_400_000_000) == Interval(0, 1)
    assert a_day(Interval(3, None), 43_200_000_000) == Interval(6, None)


def test_windows_a_day_follow_from_event_time_with_its_pauses() -> None:
    def emissions(*ends: int) -> Emissions:
        nothing = np.empty(0, np.int64)
        return Emissions(np.array(ends, np.int64) * MINUTE_US, nothing, nothing)

    assert windows_a_day(emissions(1), MINUTE_US) == 1_440
    assert windows_a_day(emissions(1, 2, 3, 4), MINUTE_US) == 1_440
    assert windows_a_day(emissions(1, 2, 9, 10), MINUTE_US) == 1_440 * 4 // 10
    assert windows_a_day(emissions(), MINUTE_US) is None
    assert windows_a_day(None, MINUTE_US) is None


SAVING = Savings(
    reason="",
    bound_ms=2,
    recommended_bound_ms=1,
    now=Figures(waiting_ms=Interval.exactly(10), late_rows=Interval(0, 1)),
    recommended=Figures(waiting_ms=Interval.exactly(4), late_rows=Interval(2, 3)),
)


def test_a_bound_in_force_saves_nothing_and_one_without_a_recommendation_is_unknown() -> None:
    assert SAVING.saved == Figures(waiting_ms=Interval.exactly(6), late_rows=Interval(-3, -1))
    assert replace(SAVING, recommended_bound_ms=2).saved == NOTHING
    assert replace(SAVING, recommended=None).saved is None


def test_at_least_adds_up_to_at_least_and_what_is_not_known_at_all_is_not_counted() -> None:
    open_ended = replace(SAVING, now=Figures(waiting_ms=Interval(10)))
    found = total_of("waiting_ms", [SAVING, SAVING, open_ended, Savings(reason="")])
    assert (found.streams, found.now, found.recommended, found.saved) == (
        3,
        Interval(30),
        Interval.exactly(12),
        Interval(18),
    )
    assert total_of("late_rows", [SAVING, open_ended]).saved == Interval(-3, -1)
    assert total_of("state_rows", [SAVING]).streams == 0


@st.composite
def one_stream(draw: st.DrawFn) -> tuple[int, int, Savings]:
    """Return what a stream waits now and what it would, and what is known of that; the narrower bound waits less."""
    (now, seen), (then, foreseen) = draw(within()), draw(within())
    known = Savings(
        reason="",
        bound_ms=now,
        recommended_bound_ms=then,
        now=Figures(waiting_ms=seen, late_rows=Interval.exactly(-now)),
        recommended=Figures(waiting_ms=foreseen, late_rows=Interval.exactly(-then)),
    )
    return now, then, known


@given(streams=st.lists(one_stream(), max_size=5))
def test_sums_hold_those_of_the_numbers_and_nothing_known_is_lost(
    streams: list[tuple[int, int, Savings]],
) -> None:
    counted = [
        (now, then, each)
        for now, then, each in streams
        if each.now is not None
        and each.recommended is not None
        and UNKNOWN not in (each.now.waiting_ms, each.recommended.waiting_ms)
    ]
    found = total_of("waiting_ms", [each for _, _, each in streams])
    assert found.streams == len(counted)
    assert holds(found.now, sum(now for now, _, _ in counted))
    assert holds(found.recommended, sum(then for _, then, _ in counted))
    assert holds(found.saved, sum(now - then for now, then, _ in counted))
    for now, then, each in counted:
        assert each.saved is not None
        # It is known which of two bounds waits less, and loses more, though neither figure is.
        known = each.saved.waiting_ms.min if then < now else each.saved.waiting_ms.max
        assert now == then or known is not None
        assert holds(each.saved.late_rows, then - now)


def test_streams_that_lose_most_come_first_then_those_that_save_most_waiting_then_rows() -> None:
    def losing(rows: int) -> Savings:
        return Savings(reason="", loses=True, now=Figures(late_rows=Interval.exactly(rows)))

    little = replace(SAVING, now=Figures(waiting_ms=Interval.exactly(5)))
    rows = replace(SAVING, now=Figures(late_rows=Interval.exactly(9)))
    costly = replace(SAVING, now=Figures(waiting_ms=Interval.exactly(1)))
    order = [losing(9), losing(3), SAVING, little, rows, Savings(reason=""), costly]
    shuffled = [*order[3:], *order[:3]]
    assert sorted(shuffled, key=lambda each: each.place) == order
