"""The synthetic traces of the tests: what each kind promises, so that a policy judged on it is judged on that."""

from __future__ import annotations

import numpy as np
import pytest

from support.streams import SECOND
from support.synthetic import KINDS, Trace, fifo, synthetic

pytestmark = pytest.mark.slow

every_kind = pytest.mark.parametrize("kind", KINDS)
SHORT_S = 1_800


def short(kind: str, seed: int = 1) -> Trace:
    return synthetic(kind, seed, rate=100, seconds=SHORT_S)


def delays_s(trace: Trace) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    return (trace.arrival_time_us - trace.event_time_us) / SECOND


def silences_s(
    times_us: np.ndarray[tuple[int], np.dtype[np.int64]],
) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    return np.diff(times_us) / SECOND


@every_kind
def test_rows_ascend_by_arrival_and_are_typed_as_a_trace(kind: str) -> None:
    trace = short(kind)
    assert (np.diff(trace.arrival_time_us) >= 0).all()
    assert [column.dtype for column in trace] == [np.int64, np.int64, np.int32]
    assert len({len(column) for column in trace}) == 1


@every_kind
def test_a_row_arrives_after_it_happened(kind: str) -> None:
    """All but the few that are future-dated."""
    early = int((delays_s(short(kind)) <= 0).sum())
    assert 3 <= early <= 8 if kind == "future" else early == 0


@every_kind
def test_the_rate_is_as_asked(kind: str) -> None:
    """By night there are no rows, so about half of them; in shifts six partitions of eight may rest for 20 minutes."""
    share = len(short(kind).event_time_us) / (100 * SHORT_S)
    least, most = {"night": (0.35, 0.65), "shifts": (0.49, 1.0)}.get(kind, (1, 1))
    assert least <= share <= most


@pytest.mark.parametrize("kind", ["stationary", "joint", "stalls"])
def test_the_rows_of_a_pack_happen_at_once_in_one_partition_with_delays_of_their_own(kind: str) -> None:
    trace = synthetic(kind, 1, rate=100, seconds=SHORT_S, pack=20)
    packs, rows = np.unique(
        np.column_stack([trace.event_time_us, trace.partition]), axis=0, return_counts=True
    )
    assert len(packs) == SHORT_S * 100 // 20
    assert (rows == 20).all()
    if kind == "stationary":
        assert len(np.unique(delays_s(trace))) > 0.8 * len(trace.event_time_us)


def per_minute(trace: Trace, partition: int | None = None) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    of_it = trace.event_time_us if partition is None else trace.event_time_us[trace.partition == partition]
    return np.bincount((of_it - int(trace.event_time_us.min())) // (60 * SECOND), minlength=SHORT_S // 60)


@pytest.mark.parametrize(
    ("traffic", "lowest", "highest"),
    [("steady", 0.95, 1.05), ("jumps", 0.05, 1.05), ("swing", 0.04, 1.05), ("spikes", 0.08, 0.5)],
)
def test_the_rate_changes_with_the_traffic(traffic: str, lowest: float, highest: float) -> None:
    share = per_minute(synthetic("stationary", 1, rate=200, seconds=SHORT_S, traffic=traffic))[1:-1] / 12_000
    assert lowest <= share.min() <= share.max() <= highest
    assert (share.max() > 1.5 * share.min()) == (traffic != "steady")


def test_with_shares_each_partition_has_a_rate_of_its_own() -> None:
    trace = synthetic("stationary", 1, rate=200, seconds=SHORT_S, partitions=4, traffic="shares")
    shares = np.array([per_minute(trace, partition)[1:-1] for partition in range(4)]) / 3_000
    assert shares.min() < 0.1
    assert shares.max() > 0.9
    assert np.abs(np.corrcoef(shares) - np.eye(4)).max() < 0.9


@every_kind
def test_the_seed_decides_everything(kind: str) -> None:
    one, again, other = short(kind), short(kind), short(kind, 2)
    assert np.array_equal(np.vstack(one), np.vstack(again))
    assert one.arrival_time_us[0] != other.arrival_time_us[0]


@every_kind
def test_the_start_on_the_grid_and_the_partitions_vary_with_the_seed(kind: str) -> None:
    traces = [synthetic(kind, seed, rate=20, seconds=900) for seed in range(12)]
    phases = {int(trace.arrival_time_us[0] // SECOND % 60) for trace in traces}
    counts = {len(set(trace.partition.tolist())) for trace in traces}
    assert len(phases) > 5
    fixed = {"stalls": {2}, "slow": {8}, "shifts": {8}}
    assert counts == fixed[kind] if kind in fixed else len(counts) > 2
    assert set(synthetic(kind, 1, rate=20, seconds=900, partitions=3).partition.tolist()) == {0, 1, 2}


def test_the_usual_delay_has_a_median_of_200_ms_and_sigma_1() -> None:
    delay = np.log(delays_s(short("stationary")))
    assert np.exp(np.median(delay)) == pytest.approx(0.2, rel=0.02)
    assert delay.std() == pytest.approx(1, abs=0.01)


def test_no_row_overtakes_another_in_a_queue() -> None:
    """In the order in which they enter, rows leave: not before they entered, not while it stops, not too fast."""
    rng = np.random.default_rng(2)
    entered = rng.uniform(0, 100, 5_000)
    stopped = np.array([[10.0, 30.0], [29.0, 35.0], [80.0, 90.0]])
    left = fifo(entered, stopped, 200)
    in_order = left[np.argsort(entered, kind="stable")]
    assert (np.diff(in_order) >= 1 / 200 - 1e-9).all()
    assert (left >= entered - 1e-9).all()
    assert not (((left > 10) & (left < 35)) | ((left > 80) & (left < 90))).any()
    idle = fifo(np.array([5.0, 1.0, 2.0]), stopped, 200)
    assert idle.tolist() == pytest.approx([5.0, 1.0, 2.0]), "a queue that is not busy delays nobody"


@pytest.mark.parametrize("seed", range(4))
def test_in_a_joint_stall_three_in_ten_partitions_stop_together_and_keep_their_order(seed: int) -> None:
    trace = synthetic("joint", seed, rate=200, seconds=SHORT_S)
    count = int(trace.partition.max()) + 1
    own = [trace.arrival_time_us[trace.partition == one] for one in range(count)]
    longest = [silences_s(times).max() for times in own]
    queues = np.flatnonzero(np.array(longest) > 9)
    assert count in range(8, 33, 4)
    assert len(queues) == round(0.3 * count)
    begins = [own[one][:-1][silences_s(own[one]) > 9] for one in queues]
    assert {len(each) for each in begins} == {2}
    assert np.ptp(np.array(begins) / SECOND, axis=0).max() < 2, "all stop at the same time"


@pytest.mark.parametrize("seed", range(4))
def test_of_the_shifts_two_partitions_go_on_and_the_others_rest_for_20_minutes(seed: int) -> None:
    trace = synthetic("shifts", seed, rate=50, seconds=7_200)
    longest = [silences_s(trace.arrival_time_us[trace.partition == one]).max() for one in range(8)]
    assert max(longest[:2]) < 60
    assert all(1_190 < each < 1_260 for each in longest[2:])


@pytest.mark.parametrize("seed", range(4))
def test_the_slow_partition_trails_by_a_constant(seed: int) -> None:
    trace = synthetic("slow", seed, rate=100, seconds=SHORT_S)
    delay = delays_s(trace)
    medians = sorted(np.median(delay[trace.partition == one]) for one in range(8))
    assert medians[6] < 0.25
    assert 5 < medians[7] < 60.5


@pytest.mark.parametrize("seed", range(4))
def test_by_night_the_whole_stream_is_silent(seed: int) -> None:
    trace = synthetic("night", seed, rate=50, seconds=7_200)
    silences = silences_s(trace.arrival_time_us)
    nights = silences[silences > 60]
    assert 2 <= len(nights) <= 6
    assert (nights > 0.38 * 7_200 / 6).all()
    assert (nights < 0.62 * 7_200 / 3).all()


@pytest.mark.parametrize("seed", range(4))
def test_bursts_come_and_go(seed: int) -> None:
    """Of the minutes some have large delays and the others have not."""
    trace = synthetic("bursts", seed, rate=100, seconds=7_200)
    good_windows = (trace.event_time_us - trace.event_time_us.min()) // (5 * SECOND)
    order = np.argsort(good_windows, kind="stable")
    parts = np.split(delays_s(trace)[order], np.flatnonzero(np.diff(good_windows[order])) + 1)
    share = np.mean([np.median(part) > 0.6 for part in parts])
    assert 0.01 < share < 0.3


def test_the_diurnal_delay_swings_between_1_and_6_times_the_usual() -> None:
    trace = synthetic("diurnal", 3, rate=200, seconds=3_600)
    minute = (trace.event_time_us - trace.event_time_us.min()) // (60 * SECOND)
    medians = [np.median(delays_s(trace)[minute == one]) for one in range(60)]
    assert min(medians) == pytest.approx(0.2, rel=0.05)
    assert max(medians) == pytest.approx(1.2, rel=0.05)


def test_a_heavy_tail_has_delays_of_minutes() -> None:
    delay = delays_s(short("heavy"))
    assert np.median(delay) == pytest.approx(0.203, rel=0.02)
    assert (delay > 2).mean() == pytest.approx(0.02, abs=0.002)
    assert delay.max() > 120


@pytest.mark.slow
def test_a_few_rows_are_dated_a_day_ahead() -> None:
    delay = delays_s(short("future"))
    future = delay[delay < 0]
    assert ((future > -86_400) & (future < -86_000)).all()
