"""Needs: exactly the bounds at or above its need admit a row, and the base is that of two batches before."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemark.models.base.operators import Operator, RowLevel, tumbling
from tidemark.models.evidence.ledger import BaseTracker, effective_bound_ms
from tidemark.models.evidence.needs import late_base_ms, needs_against, needs_us
from tidemark.models.protocol.messages import LiveState

from support.streams import SECOND, operators, report_of, slow_keys

LIVE = LiveState(ceiling_ms=30_000, control_ms=None, reason="")

times = st.integers(-20_000, 20_000) | st.integers(-(10**15), 10**15)


@pytest.mark.parametrize("tick_us", [1, 1_000])
@given(data=st.data())
def test_a_row_is_admitted_by_exactly_the_bounds_at_or_above_its_need(
    tick_us: int, data: st.DataObject
) -> None:
    """The definition itself: late iff ``key <= base - bound``, for every bound the engine can be given."""
    base = data.draw(times) // tick_us * tick_us
    key = data.draw(times | st.integers(base - 3_000, base + 3_000))
    (need,) = needs_us(np.array([key], np.int64), base, tick_us).tolist()
    assert need % tick_us == 0
    for ticks in range(-3, 4):
        bound = need + ticks * tick_us
        late = key <= base - bound
        assert late == (bound < need)


def test_a_key_at_the_base_needs_one_tick_and_one_above_it_none() -> None:
    """Spark drops at equality: key <= watermark."""
    keys = np.array([10_000, 10_001, 9_999, 9_000, 11_000, 11_001], np.int64)
    assert needs_us(keys, 10_000, 1_000).tolist() == [1_000, 0, 1_000, 2_000, 0, -1_000]


@given(
    operators(1_000), st.lists(st.tuples(st.sampled_from("ab"), st.integers(-30_000, 30_000)), max_size=20)
)
def test_at_millisecond_granules_needs_are_those_of_the_rows(
    operator: Operator, rows: list[tuple[str, int]]
) -> None:
    """Spark's bound and watermark have whole milliseconds, so a finer grid could tell no more."""
    base_ms = 7
    found = needs_against(report_of(rows, operator, late_watermark_ms=0), base_ms).by_partition
    for partition in "ab":
        keys = [key for name, time in rows if name == partition for key in slow_keys(operator, time)]
        expected = sorted(needs_us(np.array(keys, np.int64), base_ms * 1_000, 1_000).tolist())
        need, count = found.get(partition, (np.empty(0, np.int64), np.empty(0, np.int64)))
        assert sorted(np.repeat(need, count).tolist()) == expected


@given(st.lists(st.integers(-30_000, 30_000), min_size=1, max_size=20), st.integers(1, 10))
def test_a_coarse_granule_never_makes_a_need_too_small(rows: list[int], granule_ms: int) -> None:
    """The earliest time a granule can hold is taken: too wide a bound by a granule at most."""
    report = report_of(
        [("p", time) for time in rows], RowLevel(), late_watermark_ms=0, granule_us=granule_ms * 1_000
    )
    need, count = needs_against(report, 0).by_partition["p"]
    exact = np.sort(needs_us(np.array(rows, np.int64), 0, 1_000))
    coarse = np.sort(np.repeat(need, count))
    assert (coarse >= exact).all()
    assert (coarse - exact <= granule_ms * 1_000).all()


def test_the_needs_of_windows_are_against_the_windows_end() -> None:
    """At a base of 25 s, a row at 3 s of a window of 10 s needs 15 s and a millisecond, not 22 s."""
    report = report_of([("p", 3_000_000)], tumbling("10s"), late_watermark_ms=0)
    needs = needs_against(report, 25_000).by_partition
    assert {name: (need.tolist(), count.tolist()) for name, (need, count) in needs.items()} == {
        "p": ([15_001_000], [1])
    }


def test_the_base_of_a_batch_is_of_the_batches_up_to_two_before() -> None:
    """W(n-1) judges batch n, and W(n-1) knows the rows of batch n-2."""
    tracker = BaseTracker()
    for batch, maximum in ((0, 5_000), (1, 9_999), (2, None), (3, 2_000)):
        tracker.add(batch, maximum)
    assert [tracker.late_base_ms(batch) for batch in range(6)] == [None, None, 5, 9, 9, 9]


@given(st.lists(st.none() | st.integers(-(10**6), 10**6), max_size=12), st.randoms())
def test_the_base_does_not_depend_on_the_order_of_reports_nor_on_repeats(
    maxima: list[int | None], random: Random
) -> None:
    """Reports are retried and overtake each other."""
    body = list(enumerate(maxima)) * 2
    random.shuffle(body)
    tracker = BaseTracker()
    for batch, maximum in body:
        tracker.add(batch, maximum)
    for batch in range(len(maxima) + 3):
        before = [maximum // 1_000 for maximum in maxima[: max(batch - 1, 0)] if maximum is not None]
        assert tracker.late_base_ms(batch) == max(before, default=None)


@pytest.mark.parametrize("maxima_us", [(3_000, 7_000), (7_000, 3_000)])
def test_a_batch_that_ran_twice_counts_with_the_newest_row_of_both(maxima_us: tuple[int, int]) -> None:
    tracker = BaseTracker()
    for maximum_us in maxima_us:
        tracker.add(0, maximum_us)

    assert tracker.late_base_ms(2) == 7


@pytest.mark.parametrize("greatest", [0, 1, 2])
def test_of_the_oldest_batches_the_greatest_maximum_outlives_what_is_forgotten(greatest: int) -> None:
    tracker = BaseTracker()
    for batch in range(BaseTracker._REMEMBERED + 2):
        tracker.add(batch, 9_000_000 if batch == greatest else 1_000)

    assert tracker.late_base_ms(BaseTracker._REMEMBERED + 3) == 9_000


@pytest.mark.parametrize(
    ("reported_ms", "earlier_us", "base_ms"),
    [(None, None, None), (5, None, 5), (None, 7_999, 7), (5, 7_999, 7), (9, 7_999, 9)],
)
def test_the_base_of_a_filter_is_the_later_of_what_its_run_saw_and_what_earlier_reports_say(
    reported_ms: int | None, earlier_us: int | None, base_ms: int | None
) -> None:
    assert late_base_ms(reported_ms, earlier_us) == base_ms


@pytest.mark.parametrize(
    ("base_ms", "watermark_ms", "bound_ms"), [(None, 40, None), (100, 0, None), (100, 1, 99), (100, 140, -40)]
)
def test_the_bound_in_effect_is_how_far_the_watermark_trails_the_base_where_there_are_both(
    base_ms: int | None, watermark_ms: int, bound_ms: int | None
) -> None:
    assert effective_bound_ms(base_ms, watermark_ms) == bound_ms


def test_a_maximum_counts_however_many_batches_ago_it_was() -> None:
    """A driver runs for months, and takes no more memory then."""
    tracker = BaseTracker()
    for batch in range(3_000):
        tracker.add(batch, (5_000 - batch) * 1_000)
        assert tracker.late_base_ms(batch + 2) == 5_000
    assert tracker.late_base_ms(2_500) == 5_000
    assert len(tracker._maxima_ms) == BaseTracker._REMEMBERED


@pytest.mark.parametrize(
    ("batch", "late_watermark_ms", "early"),
    [(1, None, True), (2, None, False), (2, 1, False), (2, 0, True), (500, 0, True), (1, 1, True)],
)
def test_rows_without_a_base_are_early_where_the_filter_had_no_watermark_and_else_unknown(
    batch: int, late_watermark_ms: int | None, *, early: bool
) -> None:
    report = report_of([("p", 5)] * 3, RowLevel(), late_watermark_ms=late_watermark_ms, batch_id=batch)
    found = needs_against(report, None)
    assert (found.early_rows, found.unknown_rows, found.pairs) == ((3, 0, 0) if early else (0, 3, 0))


@pytest.mark.parametrize(
    ("watermark_s", "reported_base_s", "live", "dropped"),
    [
        (90, 120, None, 2),  # the base it names has a clock that is ahead in it
        (90, 120, LIVE, 2),
        (105, None, None, 3),  # its own run has no base yet, and no bound is below 0
        (105, None, LIVE, 0),  # a watermark of Live owes nothing to a base
        (60, 100, None, 0),
    ],
)
def test_a_row_that_the_bound_admits_is_lost_to_clocks_where_the_watermark_follows_one_that_is_ahead(
    watermark_s: int, reported_base_s: int | None, live: LiveState | None, dropped: int
) -> None:
    """Against a base of 100 s and a bound of 30 s, rows at 60, 80, 85 and 99 s: the first is late by itself."""
    report = report_of(
        [("p", at * SECOND) for at in (60, 80, 85, 99)],
        RowLevel(),
        bound_ms=30_000,
        late_watermark_ms=watermark_s * 1_000,
        late_base_ms=None if reported_base_s is None else reported_base_s * 1_000,
        batch_id=9,
    )
    needs = needs_against(replace(report, live=live), 100_000)
    assert (needs.misdated_late, needs.misdated_pairs) == (dropped, dropped)
    whole = needs_against(replace(report, live=live, output_mode="complete"), 100_000)
    assert whole.misdated_late == 0
