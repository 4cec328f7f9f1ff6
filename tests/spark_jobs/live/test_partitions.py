"""Partitions in a real query: a slow one keeps its rows, and once it is no longer slow nobody waits for it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tidemark.models.protocol.messages import Report
from tidemark.spark_jobs import flush

from support.live_faults import LiveJob, files, trace, until, write_trace
from support.oracles import Ledger
from support.patience import PATIENCE_S
from support.scripted_source import scripted, write_step
from support.spark_streams import EPOCH_US, Row, write_batch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]

SECOND = 1_000_000
START_US = EPOCH_US + 3_600 * SECOND
TRAILING_S = 60
BATCH_S = 10


def _both(number: int, *, slow: int | None = None, batch_s: int = BATCH_S) -> list[Row]:
    """Return some seconds of rows: partition 0 in time, and 1 behind by ``slow`` seconds, or not at all."""
    rows = []
    for k in range(batch_s):
        time_us = START_US + (number * batch_s + k) * SECOND
        rows.append(Row(2 * (number * batch_s + k), 0, time_us))
        if slow is not None:
            rows.append(Row(rows[-1].id + 1, 1, time_us - slow * SECOND))
    return rows


def _caught_up(number: int) -> list[Row]:
    """Return a batch in which partition 1 brings all that it owed."""
    owed_us = [START_US + (number * BATCH_S - back) * SECOND for back in range(TRAILING_S, 0, -1)]
    return [*(Row(10_000 + k, 1, time_us) for k, time_us in enumerate(owed_us)), *_both(number, slow=0)]


def test_rows_of_a_partition_that_trails_by_six_bounds_are_lost_to_spark_and_not_to_live_and_then_nobody_waits(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With one maximum 10 s lose a partition's rows and 70 s wait for it for ever. Live does neither."""
    trails, in_step = 5, 9
    batches = [_both(number, slow=TRAILING_S) for number in range(trails)]
    batches += [_caught_up(trails), *(_both(number, slow=0) for number in range(trails + 1, in_step))]
    for number, rows in enumerate(batches):
        write_batch(tmp_path / "in", number, rows)
    jobs = {
        name: LiveJob(spark, tmp_path / name, files(spark, tmp_path / "in"), bound=bound, ceiling=ceiling)
        for name, bound, ceiling in (
            ("Live, 10 s", "10 seconds", "10 minutes"),
            ("Spark, 10 s", "10 seconds", None),
            ("Spark, 70 s", "70 seconds", None),
        )
    }
    for job in jobs.values():
        job.run(available_now=True)
    lost = {name: _lost_rows(job) for name, job in jobs.items()}
    closed = {name: job.batches_of_rows_until_closed() for name, job in jobs.items()}
    ends = [end for end in closed["Live, 10 s"] if end > START_US + trails * BATCH_S * SECOND]
    waited = {name: [after.get(end) for end in ends] for name, after in closed.items()}
    slow = {row.id for rows in batches for row in rows if row.partition == 1}
    with capsys.disabled():
        print(f"\npartitions: rows lost {lost}; batches read when the last windows closed {waited}")

    assert lost["Live, 10 s"] == lost["Spark, 70 s"] == 0
    assert lost["Spark, 10 s"] >= 40
    assert _missing(jobs["Spark, 10 s"], batches) <= slow, "none but the slow partition's"
    assert len(_missing(jobs["Spark, 10 s"], batches)) == lost["Spark, 10 s"]
    assert not _missing(jobs["Live, 10 s"], batches)
    assert len(ends) >= 2
    for end in ends:
        assert closed["Live, 10 s"][end] < closed["Spark, 70 s"].get(end, len(batches) + 1)


@pytest.mark.soak
def test_when_a_partition_that_trailed_falls_silent_for_good_windows_close_as_without_it(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A bound that is wide enough for it would be paid for ever; Live pays until it is idle."""
    trails, slots, batch_s = 8, 300, 5
    rows = []
    for slot in range(slots):
        both = _both(slot, slow=TRAILING_S if slot < trails else None, batch_s=batch_s)
        arrival_us = START_US + slot * batch_s * SECOND
        rows += [(arrival_us, row.event_time_us, str(row.partition)) for row in both]
    path, slot_us = tmp_path / "fleet.parquet", str(batch_s * SECOND)
    write_trace(path, rows)
    live = LiveJob(spark, tmp_path / "live", trace(spark, path, slot_us=slot_us))

    def since_idle() -> list[Report]:
        return [report for report in live.reports if report.rows and _idle(report) == ("1",)]

    query = live.start("300 milliseconds")
    try:
        until(lambda: len(since_idle()) >= 8, query, 300)
    finally:
        query.stop()
    assert flush(PATIENCE_S)
    read = str(sum(report.rows for report in live.reports))
    wide = LiveJob(
        spark,
        tmp_path / "wide",
        trace(spark, path, slot_us=slot_us, until=read),
        bound="70 seconds",
        ceiling=None,
    )
    wide.run(available_now=True)
    closed, closed_wide = live.batches_of_rows_until_closed(), wide.batches_of_rows_until_closed()
    idle_us = since_idle()[0].max_event_time_us or 0
    ends = [end for end in closed if end > idle_us - 10 * SECOND]
    with capsys.disabled():
        print(
            f"\nidle: {len(since_idle())} batches after it was found idle; batches read when windows closed: "
            f"Live {[closed[end] for end in ends]}, Spark with 70 s {[closed_wide.get(end) for end in ends]}"
        )

    assert _lost_rows(live) == 0
    assert len(ends) >= 2
    for end in ends:
        assert closed[end] < closed_wide.get(end, len(live.reports) + 1)


def _idle(report: Report) -> tuple[str, ...]:
    return () if report.live is None else report.live.idle


def _lost_rows(job: LiveJob) -> int:
    ledger = Ledger()
    for report in job.reports:
        ledger.add(report)
    body = ledger.completeness()
    assert body.exact
    return body.late_min


def _missing(job: LiveJob, batches: list[list[Row]]) -> set[int]:
    """Return the rows that the sink's windows lack, of those windows that are closed."""
    closed_us, kept = max(end for emitted in job.output.values() for end, _ in emitted), set(job.kept())
    rows = [row for batch in batches for row in batch]
    return {row.id for row in rows if row.event_time_us < closed_us and row.id not in kept}


@pytest.mark.long
def test_a_partition_that_is_silent_because_it_is_not_read_is_not_overtaken_and_its_rows_are_kept(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Silent for many times as long as it ever was, and its rows are all there, unread."""
    folder = tmp_path / "in"
    job = LiveJob(spark, tmp_path, scripted(spark, folder))
    rows: list[Row] = []

    def step(number: int, partitions: tuple[int, ...], unread: int, behind_s: int = 0) -> None:
        time_us = START_US + number * 5 * SECOND
        mine = [
            Row(number * 10 + partition, partition, time_us - behind_s * SECOND * partition)
            for partition in partitions
        ]
        rows.extend(mine)
        write_step(folder, number, mine, {0: 0, 1: unread})

    query = job.start("200 milliseconds")
    try:
        for number in range(6):
            step(number, (0, 1), 0)
            until(lambda: sum(report.rows > 0 for report in job.reports) > number, query)  # noqa: B023 - at once
        for number in range(6, 26):
            step(number, (0,), 40)
            until(lambda: sum(report.rows > 0 for report in job.reports) > number, query)  # noqa: B023 - at once
        held = job.reports[-1]
        # It is read again: it goes on where it stopped.
        for number in range(26, 29):
            step(number, (0, 1), 40, behind_s=100)
            until(lambda: sum(report.rows > 0 for report in job.reports) > number, query)  # noqa: B023 - at once
    finally:
        query.stop()
    state = held.live

    assert state is not None
    assert (state.behind, state.idle) == (("1",), ())
    assert held.watermark_ms * 1_000 <= START_US + 5 * 5 * SECOND - 10 * SECOND
    assert _lost_rows(job) == 0
    assert len(rows) == sum(report.rows for report in job.reports)
