"""The query in Spark: with a fixed bound, and steered by Tidemark; all in one session, each with a topic of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from threading import Thread
from typing import Literal, NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from tidemark.spark_jobs import AdaptiveQuery, adaptive_watermark
from tidemark.spark_jobs.demo.controller_process import ControllerProcess
from tidemark.spark_jobs.demo.kafka_jars import with_kafka
from tidemark.spark_jobs.restart.restart_rule import DEFAULT_COOLDOWN_S
from tidemark.spark_jobs.spark.checkpoint import LOCAL_SPARK
from tidemark.spark_jobs.spark.java import ensure_java

from bench.nexmark.bids import WINDOW_S
from support.policies import at_once

__all__ = ["SPARK_TRIGGER_S", "Batch", "Watermark", "fixed", "running_spark", "running_tidemark"]

SPARK_TRIGGER_S = 2
_CEILING, _COOLDOWN_MS = "2 minutes", 3_600_000
_TASKS = 8
"""At once, more than there are cores: a task that reads the few rows of a quiet time mostly waits for Kafka."""


@dataclass(frozen=True, slots=True)
class Watermark:
    """What stands in the query in place of ``withWatermark``."""

    put_on: Callable[[DataFrame], DataFrame]
    cooldown_s: float | None = None
    """Shortest time between two restarts for a bound; None: it is never restarted."""


class Batch(NamedTuple):
    """What Spark says of one batch."""

    begin_us: int
    took_s: float
    rows: int
    dropped: int
    """The sum of ``numRowsDroppedByWatermark``."""


def fixed(bound_ms: int) -> Watermark:
    """Return Spark's own watermark."""
    return Watermark(lambda bids: bids.withWatermark("ts", f"{bound_ms} milliseconds"))


@contextmanager
def running_tidemark(
    folder: Path, mode: Literal["Live", "Restart"], bound_ms: int, target_ppm: int, speed: int
) -> Iterator[Watermark]:
    """Start a controller that knows the target and nothing else; return the watermark that it steers.

    The cooldowns of controller and job are as long as by default on a clock that is so many times as fast.
    """
    folder.mkdir()
    job = f"nexmark-{mode.lower()}"
    controller = ControllerProcess(folder, job, "bids")
    try:
        controller.wait_until_ready()
        controller.put("slo", {"target_ppm": target_ppm})
        controller.put("policy", at_once(mode, cooldown_ms=_COOLDOWN_MS // speed))
        steered = adaptive_watermark(
            "ts",
            f"{bound_ms} milliseconds",
            job=job,
            stream="bids",
            mode=mode,
            ceiling=_CEILING if mode == "Live" else None,
            controller_url=controller.url,
        )
        yield Watermark(steered, DEFAULT_COOLDOWN_S / speed if mode == "Restart" else None)
    finally:
        controller.stop()


@contextmanager
def running_spark(
    folder: Path, servers: str, topic: str, watermarks: Mapping[str, Watermark]
) -> Iterator[Callable[[], dict[str, list[Batch]]]]:
    """Run a query for each watermark, which writes into the topic of that name.

    What comes returns the batches so far by the name of the watermark, of those that are never restarted.
    """
    ensure_java()
    confs = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.streaming.numRecentProgressUpdates": "10000",
        **LOCAL_SPARK,
    }
    spark = with_kafka(SparkSession.builder.master(f"local[{_TASKS}]").config(map=confs)).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    queries: dict[str, StreamingQuery] = {}
    runners: list[tuple[AdaptiveQuery, Thread]] = []

    def start(name: str) -> StreamingQuery:
        return _start(spark, folder / name, servers, topic, name, watermarks[name].put_on)

    try:
        for name, watermark in watermarks.items():
            if watermark.cooldown_s is None:
                queries[name] = start(name)
            else:
                runner = AdaptiveQuery(partial(start, name), cooldown_s=watermark.cooldown_s)
                thread = Thread(target=runner.run, daemon=True)
                thread.start()
                runners.append((runner, thread))
        yield lambda: {name: _batches(query) for name, query in queries.items()}
    finally:
        spark.sparkContext.setLogLevel("OFF")  # of batches that are ended halfway
        for runner, thread in runners:
            runner.stop()
            thread.join()
        for query in spark.streams.active:
            query.stop()
        spark.stop()


def _start(
    spark: SparkSession,
    folder: Path,
    servers: str,
    topic: str,
    name: str,
    put_on: Callable[[DataFrame], DataFrame],
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
        bids.transform(put_on)
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


def _batches(query: StreamingQuery) -> list[Batch]:
    return [
        Batch(
            begin_us=round(datetime.fromisoformat(progress.timestamp).timestamp() * 1e6),
            took_s=progress.durationMs["triggerExecution"] / 1_000,
            rows=progress.numInputRows,
            dropped=sum(state.numRowsDroppedByWatermark for state in progress.stateOperators),
        )
        for progress in query.recentProgress
    ]
