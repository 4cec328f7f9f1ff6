"""Real-time mode has no batches to count: a query that asks for it is stopped, with the reason."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import StreamingQueryException

from tidemark.models.operators import tumbling
from tidemark.spark_jobs import adaptive_watermark

from support.kafka import new_topic
from support.spark_streams import Job, random_batches

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidemark.spark_jobs.demo.kafka_broker import KafkaBroker

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def test_a_query_in_real_time_mode_is_stopped_with_the_reason_and_other_queries_are_still_reported(
    kafka_spark: SparkSession,
    kafka: KafkaBroker,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    servers = kafka.bootstrap_servers
    events = (
        kafka_spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", servers)
        .option("subscribe", new_topic(kafka))
        .load()
        .transform(adaptive_watermark("timestamp", "10 seconds", tumbling("10 seconds")))
    )
    with caplog.at_level(logging.ERROR, "tidemark.spark"):
        query = (
            events.selectExpr("value")
            .writeStream.format("kafka")
            .option("kafka.bootstrap.servers", servers)
            .option("topic", new_topic(kafka))
            .option("checkpointLocation", str(tmp_path / "real-time"))
            .outputMode("update")
            .trigger(realTime="5 seconds")  # type: ignore[call-overload]  # not in the stubs of 4.2
            .start()
        )
        with pytest.raises(StreamingQueryException, match="use a processing-time trigger"):
            query.awaitTermination()

    assert "use a processing-time trigger" in caplog.text
    job = Job(kafka_spark, tmp_path, tumbling("10 seconds"))
    job.write(random_batches(1, 2))
    job.run_available("10 seconds")
    assert [report.batch_id for report in job.recorded.reports if report.rows] == [0, 1]
