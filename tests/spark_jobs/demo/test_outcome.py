"""The outcome of a run: what the sink lacks is lost, also when a whole window is missing."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tidemark.models.base.operators import TimeWindow
from tidemark.spark_jobs.demo.generator import GeneratedRows
from tidemark.spark_jobs.demo.plan import plan_of
from tidemark.spark_jobs.demo.replaying import BatchFacts, Outcome, SinkWindow, outcome_of, read_sink

TIMES = np.array([1, 2, 11, 12, 13, 21, 3, 31], np.int64)
PLAN = plan_of(
    Path("trace"), GeneratedRows(TIMES, np.arange(8, dtype=np.int64) * 10, np.full(8, "p")), slot_us=10
)
WINDOW = TimeWindow(10, 10)
FACTS = {0: BatchFacts(0, 4, 2), 1: BatchFacts(1, 7, 4)}


def _outcome(
    before: int, after: int, windows: list[SinkWindow], facts: dict[int, BatchFacts] = FACTS
) -> Outcome:
    return outcome_of(
        plan=PLAN,
        operator=WINDOW,
        bounds_ms=(0,),
        times_us=(before, 10, after),
        windows=windows,
        facts=facts,
    )


def test_rows_that_arrive_after_their_window_closed_are_lost_whenever_they_come() -> None:
    found = _outcome(0, 20, [SinkWindow(0, 10, 2), SinkWindow(1, 20, 3)])

    assert (found.rows, found.lost, found.lost_later) == (6, 1, 0)
    assert found.completeness == 5 / 6


def test_a_window_that_closed_without_reaching_the_sink_has_lost_all_its_rows() -> None:
    found = _outcome(0, 20, [SinkWindow(1, 20, 3)])

    assert (found.rows, found.lost, found.lost_later) == (6, 3, 0)


def test_what_windows_lost_that_closed_after_the_restart_is_said_apart() -> None:
    found = _outcome(0, 20, [SinkWindow(0, 10, 2), SinkWindow(1, 20, 1)])

    assert (found.lost, found.lost_later) == (3, 2)


def test_windows_that_closed_before_the_run_or_are_still_open_do_not_count() -> None:
    assert _outcome(10, 20, [SinkWindow(1, 20, 3)]).rows == 3


def test_latency_is_when_the_emitting_batch_ran_by_the_traces_clock_less_the_windows_end() -> None:
    # Batch 0 ends with row 4, which arrived at 30: it ran at 40. Batch 1 ends with row 7: at 70.
    found = _outcome(0, 20, [SinkWindow(0, 10, 2), SinkWindow(1, 20, 3)])

    assert found.latency_us == ((40 - 10) + (70 - 20)) / 2


def test_a_run_that_closed_nothing_knows_nothing() -> None:
    found = _outcome(0, 0, [], {})

    assert (found.completeness, found.latency_us) == (None, None)


def test_the_sink_is_read_with_the_batch_that_wrote_each_window(tmp_path: Path) -> None:
    assert read_sink(tmp_path) == []
    for batch, ends in ((3, [10, 20]), (12, [30])):
        (tmp_path / f"batch={batch}").mkdir()
        columns = {"end_us": ends, "rows": [1] * len(ends)}
        pq.write_table(pa.table(columns), tmp_path / f"batch={batch}" / "part-0.parquet")

    assert sorted((window.batch_id, window.end_us) for window in read_sink(tmp_path)) == [
        (3, 10),
        (3, 20),
        (12, 30),
    ]
