"""Real-time mode over Kafka: rows of a query without state are counted; Live is stopped, with the reason.

Spark 4.2 runs no stateful operator in it. ``tests/spark_jobs/core/test_real_time_mode.py`` has those of 4.3.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import functions as F

from tidemark.models.base.operators import tumbling
from tidemark.spark_jobs import adaptive_watermark

from support.kafka import Sent, new_topic, send
from support.patience import until
from support.spark_streams import Job, RecordingSink, random_batches

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from tidemark.spark_jobs.demo.kafka_broker import KafkaBroker

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def _read(spark: SparkSession, kafka: KafkaBroker, topic: str) -> DataFrame:
    options = {"kafka.bootstrap.servers": kafka.bootstrap_servers, "subscribe": topic}
    return spark.readStream.format("kafka").options(startingOffsets="earliest", **options).load()


def _start(values: DataFrame, kafka: KafkaBroker, checkpoint: Path) -> StreamingQuery:
    query: StreamingQuery = (
        values.writeStream.format("kafka")
        .option("kafka.bootstrap.servers", kafka.bootstrap_servers)
        .option("topic", new_topic(kafka))
        .option("checkpointLocation", str(checkpoint))
        .outputMode("update")
        .trigger(realTime="5 seconds")  # type: ignore[call-overload]  # not in the stubs of 4.2
        .start()
    )
    return query


def test_rows_of_a_query_without_state_are_counted_in_real_time_mode(
    kafka_spark: SparkSession, kafka: KafkaBroker, tmp_path: Path
) -> None:
    topic, sink = new_topic(kafka), RecordingSink()
    send(kafka, topic, [Sent("x", timestamp_ms=1_767_225_600_000 + 1_000 * k) for k in range(20)])
    tapped = _read(kafka_spark, kafka, topic).transform(
        adaptive_watermark("timestamp", "10 seconds", sink=sink)
    )
    query = _start(tapped.selectExpr("value"), kafka, tmp_path / "checkpoint")
    try:
        until(lambda: sum(report.rows for report in sink.reports) == 20 or not query.isActive, "the rows")
    finally:
        query.stop()

    assert query.exception() is None
    assert all("no stateful operator" in str(report.contradiction) for report in sink.reports)


def test_spark_itself_fails_a_windowed_count_in_real_time_mode(
    kafka_spark: SparkSession, kafka: KafkaBroker, tmp_path: Path
) -> None:
    """Only from 4.3 on it does not."""
    tapped = _read(kafka_spark, kafka, new_topic(kafka)).transform(
        adaptive_watermark("timestamp", "10 seconds", tumbling("10 seconds"), sink=RecordingSink())
    )
    counts = tapped.groupBy(F.window("timestamp", "10 seconds")).count()
    query = _start(
        counts.select(F.col("count").cast("string").alias("value")), kafka, tmp_path / "checkpoint"
    )
    with pytest.raises(StreamingQueryException, match="OPERATOR_OR_SINK_NOT_IN_ALLOWLIST"):
        query.awaitTermination()


def test_a_live_query_in_real_time_mode_is_stopped_with_the_reason_and_other_queries_are_still_reported(
    kafka_spark: SparkSession,
    kafka: KafkaBroker,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    live = adaptive_watermark(
        "timestamp", "10 seconds", tumbling("10 seconds"), ceiling="1 hour", mode="Live"
    )
    events = _read(kafka_spark, kafka, new_topic(kafka)).transform(live)
    with caplog.at_level(logging.ERROR, "tidemark.spark"):
        query = _start(events.selectExpr("value"), kafka, tmp_path / "real-time")
        with pytest.raises(StreamingQueryException, match="use a processing-time trigger"):
            query.awaitTermination()

    assert "use a processing-time trigger" in caplog.text
    job = Job(kafka_spark, tmp_path, tumbling("10 seconds"))
    job.write(random_batches(1, 2))
    job.run_available("10 seconds")
    assert [report.batch_id for report in job.recorded.reports if report.rows] == [0, 1]
