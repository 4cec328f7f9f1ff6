"""The query in Spark: with a fixed bound, and steered by Tidemark; all in one session, each with a topic of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from tidemark.spark_jobs import adaptive_watermark
from tidemark.spark_jobs.demo.controller_process import ControllerProcess
from tidemark.spark_jobs.demo.kafka_jars import with_kafka
from tidemark.spark_jobs.spark.checkpoint import LOCAL_SPARK
from tidemark.spark_jobs.spark.java import ensure_java

from bench.nexmark.bids import WINDOW_S
from support.policies import at_once

__all__ = ["SPARK_TRIGGER_S", "fixed", "running_spark", "running_tidemark", "slowest_batch_s"]

SPARK_TRIGGER_S = 2
_CEILING = "2 minutes"

Watermark = Callable[[DataFrame], DataFrame]


def fixed(bound_ms: int) -> Watermark:
    """Return Spark's own watermark."""
    return lambda bids: bids.withWatermark("ts", f"{bound_ms} milliseconds")


@contextmanager
def running_tidemark(folder: Path, bound_ms: int, target_ppm: int) -> Iterator[Watermark]:
    """Start a controller that knows the target and nothing else; return the watermark that it steers."""
    folder.mkdir()
    controller = ControllerProcess(folder, "nexmark", "bids")
    try:
        controller.wait_until_ready()
        controller.put("slo", {"target_ppm": target_ppm})
        controller.put("policy", at_once("Live"))
        yield adaptive_watermark(
            "ts",
            f"{bound_ms} milliseconds",
            job="nexmark",
            stream="bids",
            mode="Live",
            ceiling=_CEILING,
            controller_url=controller.url,
        )
    finally:
        controller.stop()


@contextmanager
def running_spark(
    folder: Path, servers: str, topic: str, watermarks: Mapping[str, Watermark]
) -> Iterator[list[StreamingQuery]]:
    """Run a query for each watermark, which writes into the topic of that name."""
    ensure_java()
    confs = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.streaming.numRecentProgressUpdates": "1000",
        **LOCAL_SPARK,
    }
    spark = with_kafka(SparkSession.builder.master("local[2]").config(map=confs)).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    try:
        yield [
            _start(spark, folder / name, servers, topic, name, watermark)
            for name, watermark in watermarks.items()
        ]
    finally:
        spark.sparkContext.setLogLevel("OFF")  # of batches that are ended halfway
        for query in spark.streams.active:
            query.stop()
        spark.stop()


def _start(
    spark: SparkSession, folder: Path, servers: str, topic: str, name: str, watermark: Watermark
) -> StreamingQuery:
    value = F.from_json(F.col("value").cast("string"), "auction long, price long, event_us long")
    bids = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", servers)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .load()
        .withColumn("bid", value)
        .select(
            F.timestamp_micros("bid.event_us").alias("ts"), "bid.*", "partition", "timestamp", "timestampType"
        )
    )
    return (
        bids.transform(watermark)
        .groupBy(F.window("ts", f"{WINDOW_S} seconds"), "auction")
        .agg(F.count("*").alias("bids"), F.max("price").alias("max_price"))
        .select(
            F.to_json(
                F.struct(F.unix_micros("window.end").alias("window_end_us"), "auction", "bids", "max_price")
            ).alias("value")
        )
        .writeStream.queryName(name)
        .format("kafka")
        .option("kafka.bootstrap.servers", servers)
        .option("topic", name)
        .option("checkpointLocation", str(folder))
        .trigger(processingTime=f"{SPARK_TRIGGER_S} seconds")
        .start()
    )


def slowest_batch_s(query: StreamingQuery, since_us: int) -> float:
    """Return the longest time of a batch that began at ``since_us`` or later, in seconds."""
    since = datetime.fromtimestamp(since_us / 1e6, UTC)
    return max(
        progress.durationMs["triggerExecution"] / 1_000
        for progress in query.recentProgress
        if datetime.fromisoformat(progress.timestamp) >= since
    )
