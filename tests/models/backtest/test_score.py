"""What a run is worth, by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tidemark.models.backtest.arrivals import Arrivals
from tidemark.models.backtest.run import BacktestRun, BacktestScore, meets, run_native, score
from tidemark.models.base.operators import RowLevel, TimeWindow
from tidemark.models.live.policy import Setup

from support.backtests import Row, arrivals_of

SECOND = 1_000_000
SETUP = Setup(operator=TimeWindow(SECOND, SECOND), trigger_us=SECOND, target_ppm=900_000)


def scored(rows: list[Row], setup: Setup, bound_us: int) -> tuple[BacktestScore, Arrivals, BacktestRun]:
    arrivals = arrivals_of(rows, setup, 1)
    found = run_native(arrivals, setup, bound_us)
    return score(arrivals, setup, found), arrivals, found


def on_time(seconds: int) -> list[Row]:
    """A row every second, on time; slot k holds the row of second k."""
    return [(second * SECOND, second * SECOND, 0) for second in range(seconds)]


def test_the_latency_of_a_window_runs_from_its_end_to_the_batch_that_emits_it() -> None:
    found, _, _ = scored(on_time(100), SETUP, 2 * SECOND)

    # W(n+1) is the base after batch n less 2 s: the window that ends at 10 s is emitted by the batch after the one
    # that holds the row of second 12, which runs at 14 s.
    assert found.latency_mean_us == found.latency_p95_us == 4 * SECOND
    assert (found.late, found.completeness, found.windows) == (0, 1.0, 97)
    assert (found.bound_mean_us, found.median_lag_us, found.bound_changes) == (2 * SECOND, 2 * SECOND, 0)


def test_windows_that_end_past_the_98th_percentile_are_not_scored() -> None:
    # The percentile of 0..100 s is 98 s: 98 windows end by then.
    assert scored(on_time(101), SETUP, 0)[0].windows == 98


def test_a_window_that_is_never_emitted_counts_as_emitted_by_the_last_batch() -> None:
    found, arrivals, run = scored(on_time(5), SETUP, 100 * SECOND)

    # The last batch is the no-data batch after the last row's.
    assert set(run.emit_wall_us.tolist()) == {6 * SECOND}
    assert found.latency_mean_us == (5 + 4 + 3) / 3 * SECOND
    assert arrivals.scored_until_us == 3_920_000


def test_late_rows_are_charged_to_the_minute_and_the_window_they_belong_to() -> None:
    rows = [*on_time(200), *[(90 * SECOND, 200 * SECOND, 0)] * 3]
    found, arrivals, run = scored(rows, SETUP, 0)

    late = dict(zip(arrivals.keys_us.tolist(), run.late_by_key.tolist(), strict=True))
    assert {key: count for key, count in late.items() if count} == {91 * SECOND: 3}
    assert run.late_by_minute.tolist() == [0, 3, 0, 0]
    assert found.worst_minute == 60 / 63
    assert found.minutes_meeting_target == 1.0
    assert score(arrivals, replace(SETUP, target_ppm=960_000), run).minutes_meeting_target == 0.75
    assert (found.windows_met, found.windows_meeting_target) == (found.windows - 1, 1 - 1 / found.windows)


def test_the_latency_of_row_level_keys_is_that_of_the_pairs() -> None:
    setup = replace(SETUP, operator=RowLevel())
    # Three pairs share the first key; the fourth and fifth rows have their own.
    rows = [(0, 0, 0)] * 3 + [(1_500_000, 1_500_000, 0), (20 * SECOND, 20 * SECOND, 0)]
    found, arrivals, run = scored(rows, setup, 0)

    # 98 % of the way to 20 s: the last key is not scored. The first batch (1 s) lifts W to 0, the second (2 s) is in
    # force with it; W of 1.5 s is in force in the no-data batch that follows at 3 s.
    assert run.emit_wall_us.tolist()[:2] == [2 * SECOND, 3 * SECOND]
    assert arrivals.pairs_by_key.tolist() == [3, 1, 1]
    assert found.latency_mean_us == (3 * 2 * SECOND + 1.5 * SECOND) / 4
    assert found.latency_p95_us == 2 * SECOND


def test_the_95th_percentile_is_the_least_latency_that_95_percent_do_not_exceed() -> None:
    # The i-th of 102 rows comes after i hundredths of a second more: every window waits longer than the one before.
    rows = [(second * SECOND, second * (SECOND + 10_000), 0) for second in range(103)]
    setup = replace(SETUP, trigger_us=10_000)
    found, arrivals, run = scored(rows, setup, 0)
    latencies = sorted(
        wall - end
        for wall, end in zip(run.emit_wall_us.tolist(), arrivals.keys_us.tolist(), strict=True)
        if end <= arrivals.scored_until_us
    )

    assert len(latencies) == len(set(latencies)) == 99
    # 95 are 95.96 % of 99, 94 are 94.95 %.
    assert found.latency_p95_us == latencies[94]


@pytest.mark.parametrize(
    ("pairs", "late", "met"),
    [(10, 1, True), (10, 2, False), (9, 1, False), (9, 0, True), (10**15, 10**14, True)],
)
def test_occurrences_are_met_when_late_pairs_are_within_the_budget_exactly(
    pairs: int, late: int, met: bool
) -> None:
    found, _, _ = scored(on_time(5), SETUP, 0)

    assert meets(SETUP, replace(found, pairs=pairs, late=late)) is met


@pytest.mark.parametrize(
    ("windows", "windows_met", "met"), [(100, 99, True), (100, 98, False), (99, 98, False)]
)
def test_timeslices_are_met_when_enough_windows_reach_the_target(
    windows: int, windows_met: int, met: bool
) -> None:
    found, _, _ = scored(on_time(5), SETUP, 0)
    setup = replace(SETUP, objective="timeslices")

    assert meets(setup, replace(found, windows=windows, windows_met=windows_met, late=1_000)) is met


def test_what_nothing_is_known_of_is_none_and_not_0() -> None:
    found, _, _ = scored([(5, 5, 0)], SETUP, 0)

    assert found.windows == 0
    assert found.latency_mean_us is found.latency_p95_us is found.windows_meeting_target is None
