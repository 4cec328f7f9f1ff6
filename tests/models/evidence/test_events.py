"""How many rows share their fate: packs are found as large as they are, and single rows as one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemark.models.base.confidence import certified_rank
from tidemark.models.evidence.events import BOUNDS, NO_BATCHES, LateBatches, Overdispersion
from tidemark.models.evidence.sketch import Sketch

from support.delivered_days import KINDS, looks, quantiles

SECOND = 1_000_000


def batch_of(needs_s: list[float], counts: list[int] | None = None) -> LateBatches:
    needs = Sketch().buckets_of([need * SECOND for need in needs_s])
    return LateBatches.of_batch(needs, np.array([1] * len(needs_s) if counts is None else counts, np.int64))


NEEDS = st.lists(st.floats(-10, 10**6), max_size=30)


@given(st.lists(NEEDS, max_size=5))
def test_late_rows_and_their_squares_add_up_over_batches_and_come_back_from_bytes(
    batches: list[list[float]],
) -> None:
    each = [batch_of(needs) for needs in batches]
    total = sum(each, NO_BATCHES)
    assert total.late[0] == sum(map(len, batches))
    assert total.squares[0] == sum(len(needs) ** 2 for needs in batches)
    assert (np.diff(total.late) <= 0).all()
    again = LateBatches.from_bytes(total.to_bytes())
    assert np.array_equal(again.late, total.late)
    assert np.array_equal(again.squares, total.squares)
    left = total - sum(each[1:], NO_BATCHES)
    if each:
        assert np.array_equal(left.late, each[0].late)
        assert np.array_equal(left.squares, each[0].squares)


def test_rows_are_counted_above_a_millisecond_and_up_to_a_week() -> None:
    found = batch_of([-5, 0.001, 0.002, 604_800], [1, 2, 4, 8])
    assert found.late[:2].tolist() == [15, 12]
    assert found.late[BOUNDS] == 8


def test_a_batch_costs_as_many_bytes_as_its_widest_need() -> None:
    assert NO_BATCHES.to_bytes() == b""
    assert len(batch_of([-1.0]).to_bytes()) == 24
    assert len(batch_of([60.0]).to_bytes()) < 24 * (1 + BOUNDS)


def in_packs(rows: int, packs: int, seed: int = 1) -> Overdispersion:
    """Return twenty-four hours of batches, of which each has ten packs of rows of one need."""
    dice = np.random.default_rng(seed)
    hours = []
    for _ in range(24):
        batches = (dice.exponential(5, 10) for _ in range(packs // 240))
        hours.append(sum((batch_of(needs.tolist(), [rows] * 10) for needs in batches), NO_BATCHES))
    return Overdispersion.of(hours)


@pytest.mark.parametrize("rows", [1, 5, 20, 100])
def test_a_pack_is_one_event(rows: int) -> None:
    """It is found at least as large as it is, and by a standard deviation or two larger."""
    found = in_packs(rows, 24_000).rows_per_event(990_000)
    assert rows <= found < 2 * rows + 1


def test_the_size_does_not_depend_on_how_many_rows_there_are() -> None:
    few, many = (in_packs(20, packs).rows_per_event(990_000) for packs in (4_800, 48_000))
    assert few == pytest.approx(many, rel=0.5)


def test_rows_that_come_alone_are_an_event_each() -> None:
    """Without doubt: what has not come yet is what evidence of some hours covers, or does not."""
    alone = batch_of([0.5] * 99 + [50.0])
    for some in ([], [batch_of([-1.0] * 1_000)], [sum([alone] * 24, NO_BATCHES)]):
        assert Overdispersion.of(some).rows_per_event(990_000) == 1


def test_two_bursts_count_for_as_many_rows_as_a_third_one_may_have() -> None:
    """Of 50 rows each among 10,000: that both were so large says little of the next ones."""
    found = Overdispersion.of([sum([batch_of([0.5] * 10)] * 1_000 + [batch_of([50.0] * 50)] * 2, NO_BATCHES)])
    assert 100 < found.rows_per_event(990_000) < 150


def test_a_few_stalls_do_not_hide_among_rows_that_are_late_alone() -> None:
    """Three have brought 30 rows, an eighth of the budget, where twice as many are late by themselves."""
    batches = [batch_of([0.5] * 400 + [5.0])] * 60 + [batch_of([50.0] * 10)] * 3
    assert Overdispersion.of([sum(batches, NO_BATCHES)]).rows_per_event(990_000) > 15


def test_what_came_late_in_one_batch_is_one_event() -> None:
    """A hundred rows of an upload among 10,000 prove no more than a few single ones."""
    alone = [batch_of([0.5] * 99 + [50.0]) for _ in range(100)]
    upload = [batch_of([0.5] * 99) for _ in range(100)] + [batch_of([50.0] * 100)]
    apart, together = (
        Overdispersion.of([sum(some, NO_BATCHES)]).rows_per_event(990_000) for some in (alone, upload)
    )
    assert apart < 1.5
    assert together > 15


def test_a_slow_hour_is_seen_though_its_rows_come_in_batches_of_their_own() -> None:
    hour = sum((batch_of([0.5] * 99 + [50.0]) for _ in range(100)), NO_BATCHES)
    slow = sum((batch_of([0.5] * 90 + [50.0] * 10) for _ in range(100)), NO_BATCHES)
    assert Overdispersion.of([hour] * 20).rows_per_event(990_000) < 1.5
    assert Overdispersion.of([hour] * 20 + [slow]).rows_per_event(990_000) > 20


@given(
    rows=st.integers(1, 2**40),
    batches=st.integers(1, 20),
    hours=st.integers(1, 24),
    need_s=st.sampled_from([-1.0, 50.0]),
)
def test_batches_of_any_size_leave_the_bound_that_the_others_need_and_count_for_few_events(
    rows: int, batches: int, hours: int, need_s: float
) -> None:
    """A load, an hour of a backfill, a flood: of 400 other batches 5 % of the rows need 50 s."""
    others = [batch_of([0.5] * 57 + [50.0] * 3)] * 400
    load = [batch_of([need_s], [60 * rows])] * batches
    usual, found = (
        Overdispersion.of(sum(some[hour::hours], NO_BATCHES) for hour in range(hours))
        for some in (others, others + load)
    )
    assert usual.bound_alike_us(990_000) is None
    alike_us = found.bound_alike_us(990_000)
    # Up to 1,000 times as many rows are taken for true: then the batch is one of a few.
    if rows > 200 and batches == 1:
        assert alike_us is not None
        assert found.events(990_000) < usual.events(990_000) * max(rows / 400, 1)
    if alike_us is not None:
        assert 50 * SECOND <= alike_us < 70 * SECOND


@given(st.lists(NEEDS, max_size=8), st.integers(1, 999_999))
def test_an_event_has_at_least_one_row(slots: list[list[float]], target_ppm: int) -> None:
    found = Overdispersion.of([batch_of(needs) for needs in slots]).rows_per_event(target_ppm)
    assert 1 <= found < np.inf


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_certificate_holds_at_all_looks_of_a_day(kind: str) -> None:
    """Ten days of each kind, looked at every ten minutes from the second hour on; ``bench_certificate`` has 1,000.

    With a failing day in 20 promised, three in ten would come once in 90 runs; these seeds are fixed. By raw rows and
    for one look, nine in ten fail where rows come in packs.
    """
    shares = np.array([0.1, 0.05, 0.03, 0.02, 0.015, 0.011, 0.0095, 0.007, 0.005, 0.003, 0.001])
    bounds_s, dice, failed = quantiles(KINDS[kind], shares, days=40), np.random.default_rng(3), 0
    for _ in range(10):
        wrong = False
        for look in looks(KINDS[kind], bounds_s, dice, 3_600, 600):
            rank = certified_rank(look.rows, 0.99, 0.95, look.overdispersion.rows_per_event(990_000))
            certified = np.zeros(len(shares), bool) if rank is None else look.late <= look.rows - rank
            wrong = wrong or bool((certified & (shares > 0.01)).any())
        failed += wrong
    assert failed <= 2
