"""The event time and the bound: what ``withWatermark`` takes on the Spark that runs, and what it does with a window."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F

from tidemark.models.base.operators import tumbling
from tidemark.models.evidence.ledger import judge
from tidemark.spark_jobs import adaptive_watermark, flush
from tidemark.spark_jobs.core.tap import TAP_KEY
from tidemark.spark_jobs.spark.event_time import column_named

from support.patience import PATIENCE_S
from support.spark_streams import EPOCH_US, SCHEMA, RecordingSink, random_batches, write_batch
from support.watermark_forms import markdown, rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]

BATCHES = random_batches(16, 6)


def _source(spark: SparkSession, folder: Path) -> DataFrame:
    for number, batch in enumerate(BATCHES):
        write_batch(folder / "in", number, batch)
    return spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json(str(folder / "in"))


@pytest.mark.versions
def test_the_call_takes_every_form_of_name_and_interval_that_with_watermark_takes_and_refuses_the_others(
    spark: SparkSession, tmp_path: Path
) -> None:
    """But for a window, which Spark reads wrongly, and a name that two columns have; short intervals are Tidemark's."""
    found = list(rows(spark, tmp_path))

    assert [row for row in found if not row.agree] == [], markdown(iter(found))


@pytest.mark.versions
@pytest.mark.parametrize(
    ("tap", "options"),
    [
        ("compiled", {}),
        ("observe", {}),
        ("compiled", {"ceiling": "INTERVAL '1:00' HOUR TO MINUTE"}),
        ("compiled", {"ceiling": "1 month", "mode": "Live"}),
    ],
    ids=str,
)
def test_a_stream_is_judged_whose_names_need_back_ticks_an_alias_and_another_case(
    spark: SparkSession, tmp_path: Path, tap: str, options: Mapping[str, Any]
) -> None:
    """What Spark emits of each partition is what the ledger says; the alias is there behind the call, too."""
    sink, counted = RecordingSink(), {}
    named = _source(spark, tmp_path).select(
        "id", F.col("partition").alias("Partition"), F.col("ts").alias("Event Time")
    )

    def collect(df: DataFrame, _: int) -> None:
        counted.update({(row["window"]["end"], row["Partition"]): row["count"] for row in df.collect()})

    spark.conf.set(TAP_KEY, tap)
    try:
        tapped = named.alias("e").transform(
            adaptive_watermark("E.`event time`", "INTERVAL '3' SECOND", stream="named", sink=sink, **options)
        )
    finally:
        spark.conf.unset(TAP_KEY)
    counts = tapped.groupBy(F.window("e.`Event Time`", "5 seconds"), "e.Partition").count()
    query = (
        counts.writeStream.foreachBatch(collect)
        .outputMode("update")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .start()
    )
    try:
        query.processAllAvailable()
    finally:
        query.stop()
    assert flush(PATIENCE_S)
    admitted = 0
    for report in sink.reports:
        judged = judge(report)
        assert (report.contradiction, judged.unjudged_rows) == (None, 0)
        admitted += sum(tally.rows - tally.late_max for tally in judged.tallies.values())

    assert {report.bound_ms for report in sink.reports} == {3_000}
    assert {report.operator for report in sink.reports} == {tumbling("5 seconds")}
    assert {name for report in sink.reports for name in report.counts.partitions} == {"0", "1", "2"}
    assert sum(report.rows for report in sink.reports) == sum(map(len, BATCHES))
    assert sum(counted.values()) == admitted


def test_a_column_is_found_in_upper_and_lower_case_as_spark_is_set(spark: SparkSession) -> None:
    df = spark.range(1).selectExpr("id as Partition", "id as `Event Time`", "id as a", "id as A")

    assert column_named(df, "partition") == "Partition"
    assert column_named(df, "`event time`") == "Event Time"
    assert (column_named(df, "a"), column_named(df, "A")) == ("a", "A")
    assert column_named(df, "region") is None
    spark.conf.set("spark.sql.caseSensitive", "true")
    try:
        assert (column_named(df, "partition"), column_named(df, "Partition")) == (None, "Partition")
    finally:
        spark.conf.unset("spark.sql.caseSensitive")


@pytest.mark.versions
def test_spark_reads_one_time_of_1970_from_every_row_of_a_window_column_and_puts_nothing_out(
    spark: SparkSession, tmp_path: Path
) -> None:
    """So the call refuses it: its node reads the struct's place in memory, and that watermark never moves."""
    out: list[Any] = []
    windows = _source(spark, tmp_path).withColumn("window", F.window("ts", "5 seconds"))
    query = (
        windows.withWatermark("window", "1 second")
        .groupBy("window")
        .count()
        .writeStream.foreachBatch(lambda df, _: out.extend(df.collect()))
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .start()
    )
    try:
        query.processAllAvailable()
        seen = {
            progress["eventTime"].get("max") for progress in query.recentProgress if progress["numInputRows"]
        }
    finally:
        query.stop()

    assert len(seen) == 1
    assert str(seen.pop()).startswith("1970-01-01T")
    assert out == []
    assert max(row.event_time_us for batch in BATCHES for row in batch) > EPOCH_US


def test_a_frame_that_does_not_stream_stays_as_it_is(spark: SparkSession) -> None:
    """As with ``withWatermark``: a job may run its transformations over a batch."""
    batch = spark.range(3).selectExpr("timestamp_seconds(id) as ts")

    assert batch.transform(adaptive_watermark("ts", "3 s", ceiling="1 hour")) is batch


def test_a_window_is_refused_with_what_to_write(spark: SparkSession, tmp_path: Path) -> None:
    counts = _source(spark, tmp_path).transform(adaptive_watermark("ts", "3 s", stream="first"))
    counts = counts.groupBy(F.window("ts", "5 seconds")).count()
    with pytest.raises(ValueError, match="window_time"):
        counts.transform(adaptive_watermark("window", "3 s", stream="second"))


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("Event Time", "write '`Event Time`'"),
        ("a.b", "write '`a.b`'"),
        ("nested.ts", "put the field into a column of its own"),
        ("number", "'number' is a int: cast it to timestamp"),
        ("missing", "the columns are Event Time, a.b, nested, number"),
    ],
)
def test_a_name_that_spark_refuses_is_refused_with_what_to_write(
    spark: SparkSession, tmp_path: Path, name: str, said: str
) -> None:
    schema = "`Event Time` timestamp, `a.b` timestamp, nested struct<ts: timestamp>, number int"
    df = spark.readStream.schema(schema).json(str(tmp_path))
    with pytest.raises(ValueError, match=f"Spark refuses withWatermark.*{said}"):
        df.transform(adaptive_watermark(name, "3 s"))
