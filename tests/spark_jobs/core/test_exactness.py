"""What a ledger of real Spark batches predicts, where it is no longer exact, and that it says so.

That the ledger equals the sink for every operator is shown in ``test_operators_over_restarts.py`` and
``live/test_operators.py``.
"""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as F

from tidemark.models.base.operators import Operator, TimeWindow, row_level, sliding, tumbling
from tidemark.models.evidence.curve import Curve
from tidemark.spark_jobs import adaptive_watermark, flush

from support.oracles import Ledger, replay_reports
from support.patience import PATIENCE_S
from support.soak import with_soak
from support.spark_streams import EPOCH_US, SCHEMA, Job, Row, iso, random_batches

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]

OPERATORS: dict[str, Operator] = {
    "sliding": sliding("10 seconds", "4 seconds", "1 second"),
    "deduplication": row_level(),
}
END_US = EPOCH_US + 48 * 3_600_000_000
"""A row this late in event time closes every window before it."""


def _windowed(operator: Operator) -> bool:
    return isinstance(operator, TimeWindow)


@pytest.mark.parametrize("kind", with_soak(OPERATORS, {"sliding"}))
def test_the_curve_predicts_what_spark_does_under_another_bound_on_the_same_batches(
    spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    """Row for row: a curve that is only nearly right would be a guess with decimals."""
    operator = OPERATORS[kind]
    batches = [*random_batches(7, 8), [Row(10**9, 0, END_US)]]
    ledgers, replays = {}, {}
    for seconds in (0, 3, 20):
        job = Job(spark, tmp_path / str(seconds), operator, granule=None if _windowed(operator) else "1 ms")
        job.write(batches)
        job.run_available(f"{seconds} seconds")
        ledger = Ledger()
        for report in job.recorded.reports:
            ledger.add(report)
        ledgers[seconds] = ledger.completeness()
        replays[seconds] = replay_reports(job.recorded.reports)
    assert len({ledger.late_min for ledger in ledgers.values()}) >= 3, (
        "the bounds must differ in what they lose"
    )
    for recorded, replay in replays.items():
        curve = Curve.of_replay(replay, operator)
        predicted = {seconds: curve.at(seconds * 1_000_000).late for seconds in ledgers}

        assert {seconds: ledger.late_min for seconds, ledger in ledgers.items()} == predicted, recorded


def test_rows_whose_granule_the_watermark_cuts_are_reported_as_an_interval_that_holds_the_truth(
    spark: SparkSession, tmp_path: Path
) -> None:
    """With a granule coarser than a millisecond a row-level ledger cannot be exact, and must say so."""
    job = Job(spark, tmp_path, row_level(), granule="2 seconds")
    batches = random_batches(5, 10)
    job.write(batches)
    job.run_available("1 second")
    ledger = Ledger()
    for report in job.recorded.reports:
        ledger.add(report)
    kept = {identity for output in job.output.values() for _, ids in output for identity in ids}
    late = sum(row.id not in kept for batch in batches for row in batch)
    body = ledger.completeness()

    assert body.late_min < body.late_max
    assert body.late_min <= late <= body.late_max
    assert not body.exact


def test_when_the_distinct_keys_overflow_the_ledger_says_how_many_rows_it_cannot_judge(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """An overflow must cost knowledge, never truth: the gap is the batch's rows, exactly."""
    job = Job(spark, tmp_path, tumbling("5 seconds"), granule="1 ms", max_keys=8)
    start = EPOCH_US + 3_600_000_000
    small = [Row(n, 0, start + n * 1_000) for n in range(6)]
    large = [Row(100 + n, n % 3, start + 20_000_000 + n * 7_000) for n in range(90)]
    job.write([small, large, [Row(500, 1, start + 40_000_000)]])
    job.run_available("10 seconds")
    ledger = Ledger()
    for report in job.recorded.reports:
        ledger.add(report)
    body = ledger.completeness()

    assert (body.rows, body.unjudged_rows) == (7, 90)
    assert not body.exact
    assert [report.rows for report in job.recorded.reports][:3] == [6, 90, 1]
    assert "more than 8 distinct" in caplog.text


def test_rows_without_an_event_time_or_with_an_odd_partition_are_counted_apart(
    spark: SparkSession, tmp_path: Path
) -> None:
    """A null has no key, and a partition below 0 or without a number fits none: neither may vanish."""
    job = Job(spark, tmp_path, tumbling("5 seconds"))
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "00000.json").write_text(
        '{"id": 1, "partition": 0, "ts": null}\n'
        f'{{"id": 2, "partition": 0, "ts": "{iso(EPOCH_US)}"}}\n'
        f'{{"id": 3, "partition": -7, "ts": "{iso(EPOCH_US)}"}}\n'
        f'{{"id": 4, "partition": null, "ts": "{iso(EPOCH_US)}"}}\n'
    )
    job.run_available("10 seconds")
    report = job.recorded.reports[0]

    assert (report.rows, report.null_rows, report.uncounted_rows) == (4, 1, 0)
    assert {part.partition: part.rows for part in report.counts.by_partition()} == {"0": 1, "other": 2}


def test_partitions_named_by_text_are_counted_as_exactly_as_numbered_ones(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Not every source numbers its partitions; regions and devices have names, some with colons in them."""
    names = {0: "eu:west", 1: "us", 2: ""}
    batches = random_batches(11, 3)
    folder = tmp_path / "in"
    folder.mkdir()
    job = Job(spark, tmp_path, tumbling("5 seconds"))
    job.write(batches)
    name = "element_at(map(0, 'eu:west', 1, 'us', 2, ''), partition)"
    source = (
        spark.readStream.schema(SCHEMA)
        .option("maxFilesPerTrigger", 1)
        .json(str(folder))
        .selectExpr("id", "ts", f"{name} as region")
    )
    tapped = source.transform(
        adaptive_watermark(
            "ts", "5 s", tumbling("5 s"), partition="region", stream="named", sink=job.recorded
        )
    )
    query = (
        tapped.groupBy("region")
        .count()
        .writeStream.format("noop")
        .outputMode("update")
        .option("checkpointLocation", str(tmp_path / "named"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    assert flush(PATIENCE_S)
    body: Counter[str] = Counter()
    for report in job.recorded.reports:
        for part in report.counts.by_partition():
            body[part.partition] += part.rows

    assert Counter(names[row.partition] for batch in batches for row in batch) == body


def test_a_row_dated_after_the_year_9999_does_not_blind_the_stream(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Milliseconds read as seconds: Spark's watermark leaves the calendar, and every later row is lost. Say so."""
    job = Job(spark, tmp_path, tumbling("5 seconds"), "update")
    folder = tmp_path / "in"
    folder.mkdir()
    source_schema = "id long, partition int, seconds long"
    for number, seconds in enumerate([EPOCH_US // 1_000_000, EPOCH_US // 1_000, EPOCH_US // 1_000_000 + 60]):
        (folder / f"{number}.json").write_text(f'{{"id": {number}, "partition": 0, "seconds": {seconds}}}')
        os.utime(folder / f"{number}.json", (1_000_000_000 + number,) * 2)
    events = (
        spark.readStream.schema(source_schema)
        .option("maxFilesPerTrigger", 1)
        .json(str(folder))
        .selectExpr("id", "partition", "timestamp_seconds(seconds) as ts")
        .transform(adaptive_watermark("ts", "5 s", tumbling("5 s"), stream="odd", sink=job.recorded))
    )
    query = (
        events.groupBy(F.window("ts", "5 seconds"))
        .count()
        .writeStream.format("noop")
        .outputMode("update")
        .option("checkpointLocation", str(tmp_path / "odd"))
        .trigger(processingTime="0 seconds")
        .start()
    )
    query.processAllAvailable()
    (folder / "3.json").write_text(f'{{"id": 3, "partition": 0, "seconds": {EPOCH_US // 1_000_000 + 61}}}')
    query.processAllAvailable()
    query.stop()
    assert flush(PATIENCE_S)
    ledger = Ledger()
    for report in job.recorded.reports:
        ledger.add(report)

    assert [report.batch_id for report in job.recorded.reports] == list(range(len(job.recorded.reports)))
    assert ledger.completeness().late_min >= 1
    assert ledger.completeness().missing_batches == 0
