"""The kinds of stream that real systems have: in each, what it is about happens."""

from __future__ import annotations

from collections.abc import Collection
from functools import cache

import numpy as np
import pytest
from numpy.typing import NDArray

from support.streams import SECOND
from support.synthetic import KINDS, RATE, START_US, Trace, synthetic
from support.system_kinds import SYSTEM_KINDS, make_trace, window_us_of

pytestmark = pytest.mark.slow

every_kind = pytest.mark.parametrize("kind", SYSTEM_KINDS)
seeds = pytest.mark.parametrize("seed", [1, 2])


@cache
def drawn(kind: str, seed: int) -> Trace:
    return make_trace(kind, seed)


def delays_s(trace: Trace) -> NDArray[np.float64]:
    return (trace.arrival_time_us - trace.event_time_us) / SECOND


def rows_per_s(times_us: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.bincount((times_us - int(times_us.min())) // SECOND)


def silences_s(times_us: NDArray[np.int64]) -> NDArray[np.float64]:
    return np.diff(times_us) / SECOND


@every_kind
@seeds
def test_rows_ascend_by_arrival_and_are_few_enough_to_judge(kind: str, seed: int) -> None:
    trace = drawn(kind, seed)
    assert (np.diff(trace.arrival_time_us) >= 0).all()
    assert [column.dtype for column in trace] == [np.int64, np.int64, np.int32]
    assert len({len(column) for column in trace}) == 1
    assert len(trace.event_time_us) <= 400_000


@every_kind
@seeds
def test_a_row_arrives_after_it_happened_unless_its_clock_runs_fast(kind: str, seed: int) -> None:
    trace = drawn(kind, seed)
    early = np.unique(trace.partition[delays_s(trace) < 0])
    assert len(early) == (1 if kind == "drift" else 0)


@every_kind
def test_the_seed_decides_everything(kind: str) -> None:
    one, again, other = drawn(kind, 1), make_trace(kind, 1), drawn(kind, 2)
    assert np.array_equal(np.vstack(one), np.vstack(again))
    assert (one.event_time_us[0] - START_US) % window_us_of(kind) != 0
    assert one.event_time_us[0] != other.event_time_us[0]


@every_kind
def test_partitions_are_numbered_as_they_appear(kind: str) -> None:
    first = np.unique(drawn(kind, 1).partition, return_index=True)[1]
    assert (np.diff(first) > 0).all()


def test_the_synthetic_kinds_are_drawn_as_they_are() -> None:
    assert not SYSTEM_KINDS.keys() & KINDS.keys()
    assert np.array_equal(np.vstack(make_trace("night", 1)), np.vstack(synthetic("night", 1, rate=RATE)))


@seeds
@pytest.mark.parametrize(
    ("kind", "factor", "seconds"),
    [
        ("spike", 20, 120),
        ("spike_mild", 6, 120),
        ("spike_newest_first", 20, 120),
        ("spike_put_aside", 20, 120),
    ],
)
def test_in_a_spike_traffic_is_many_times_what_it_was_and_served_four_times(
    kind: str, factor: int, seconds: int, seed: int
) -> None:
    trace = drawn(kind, seed)
    happened, arrived = rows_per_s(trace.event_time_us), rows_per_s(trace.arrival_time_us)
    assert abs(int((happened > 40 * (1 + factor) / 2).sum()) - seconds) <= 4
    assert np.median(happened) == pytest.approx(50, rel=0.05)
    assert happened.max() == pytest.approx(50 * factor, rel=0.15)
    assert arrived[:-1].max() <= 402, "the queue, and beside it what was put aside"


@seeds
def test_a_queue_keeps_the_order_unless_it_serves_the_newest_first_or_puts_rows_aside(seed: int) -> None:
    behind_s = {
        kind: np.quantile(np.maximum.accumulate(trace.event_time_us) - trace.event_time_us, 0.99) / SECOND
        for kind in ("spike", "spike_newest_first", "spike_put_aside")
        for trace in [drawn(kind, seed)]
    }
    assert behind_s["spike"] < 1
    assert min(behind_s["spike_newest_first"], behind_s["spike_put_aside"]) > 200


@seeds
def test_what_a_queue_puts_aside_comes_minutes_later_and_the_rest_within_its_limit(seed: int) -> None:
    delay = delays_s(drawn("spike_put_aside", seed))
    assert 0.2 < (delay > 180).mean() < 0.4
    assert np.quantile(delay[delay < 60], 0.999) < 20


@seeds
def test_new_partitions_are_found_a_minute_late_with_their_backlog(seed: int) -> None:
    trace = drawn("growth", seed)
    first_us, waited_s = {}, {}
    for partition in range(int(trace.partition.max()) + 1):
        its = trace.partition == partition
        first_us[partition] = int(trace.event_time_us[its].min())
        waited_s[partition] = float(delays_s(trace)[its].max())
    late = [each for each in first_us if first_us[each] > min(first_us.values()) + 60 * SECOND]
    assert len(late) == len(first_us) * 3 // 4
    assert all(39 < waited_s[each] < 90 for each in late)


@seeds
def test_partitions_leave_for_good(seed: int) -> None:
    trace = drawn("shrink", seed)
    last_us = [trace.arrival_time_us[trace.partition == each].max() for each in np.unique(trace.partition)]
    gone = np.array(last_us) < trace.arrival_time_us[-1] - 60 * SECOND
    assert int(gone.sum()) == len(gone) * 3 // 4
    assert 5 < np.quantile(delays_s(trace)[trace.partition == int(np.argmin(gone))], 0.999) < 40


@seeds
def test_young_partitions_live_for_minutes_with_delays_of_their_own(seed: int) -> None:
    trace = drawn("young", seed)
    partitions = range(int(trace.partition.max()) + 1)
    lives_s = [np.ptp(trace.event_time_us[trace.partition == each]) / SECOND for each in partitions]
    medians_s = [float(np.median(delays_s(trace)[trace.partition == each])) for each in partitions]
    assert len(partitions) > 40
    assert 120 < np.median(lives_s) < 480 >= max(lives_s)
    assert min(medians_s) < 0.2
    assert max(medians_s) > 5


@seeds
@pytest.mark.parametrize(
    ("kind", "times", "least_s", "most_s"),
    [("outage", {1}, 149, 211), ("outages", range(11, 30), 59, 241)],
)
def test_nothing_is_read_for_minutes_and_then_all_within_a_second(
    kind: str, times: Collection[int], least_s: int, most_s: int, seed: int
) -> None:
    arrival_us = drawn(kind, seed).arrival_time_us
    silences = silences_s(arrival_us)
    ends = np.flatnonzero(silences > 20) + 1
    assert len(ends) in times
    assert all(least_s < silences[end - 1] < most_s for end in ends)
    for end in ends:
        within = np.searchsorted(arrival_us, [arrival_us[end], arrival_us[end] + SECOND])
        assert np.ptp(within) > 10 * silences[end - 1], "the rows of the outage, at 16 a second or more"


@seeds
def test_a_producer_holds_its_rows_for_minutes_three_times(seed: int) -> None:
    trace = drawn("producer_outage", seed)
    silences = {each: silences_s(trace.arrival_time_us[trace.partition == each]) for each in range(8)}
    stopped = {each: int((its > 60).sum()) for each, its in silences.items()}
    assert sorted(stopped.values()) == [0] * 7 + [3]
    its = silences[max(stopped, key=lambda each: stopped[each])]
    assert ((its[its > 60] > 119) & (its[its > 60] < 601)).all()


@seeds
def test_one_partition_uploads_once_an_hour(seed: int) -> None:
    trace = drawn("hourly", seed)
    shares = np.bincount(trace.partition) / len(trace.partition)
    its = trace.arrival_time_us[trace.partition == int(np.argmin(shares))]
    gaps = silences_s(its)
    assert shares.min() == pytest.approx(0.05, rel=0.05)
    assert int((gaps > 60).sum()) in {11, 12}
    assert np.abs(gaps[gaps > 60] - 3_600).max() < 245
    assert delays_s(trace).max() < 3_600 + 481


@seeds
def test_phones_come_back_after_minutes_to_hours_with_all_their_rows(seed: int) -> None:
    delay = delays_s(drawn("phones", seed))
    assert 0.01 < (delay > 60).mean() < 0.06
    assert 3_600 < delay.max() < 4 * 3_600 + 60
    assert 0.001 < (delay > 3_600).mean() < 0.02


@seeds
def test_one_clock_runs_fast_and_one_slow_until_they_are_set(seed: int) -> None:
    trace = drawn("drift", seed)
    medians_s = sorted(_medians_s(trace))
    assert medians_s[0] < 0 < medians_s[1] < 0.3
    assert medians_s[3] > 0.5
    for each, sign in ((np.argmin(_medians_s(trace)), -1), (np.argmax(_medians_s(trace)), 1)):
        its = trace.partition == each
        minute = (trace.event_time_us[its] - int(trace.event_time_us.min())) // (60 * SECOND)
        error_s = [np.median(delays_s(trace)[its][minute == one]) for one in np.unique(minute)]
        steps = np.diff(error_s) * sign
        assert 3 <= int((steps < -0.3).sum()) <= 8, "set a few times in two hours"
        assert 0.03 < np.median(steps) < 0.27, "1 to 4 ms a second"


def _medians_s(trace: Trace) -> NDArray[np.float64]:
    return np.array([np.median(delays_s(trace)[trace.partition == each]) for each in range(4)])


@seeds
def test_delays_swing_by_the_day(seed: int) -> None:
    trace = drawn("days", seed)
    hour = (trace.event_time_us // SECOND // 3_600).astype(int)
    medians_s = np.array([np.median(delays_s(trace)[hour == each]) for each in np.unique(hour)[1:-1]])
    assert len(medians_s) > 70
    assert 15 < medians_s.max() / medians_s.min() < 25
    assert np.corrcoef(medians_s[24:], medians_s[:-24])[0, 1] > 0.9


def test_sparse_rows_are_a_minute_apart() -> None:
    assert np.mean(silences_s(np.sort(drawn("sparse", 1).event_time_us))) == pytest.approx(60, rel=0.01)


@seeds
def test_rare_clusters_at_the_end_of_a_window_come_late_at_once(seed: int) -> None:
    trace = drawn("edges", seed)
    late = (delays_s(trace) > 5) & (-trace.event_time_us % (10 * SECOND) <= SECOND // 10)
    windows, rows = np.unique(trace.event_time_us[late] // (10 * SECOND), return_counts=True)
    assert 10 <= int((rows >= 20).sum()) <= 14
    assert len(windows) < 30
    assert 0.001 < late.mean() < 0.004
