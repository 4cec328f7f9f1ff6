"""The benchmark's bids and figures: what is counted is what was sent, and each figure is what a person would count."""

from __future__ import annotations

import numpy as np
import pytest

from bench.nexmark.bids import COUNTED_S, PARTITIONS, WINDOW_S, Bids, make_bids
from bench.nexmark.figures import PART_S, Result, benchmark_tables, figures_of

BEGIN_US = 1_767_225_600_000_000
RECORD = {"counted_s": COUNTED_S, "part_s": PART_S}


def bids_of(*rows: tuple[int, int, float, float]) -> Bids:
    """Return bids of auction, price, event time and arrival."""
    auction, price, event_s, arrival_s = (np.array(column) for column in zip(*rows, strict=True))
    zeros = np.zeros(len(rows), np.int64)
    return Bids(auction, zeros, price, event_s.astype(float), arrival_s.astype(float), zeros)


def result(end_s: int, auction: int, bids: int, max_price: int, written_s: float) -> Result:
    return Result(
        BEGIN_US + end_s * 1_000_000, auction, bids, max_price, BEGIN_US + round(written_s * 1_000_000)
    )


BIDS = bids_of(
    (1, 5, 0.5, 1), (1, 9, 4, 5), (2, 3, 12, 13), (1, 7, 9, 40), (1, 1, COUNTED_S + 1, COUNTED_S + 1)
)


def test_completeness_latency_and_state_are_those_of_the_sink() -> None:
    found = figures_of(BIDS, BEGIN_US, [result(10, 1, 2, 9, 14), result(20, 2, 1, 3, 26)])
    assert (found["sent"], found["counted"]) == (4, 3)
    assert found["latency_mean_s"] == pytest.approx(5)
    assert found["state"] == 2, "from 13 s to 14 s"
    assert found["parts"][0] == {"sent": 4, "counted": 3, "latency_mean_s": pytest.approx(5)}


def test_bids_before_and_after_do_not_count() -> None:
    warm, after = result(0, 0, 8, 0, 1), result(COUNTED_S + 10, 1, 1, 1, COUNTED_S + 20)
    found = figures_of(BIDS, BEGIN_US, [warm, result(10, 1, 2, 9, 14), after])
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
        figures_of(BIDS, BEGIN_US, [wrong])


def test_a_window_that_comes_twice_is_an_error() -> None:
    with pytest.raises(ValueError, match="of one window"):
        figures_of(BIDS, BEGIN_US, [result(10, 1, 2, 9, 14)] * 2)


def test_a_part_without_results_has_no_latency() -> None:
    rows = [(1, 5, begin_s + 10.0, begin_s + 11.0) for begin_s in range(0, COUNTED_S, PART_S)]
    found = figures_of(bids_of(*rows), BEGIN_US, [])
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
    assert first.splitlines()[2] == "| Spark | 10 s | 99.49 % | 12.3 s | 20.0 s | 1,234 |"
    assert second.splitlines()[2] == "| Spark, 10 s | 99.49 %, 12.3 s |"


def test_the_bids_are_the_same_each_time_and_arrive_in_order_before_the_end() -> None:
    bids, again = make_bids(), make_bids()
    assert all((getattr(bids, name) == getattr(again, name)).all() for name in Bids.__slots__)
    assert (np.diff(bids.arrival_s) >= 0).all()
    assert (bids.arrival_s >= bids.event_s).all()
    assert set(bids.partition) == set(range(PARTITIONS))
    assert COUNTED_S % WINDOW_S == COUNTED_S % PART_S == 0


def test_a_tenth_of_the_bidders_is_offline_at_times_and_one_region_is_slow() -> None:
    bids = make_bids()
    delay_s = bids.arrival_s - bids.event_s
    slow = bids.counted & (bids.partition == PARTITIONS - 1)
    fast = bids.counted & (bids.partition != PARTITIONS - 1)
    assert np.median(delay_s[slow]) > 2 > np.median(delay_s[fast])
    assert 0.01 < (delay_s[fast] > WINDOW_S).mean() < 0.05
    assert {*bids.bidder[fast & (delay_s > WINDOW_S)]} <= {*range(100)}
    # While its link is cut nothing of the slow region arrives.
    arrivals_s = bids.arrival_s[slow & (bids.arrival_s < COUNTED_S)]
    assert 14 < np.diff(arrivals_s).max() < 16
