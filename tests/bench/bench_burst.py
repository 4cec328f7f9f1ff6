"""A burst on real Kafka and Spark: 20 times the traffic for a while, before a queue that serves four times the usual.

Three queries count the same topic by windows: plain Spark at a bound of 0 s, and Live at two targets. The queue is in
Kafka, of which a batch takes no more rows than that, or before it, so that nothing is unread and the rows are old when
they come. What came out of each is compared with what is in the topic.

TIDEMARK_BENCH_CALM and TIDEMARK_BENCH_BURST say for how many seconds traffic is as usual, 60 unless given, and how
long the burst lasts, 20 unless given: some 4 minutes each. With 240 and 120 s it takes 18 minutes each.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import functions as F

from tidemark.spark_jobs import adaptive_watermark, flush
from tidemark.spark_jobs.demo.controller_process import ControllerProcess
from tidemark.spark_jobs.demo.examples.kafka_counts import read_topic
from tidemark.spark_jobs.demo.kafka_broker import KafkaBroker
from tidemark.spark_jobs.demo.kafka_feed import replay_into_topic

from support.kafka import new_topic
from support.patience import PATIENCE_S, until
from support.policies import at_once
from support.synthetic import START_US, Float64s, Rows, even_times, fifo, usual_delay

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

pytestmark = [pytest.mark.bench, pytest.mark.spark, pytest.mark.timeout(7200)]

CALM_S = int(os.environ.get("TIDEMARK_BENCH_CALM", "60"))
BURST_S = int(os.environ.get("TIDEMARK_BENCH_BURST", "20"))
RATE, TIMES = 50, 20
SERVED = 4 * RATE
"""Rows a second that the queue lets through, in a trigger of a second."""
LONGEST_S = CALM_S + 20 * BURST_S + 300
"""When traffic ends, on a machine on which the queue is never empty again."""
PARTITIONS = 4
WINDOW_S = 10
CAUGHT_UP_S = 5
TARGETS_PPM = {"live_99": 990_000, "live_999": 999_000}
JOB = "burst"


def _write(path: Path, *, queued: bool) -> None:
    """Write the trace; ``queued`` rows have left the queue when they come."""
    rng = np.random.default_rng(37)
    event_s: Float64s = np.sort(
        np.concatenate(
            [even_times(rng, RATE, LONGEST_S), CALM_S + even_times(rng, (TIMES - 1) * RATE, BURST_S)]
        )
    )
    arrival_s = event_s + usual_delay(rng, len(event_s))
    if queued:
        arrival_s = fifo(arrival_s, np.empty((0, 2)), SERVED)
    trace = Rows(event_s, arrival_s, rng.integers(PARTITIONS, size=len(event_s))).trace(START_US)
    columns = {
        "seq": np.arange(len(event_s)),
        "event_time_us": trace.event_time_us,
        "arrival_time_us": trace.arrival_time_us,
        "partition": trace.partition.astype(str),
    }
    pq.write_table(pa.table(columns), path)


@contextmanager
def _controller(folder: Path) -> Iterator[str]:
    """Run a controller that has the targets; give the address of the job's streams."""
    process = ControllerProcess(folder, JOB, "")
    try:
        process.wait_until_ready()
        for stream, target_ppm in TARGETS_PPM.items():
            path = f"{process.url}/v1/jobs/{JOB}/streams/{stream}"
            for what, body in (("slo", {"target_ppm": target_ppm}), ("policy", at_once("Live"))):
                httpx.put(f"{path}/{what}", json=body, timeout=PATIENCE_S).raise_for_status()
        yield process.url
    finally:
        process.stop()


def _start(events: DataFrame, name: str, folder: Path, url: str) -> StreamingQuery:
    """Start a query that puts its windows, and when the batch began that closed them, into a table of its name."""
    if name in TARGETS_PPM:
        adapt = adaptive_watermark(
            "event_time", "10 seconds", job=JOB, stream=name, ceiling="2 hours", controller_url=url
        )
        events = events.transform(adapt)
    else:
        events = events.withWatermark("event_time", "0 seconds")
    return (
        events.groupBy(F.window("event_time", f"{WINDOW_S} seconds"))
        .count()
        .select(F.col("window.end").alias("end"), "count", F.current_timestamp().alias("emitted"))
        .writeStream.format("memory")
        .queryName(name)
        .option("checkpointLocation", str(folder / name))
        .trigger(processingTime="1 second")
        .start()
    )


def _time_of(query: StreamingQuery, which: str) -> float:
    """Return an event time of the newest batch, in seconds; 0 when it had none."""
    progress = query.lastProgress
    text = progress["eventTime"].get(which) if progress else None
    return datetime.fromisoformat(text).timestamp() if text else 0.0


def _wait(queries: Mapping[str, StreamingQuery], url: str, burst_s: float) -> tuple[float, dict[str, str]]:
    """Wait until all that waited is read and three windows more are out.

    Returns:
        Their end, and what the streams of each target said of the backlog; nothing of those that said nothing.
    """
    said: dict[str, str] = {}

    def caught_up() -> bool:
        for query in queries.values():
            assert query.isActive, query.exception()
        for stream in TARGETS_PPM:
            status = httpx.get(f"{url}/v1/jobs/{JOB}/streams/{stream}", timeout=PATIENCE_S).json()
            reason = (status.get("live") or {}).get("reason", "")
            if "behind the clock" in reason:
                said[stream] = reason
        near_s = time.time() - CAUGHT_UP_S
        over = near_s > burst_s + BURST_S
        return over and all(_time_of(query, "max") > near_s for query in queries.values())

    until(caught_up, "the end of the backlog", pause_s=1, patience_s=LONGEST_S)
    end_s = (time.time() // WINDOW_S + 3) * WINDOW_S
    until(
        lambda: all(_time_of(query, "watermark") >= end_s for query in queries.values()),
        "the last windows",
        pause_s=0.2,
    )
    return end_s, said


@dataclass(frozen=True, slots=True)
class _Came:
    """What came out of a query."""

    kept: int
    """Rows."""
    lost_by_burst: int
    """Rows of windows that end after the burst began."""
    waits_s: dict[float, float]
    """How long each window waited after its end."""

    def line(self, name: str, rows: int, burst_s: float) -> str:
        waits = list(self.waits_s.values())
        burst = [wait for end, wait in self.waits_s.items() if end > burst_s]
        return (
            f"{name:<9} kept {100 * self.kept / rows:.3f} %, lost {rows - self.kept:,}, {self.lost_by_burst:,} of them "
            f"from the burst on; its {len(waits)} windows waited {np.mean(waits):.1f} s, from the burst on "
            f"{np.mean(burst):.1f} s, the longest {max(waits):.1f} s"
        )


def _came(spark: SparkSession, name: str, written: Mapping[float, int], burst_s: float) -> _Came:
    out = spark.table(name).collect()
    by_end = {row["end"].timestamp(): row for row in out if row["end"].timestamp() in written}
    assert len({row["end"] for row in out}) == len(out), "a window came twice"
    counts = {end: row["count"] for end, row in by_end.items()}
    return _Came(
        kept=sum(counts.values()),
        lost_by_burst=sum(rows - counts.get(end, 0) for end, rows in written.items() if end > burst_s),
        waits_s={end: row["emitted"].timestamp() - end for end, row in by_end.items()},
    )


@pytest.mark.parametrize("queued", [False, True], ids=["queue_in_kafka", "queue_before_kafka"])
def test_live_keeps_the_target_or_what_plain_spark_keeps_but_for_one_window(
    kafka_spark: SparkSession,
    kafka: KafkaBroker,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    queued: bool,
) -> None:
    topic, trace = new_topic(kafka, PARTITIONS), tmp_path / "trace.parquet"
    _write(trace, queued=queued)
    options = {
        "kafka.bootstrap.servers": kafka.bootstrap_servers,
        "subscribe": topic,
        "startingOffsets": "earliest",
    }
    limit = {} if queued else {"maxOffsetsPerTrigger": str(SERVED)}
    stop, queries = threading.Event(), {}
    with _controller(tmp_path) as url, ThreadPoolExecutor(1) as pool:
        try:
            for name in ("plain", *TARGETS_PPM):
                events = read_topic(kafka_spark, options | limit, "event_time_us", "us")
                queries[name] = _start(events, name, tmp_path, url)
            until(lambda: all(query.lastProgress for query in queries.values()), "the first batches")
            burst_s = time.time() + CALM_S
            replaying = pool.submit(
                replay_into_topic, trace, topic, kafka.bootstrap_servers, shift_to_now=True, stop=stop
            )
            end_s, said = _wait(queries, url, burst_s)
            stop.set()
            replayed = replaying.result(PATIENCE_S)
        finally:
            stop.set()
            for query in queries.values():
                query.stop()
            flush(PATIENCE_S)
    value = F.get_json_object(F.col("value").cast("string"), "$.event_time_us").cast("long")
    event_time = F.timestamp_micros(value).alias("event_time")
    read = kafka_spark.read.format("kafka").options(**options).load().select(event_time)
    ends = read.groupBy(F.window("event_time", f"{WINDOW_S} seconds").end.alias("end")).count()
    written = {row["end"].timestamp(): row["count"] for row in ends.collect()}
    written = {end: count for end, count in written.items() if end <= end_s}
    rows = sum(written.values())
    came = {name: _came(kafka_spark, name, written, burst_s) for name in queries}
    with capsys.disabled():
        print(
            f"\n{rows:,} rows, {CALM_S} s of calm and {BURST_S} s of {TIMES} times the traffic, the queue ",
            end="",
        )
        print(
            "before Kafka" if queued else "in Kafka",
            f"(sent at most {replayed.worst_lag_us / 1e6:.1f} s late)",
        )
        print(*(each.line(name, rows, burst_s) for name, each in came.items()), *said.values(), sep="\n")

    largest = max(written.values())
    for name, target_ppm in TARGETS_PPM.items():
        assert came[name].kept + largest >= min(target_ppm / 1_000_000 * rows, came["plain"].kept)
    assert said.keys() == TARGETS_PPM.keys(), "its status says that it is a backlog"
