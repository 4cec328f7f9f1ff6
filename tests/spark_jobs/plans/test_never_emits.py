"""Queries that plain Spark runs for ever without an output, and streams that more than one query reports."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemark.spark_jobs import adaptive_watermark, flush

from support.command_line import exit_code
from support.patience import PATIENCE_S
from support.spark_streams import EPOCH_US, SCHEMA, RecordingSink, Row, write_batch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

pytestmark = [pytest.mark.spark, pytest.mark.slow]

SECOND_US = 1_000_000


@pytest.fixture
def read(spark: SparkSession, tmp_path: Path) -> Callable[..., DataFrame]:
    """Return what makes a stream of 60 rows, one a second, in six batches."""
    folder = tmp_path / "rows"
    for batch in range(6):
        seconds = range(batch * 10, batch * 10 + 10)
        write_batch(folder, batch, [Row(at, 0, EPOCH_US + at * SECOND_US) for at in seconds])

    def stream(name: str, sink: RecordingSink) -> DataFrame:
        rows = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json(str(folder))
        return rows.transform(adaptive_watermark("ts", "5 seconds", stream=name, job="job", sink=sink))

    return stream


def windows(rows: DataFrame) -> DataFrame:
    return rows.groupBy(F.window("ts", "10 seconds")).agg(F.count(F.lit(1)).alias("n"))


def start(df: DataFrame, folder: Path, mode: str = "append") -> StreamingQuery:
    writer = df.writeStream.format("noop").outputMode(mode).trigger(availableNow=True)
    return writer.option("checkpointLocation", str(folder)).start()


def second_watermark(stream: Callable[..., DataFrame]) -> DataFrame:
    ends = windows(stream("in", RecordingSink())).select(F.col("window.end").alias("ts"), "n")
    return ends.withWatermark("ts", "0 seconds").groupBy(F.window("ts", "20 seconds")).agg(F.sum("n"))


def joined_with_itself(stream: Callable[..., DataFrame]) -> DataFrame:
    rows = stream("in", RecordingSink())
    return windows(rows).join(windows(rows).withColumnRenamed("n", "m"), "window")


def united_with_itself(stream: Callable[..., DataFrame]) -> DataFrame:
    rows = stream("in", RecordingSink())
    return windows(rows).union(windows(rows)).groupBy("window").agg(F.sum("n"))


@pytest.mark.parametrize(
    ("plan", "said"),
    [
        (second_watermark, "withWatermark('ts') stands behind an aggregate, and each waits for the other"),
        (joined_with_itself, "one aggregate stands in the query twice"),
        (united_with_itself, "one aggregate stands in the query twice"),
    ],
)
def test_a_query_that_never_puts_a_window_out_is_said_at_its_start(
    plan: Callable[..., DataFrame],
    said: str,
    read: Callable[..., DataFrame],
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    query = start(plan(read), tmp_path / "checkpoint")
    assert query.awaitTermination(int(PATIENCE_S))
    assert said in caplog.text


def test_a_chain_of_windows_and_a_join_of_two_streams_are_left_alone(
    read: Callable[..., DataFrame], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    left, right = (windows(read(name, RecordingSink())) for name in ("left", "right"))
    chain = left.groupBy(F.window("window", "20 seconds")).agg(F.sum("n"))
    for number, df in enumerate((chain, left.join(right.withColumnRenamed("n", "m"), "window"))):
        assert start(df, tmp_path / str(number)).awaitTermination(int(PATIENCE_S))
    assert "waits for the other" not in caplog.text
    assert "stands in the query twice" not in caplog.text


def test_lint_names_a_query_that_never_puts_a_window_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job = tmp_path / "job.py"
    job.write_text(
        dedent("""
        from pyspark.sql import SparkSession, functions as F
        spark = SparkSession.builder.getOrCreate()
        rows = spark.readStream.format("rate").load().withWatermark("timestamp", "5 seconds")
        counts = rows.groupBy(F.window("timestamp", "10 seconds")).count()
        ends = counts.select(F.col("window.end").alias("ts"), "count")
        twice = ends.withWatermark("ts", "0 seconds").groupBy(F.window("ts", "20 seconds")).count()
        twice.writeStream.format("noop").start()
        """)
    )
    assert exit_code("lint", given=[str(job), "--json"]) == 0
    (query,) = json.loads(capsys.readouterr().out)["queries"]
    assert [finding["code"] for finding in query["findings"]] == ["watermark_never_moves"]


def test_a_stream_that_another_query_reports_too_is_said_at_the_start(
    spark: SparkSession, read: Callable[..., DataFrame], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    sink = RecordingSink()
    counts = windows(read("in", sink))
    first = counts.writeStream.format("noop").outputMode("append").trigger(processingTime="0 seconds")
    running = first.option("checkpointLocation", str(tmp_path / "first")).start()
    try:
        running.processAllAvailable()
        assert start(counts, tmp_path / "second").awaitTermination(int(PATIENCE_S))
    finally:
        running.stop()
    assert "stream in: another query of this driver reports it, too" in caplog.text
    assert len({report.query_id for report in sink.reports}) == 2


def test_two_inputs_of_one_query_under_one_name_are_not_judged_and_the_query_runs(
    read: Callable[..., DataFrame], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    sink = RecordingSink()
    both = windows(read("in", sink)).union(windows(read("in", sink)))
    assert start(both, tmp_path / "checkpoint").awaitTermination(int(PATIENCE_S))
    assert flush(PATIENCE_S)
    said = "2 inputs of the query are called 'in', and a batch is reported once for a name"
    assert sink.reports
    assert all((report.contradiction or "").startswith(said) for report in sink.reports)
    assert said in caplog.text
