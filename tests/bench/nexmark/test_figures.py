"""The benchmark's bids and figures: what is counted is what was sent, and each figure is what a person would count."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bench.nexmark.bids import PARTITIONS, SHORT_S, WINDOW_S, Bids, make_bids
from bench.nexmark.figures import Result, dropped_by_step, figures_of
from bench.nexmark.in_spark import Batch
from bench.nexmark.stages import STAGES, Stage
from bench.nexmark.systems import systems_of
from bench.nexmark.tables import benchmark_tables, systems_table, time_text

BEGIN_US = 1_767_225_600_000_000
PART_S, STEP_S = 120, 60
RECORD = {"counted_s": SHORT_S, "part_s": PART_S, "speed": 1, "target_ppm": 995_000}


def bids_of(*rows: tuple[int, int, float, float]) -> Bids:
    """Return bids of auction, price, event time and arrival."""
    auction, price, event_s, arrival_s = (np.array(column) for column in zip(*rows, strict=True))
    zeros = np.zeros(len(rows), np.int64)
    return Bids(auction, zeros, price, event_s.astype(float), arrival_s.astype(float), zeros, SHORT_S)


def result(end_s: int, auction: int, bids: int, max_price: int, written_s: float) -> Result:
    return Result(
        BEGIN_US + end_s * 1_000_000, auction, bids, max_price, BEGIN_US + round(written_s * 1_000_000)
    )


def found_in(bids: Bids, results: list[Result]) -> dict[str, Any]:
    return figures_of(bids, BEGIN_US, results, PART_S, STEP_S)


BIDS = bids_of((1, 5, 0.5, 1), (1, 9, 4, 5), (2, 3, 12, 13), (1, 7, 9, 40), (1, 1, SHORT_S + 1, SHORT_S + 1))


def test_completeness_latency_and_state_are_those_of_the_sink() -> None:
    found = found_in(BIDS, [result(10, 1, 2, 9, 14), result(20, 2, 1, 3, 26)])
    assert (found["sent"], found["counted"]) == (4, 3)
    assert found["latency_mean_s"] == pytest.approx(5)
    assert found["state"] == 2, "from 13 s to 14 s"
    assert found["parts"][0] == {"sent": 4, "counted": 3, "latency_mean_s": pytest.approx(5)}
    assert found["steps"] == [[4, 3, pytest.approx(5)], *[[0, 0, None]] * 7]


def test_bids_before_and_after_do_not_count() -> None:
    warm, after = result(0, 0, 8, 0, 1), result(SHORT_S + 10, 1, 1, 1, SHORT_S + 20)
    found = found_in(BIDS, [warm, result(10, 1, 2, 9, 14), after])
    assert (found["sent"], found["counted"]) == (4, 2)


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        (result(10, 1, 4, 9, 14), "was not sent"),
        (result(10, 1, 2, 10, 14), "was not sent"),
        (result(10, 3, 1, 1, 14), "has no bid"),
    ],
)
def test_a_result_that_the_bids_do_not_allow_is_an_error(wrong: Result, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        found_in(BIDS, [wrong])


def test_a_window_that_comes_twice_is_an_error() -> None:
    with pytest.raises(ValueError, match="of one window"):
        found_in(BIDS, [result(10, 1, 2, 9, 14)] * 2)


def test_a_part_without_results_has_no_latency() -> None:
    rows = [(1, 5, begin_s + 10.0, begin_s + 11.0) for begin_s in range(0, SHORT_S, PART_S)]
    found = found_in(bids_of(*rows), [])
    assert found["parts"][1] == {"sent": 1, "counted": 0, "latency_mean_s": None}
    assert ", none |" in benchmark_tables(RECORD | {"systems": [{"system": "s", "watermark": "w", **found}]})


def test_the_table_does_not_round_a_missed_target_up_to_it() -> None:
    system = {
        "system": "Spark",
        "watermark": "10 s",
        "sent": 100_000,
        "counted": 99_499,
        "latency_mean_s": 12.34,
        "latency_p95_s": 20.0,
        "state": 1_234,
        "parts": [{"sent": 100_000, "counted": 99_499, "latency_mean_s": 12.34}],
    }
    first, second = benchmark_tables(RECORD | {"systems": [system]}).split("\n\n")
    assert (
        first.splitlines()[2] == "| Spark | 10 s | **99.49 %** | 501 |  | 00:00 | 12.3 s | 20.0 s | 1,234 |"
    )
    assert second.splitlines()[2] == "| 00:00 to 00:02 | **99.49 %**, 12.3 s |"


def test_what_spark_says_is_counted_in_the_step_in_which_a_batch_began() -> None:
    batches = [Batch(BEGIN_US + second * 1_000_000, 1.0, 10, second) for second in (1, 59, 61, SHORT_S)]
    found = dropped_by_step(batches, BEGIN_US, SHORT_S, STEP_S)
    assert found == {"dropped": 601, "said": [[20, 60], [10, 61], *[[0, 0]] * 6]}
    assert dropped_by_step([], BEGIN_US, SHORT_S, STEP_S) == {}


def test_what_spark_says_stands_beside_what_was_lost() -> None:
    found = found_in(BIDS, [result(10, 1, 2, 9, 14)])
    system = {"system": "Spark", "watermark": "10 s", **found, "dropped": 1}
    record = RECORD | {"systems": [system]}
    assert "| Spark | 10 s | **50.00 %** | 2 | 1 | 00:00 | 4.0 s |" in systems_table(record)
    assert "| Spark | 10 s | **50.00 %** | 4.0 s |" in systems_table(record, losses=False)


def test_times_are_shown_as_those_of_the_day() -> None:
    assert [time_text(2, 1), time_text(1.5, 30), time_text(10, 30), time_text(None, 30)] == [
        "2.0 s",
        "45.0 s",
        "5.0 min",
        "none",
    ]


@pytest.mark.parametrize("stage", STAGES.values(), ids=STAGES)
def test_the_bids_are_the_same_each_time_and_arrive_in_order_before_the_end(stage: Stage) -> None:
    bids, again = stage.make(), stage.make()
    assert all(np.array_equal(getattr(bids, name), getattr(again, name)) for name in Bids.__slots__)
    assert (np.diff(bids.arrival_s) >= 0).all()
    assert (bids.arrival_s >= bids.event_s).all()
    assert set(bids.partition) == set(range(PARTITIONS))
    assert bids.counted_s == stage.counted_s
    assert stage.counted_s % stage.part_s == stage.part_s % stage.step_s == stage.step_s % WINDOW_S == 0


def test_a_tenth_of_the_bidders_is_offline_at_times_and_one_region_is_slow() -> None:
    bids = make_bids()
    delay_s = bids.arrival_s - bids.event_s
    slow = bids.counted & (bids.partition == PARTITIONS - 1)
    fast = bids.counted & (bids.partition != PARTITIONS - 1)
    assert np.median(delay_s[slow]) > 2 > np.median(delay_s[fast])
    assert 0.01 < (delay_s[fast] > WINDOW_S).mean() < 0.05
    assert {*bids.bidder[fast & (delay_s > WINDOW_S)]} <= {*range(100)}
    # While its link is cut nothing of the slow region arrives.
    arrivals_s = bids.arrival_s[slow & (bids.arrival_s < SHORT_S)]
    assert 14 < np.diff(arrivals_s).max() < 16


@pytest.mark.parametrize("stage", STAGES.values(), ids=STAGES)
def test_every_system_of_a_stage_has_a_watermark_and_flink_is_left_out_where_it_is_not(stage: Stage) -> None:
    systems = systems_of(stage, BIDS)
    names = [name for group in systems.groups for name in group]
    assert sorted(names) == sorted([*systems.bound_ms, *systems.modes, *systems.flinks])
    assert set(names) <= set(systems.about)
    assert [systems.engine(name) for name in names if name.startswith("spark")] == ["Spark"] * len(
        systems.bound_ms
    )
    without = systems_of(stage, BIDS, with_flink=False)
    assert not without.flinks
    assert all(group and not any(name.startswith("flink") for name in group) for group in without.groups)
