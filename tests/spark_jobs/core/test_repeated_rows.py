"""Rows that are observed more than once, because Spark reads a batch, or a part of it, again."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark import SparkContext
from pyspark.sql import functions as F

from tidemark.models.base.operators import tumbling
from tidemark.models.evidence.ledger import judge
from tidemark.models.protocol.messages import Report
from tidemark.spark_jobs import adaptive_watermark, flush
from tidemark.spark_jobs.core.key_counts import are_repeated, distinct, drawn
from tidemark.spark_jobs.core.tap import TAP_KEY

from support.patience import PATIENCE_S
from support.spark_streams import SCHEMA, RecordingSink, random_batches, write_batch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]

BATCHES = [batch for batch in random_batches(9, 12) if len(batch) > 4][:4]


def _lose_what_stages_wrote() -> None:
    """Remove the files of all shuffles, as an executor that is lost takes its own away."""
    jvm: Any = SparkContext._jvm
    for folder in jvm.org.apache.spark.SparkEnv.get().blockManager().diskBlockManager().localDirs():
        for file in Path(folder.getPath()).rglob("shuffle_*"):
            file.unlink()


def _reports(spark: SparkSession, folder: Path, *, loses: bool) -> list[Report]:
    """Return the reports of a query that reads each batch twice, and loses what its first stage wrote in between."""
    sink = RecordingSink()
    for number, batch in enumerate(BATCHES):
        write_batch(folder / "in", number, batch)

    def read_twice(df: DataFrame, _: int) -> None:
        df.count()
        if loses:
            _lose_what_stages_wrote()
        df.collect()

    source = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json(str(folder / "in"))
    spark.conf.set(TAP_KEY, "observe")
    try:
        tapped = source.transform(
            adaptive_watermark("ts", "3 seconds", tumbling("5 seconds"), stream="again", sink=sink)
        )
    finally:
        spark.conf.unset(TAP_KEY)
    query = (
        tapped.groupBy(F.window("ts", "5 seconds"))
        .count()
        .writeStream.foreachBatch(read_twice)
        .outputMode("update")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .start()
    )
    try:
        query.processAllAvailable()
    finally:
        query.stop()
    assert flush(PATIENCE_S)
    return [report for report in sink.reports if report.rows]


@pytest.mark.versions
def test_a_batch_is_unknown_whose_observed_stage_ran_again_and_the_log_says_why(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Spark adds up what both runs observed, which once made 200 rows of 100, exact."""
    reports = _reports(spark, tmp_path, loses=True)

    assert [report.rows for report in reports] == [len(batch) for batch in BATCHES]
    assert [judge(report).unjudged_rows for report in reports] == [report.rows for report in reports]
    assert caplog.text.count("rows were read more than once") == len(BATCHES)


def test_a_batch_is_known_that_is_read_twice_from_what_its_observed_stage_wrote(
    spark: SparkSession, tmp_path: Path
) -> None:
    reports = _reports(spark, tmp_path, loses=False)

    assert [report.rows for report in reports] == [len(batch) for batch in BATCHES]
    assert [judge(report).unjudged_rows for report in reports] == [0] * len(BATCHES)


def _counted(df: DataFrame) -> tuple[int, int]:
    found = df.agg(F.count(F.lit(1)), distinct(F.col("draw"))).first()
    assert found is not None
    return found[0], found[1]


@pytest.mark.versions
def test_rows_draw_distinct_numbers_and_those_that_are_read_again_the_same_ones(spark: SparkSession) -> None:
    """Whatever their number and tasks: the sketch is exact at first, and 0.4 % off later."""
    for rows, tasks in ((1, 1), (3, 3), (121, 2), (4_000, 7), (5_000, 1), (60_000, 3), (1_000_000, 5)):
        once = spark.range(0, rows, 1, tasks).select(drawn().alias("draw"))
        counted = _counted(once)

        assert counted[0] == rows
        assert not are_repeated(*counted), counted
        if rows > 5:
            assert are_repeated(*_counted(once.union(once)))


def test_a_tenth_of_a_batch_that_is_read_again_is_found_in_a_batch_of_any_size() -> None:
    for rows in (60, 121, 4_000, 5_000, 1_000_000, 10**9):
        error = 0 if rows <= 4_096 else rows * 4 // 1_000
        assert not are_repeated(rows, rows - error)
        assert are_repeated(rows + rows // 10, rows + error)
