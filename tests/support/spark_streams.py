"""Real Spark queries over streams made on disk: one file is one micro-batch, rows carry an id to be traced by."""

from __future__ import annotations

import json
import os
import random
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from tidemark.models.base.operators import Operator, SessionWindow, TimeWindow
from tidemark.models.protocol.messages import Acknowledgement, Report
from tidemark.spark_jobs import adaptive_watermark, flush
from tidemark.spark_jobs.late.side import Side
from tidemark.spark_jobs.spark.checkpoint import LOCAL_SPARK

from support.patience import PATIENCE_S, until

SCHEMA = "id long, partition int, ts timestamp"
EPOCH_US = 1_767_225_600_000_000
"""2026-01-01T00:00:00Z, on the grid of every window the tests use."""


@dataclass(frozen=True, slots=True)
class Row:
    """A row of a test stream."""

    id: int
    partition: int
    event_time_us: int


@dataclass
class RecordingSink:
    """Records what a listener reports, in order."""

    reports: list[Report] = field(default_factory=list)
    acknowledgements: list[Acknowledgement] = field(default_factory=list)
    dropped: int = 0

    def report(self, report: Report) -> None:
        """Record the report."""
        self.reports.append(report)

    def acknowledge(self, job: str, stream: str, acknowledgement: Acknowledgement) -> None:  # noqa: ARG002
        """Record the acknowledgement."""
        self.acknowledgements.append(acknowledgement)


def driver_of_its_own() -> SparkSession.Builder:
    """Return what makes the session of a program that a test starts, and that may be killed with its JVM."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    return (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "1")
        .config("spark.sql.session.timeZone", "UTC")
        .config(map=LOCAL_SPARK)
    )


def iso(event_time_us: int) -> str:
    """Return the time as Spark's JSON reader takes it, to the microsecond."""
    moment = datetime.fromtimestamp(event_time_us // 1_000_000, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{event_time_us % 1_000_000:06d}Z"


def write_batch(folder: Path, number: int, rows: Iterable[Row]) -> None:
    """Write one batch as one file; files are taken in the order of their numbers."""
    folder.mkdir(parents=True, exist_ok=True)
    hidden, shown = folder / f".{number:05d}", folder / f"{number:05d}.json"
    lines = (json.dumps({"id": r.id, "partition": r.partition, "ts": iso(r.event_time_us)}) for r in rows)
    hidden.write_text("\n".join(lines) + "\n")
    os.utime(hidden, (1_000_000_000 + number, 1_000_000_000 + number))
    hidden.rename(shown)


def random_batches(seed: int, batches: int, partitions: int = 3) -> list[list[Row]]:
    """Return a stream with exponential delays, ties on window edges, batches of all sizes and idle gaps."""
    rng = random.Random(seed)
    now_us, identity, result = EPOCH_US + 3_600_000_000, 0, []
    for _ in range(batches):
        now_us += rng.choice([500_000, 3_000_000, 3_000_000, 7_000_000, rng.choice([2_000_000, 40_000_000])])
        rows = []
        for _ in range(rng.choice([1, 2, 10, 40, 80])):
            event_us = now_us - rng.randrange(3_000_000) - int(rng.expovariate(1 / 6_000_000))
            grain = rng.choice([1, 1, 1_000, 1_000_000, 5_000_000])
            rows.append(
                Row(identity, rng.randrange(partitions), event_us // grain * grain + rng.choice([0, 0, 1]))
            )
            identity += 1
        result.append(rows)
    return result


def started(start: Callable[[], StreamingQuery], tries: int = 5) -> StreamingQuery:
    """Start a query, again if the Python process of a source was not up within the 10 s that Spark allows it.

    No batch has been planned by then, so nothing is different the second time. Spark 4.2 has no setting for these 10 s
    (``PythonWorkerFactory.createSimpleWorker``), and a machine that does much else may need longer.
    """
    query = start()
    while query.isActive and query.status["message"].startswith("Initializing"):
        time.sleep(0.02)
    if tries > 1 and not query.isActive and "failed to connect back" in str(query.exception()):
        return started(start, tries - 1)
    return query


def aggregate(df: DataFrame, operator: Operator, *, dedup: bool = False) -> DataFrame:
    """Return the stateful operator with the ids that reached it: columns ``key_us`` (windows) or none, and ``ids``."""
    if isinstance(operator, TimeWindow):
        window = F.window(
            "ts",
            f"{operator.size_us} microseconds",
            f"{operator.slide_us} microseconds",
            f"{operator.start_us} microseconds",
        )
        return (
            df.groupBy(window)
            .agg(F.collect_list("id").alias("ids"))
            .select(F.unix_micros("window.end").alias("key_us"), "ids")
        )
    if isinstance(operator, SessionWindow):
        gap = F.session_window("ts", f"{operator.gap_us} microseconds")
        return df.groupBy(gap, "partition").agg(F.collect_list("id").alias("ids")).select("ids")
    return df.dropDuplicatesWithinWatermark(["id"]).select(F.array("id").alias("ids"))


@dataclass
class Job:
    """A query over a folder of batches, run in turns from one checkpoint."""

    spark: SparkSession
    folder: Path
    operator: Operator
    output_mode: str = "append"
    stream: str = "test"
    granule: str | None = None
    max_keys: int = 98_304
    recorded: RecordingSink = field(default_factory=RecordingSink)
    output: dict[int, list[tuple[int | None, tuple[int, ...]]]] = field(default_factory=dict)
    written: int = 0
    controller_url: str | None = None
    recording: bool = False
    """With a controller: whether reports are kept here instead of being sent to it."""
    parse: Callable[[DataFrame], DataFrame] = lambda raw: raw
    """Between the source and the watermark."""
    late: Side | None = None
    declared: bool = True
    """Whether the call declares the operator."""

    def write(self, batches: Iterable[Iterable[Row]]) -> None:
        """Add batches to the folder."""
        for rows in batches:
            write_batch(self.folder / "in", self.written, rows)
            self.written += 1

    def start(
        self, bound: str, *, available_now: bool = False, interval: str = "0 seconds"
    ) -> StreamingQuery:
        """Start the query with the job's own bound."""
        (self.folder / "in").mkdir(parents=True, exist_ok=True)
        source = (
            self.spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json(str(self.folder / "in"))
        )
        tapped = source.transform(self.parse).transform(
            adaptive_watermark(
                "ts",
                bound,
                self.operator if self.declared else None,
                stream=self.stream,
                granule=self.granule,
                max_keys=self.max_keys,
                controller_url=self.controller_url,
                sink=None if self.controller_url and not self.recording else self.recorded,
                late=self.late,
            )
        )
        trigger = {"availableNow": True} if available_now else {"processingTime": interval}
        return (
            aggregate(tapped, self.operator)
            .writeStream.foreachBatch(self._collect)
            .outputMode(self.output_mode)
            .option("checkpointLocation", str(self.folder / "checkpoint"))
            .trigger(**trigger)
            .start()
        )

    def run(self, bound: str, groups: Iterable[Iterable[Iterable[Row]]]) -> None:
        """Run the query once with ``bound``; after each group of batches it idles, which brings a no-data batch."""
        query = self.start(bound)
        try:
            for group in groups:
                self.write(group)
                query.processAllAvailable()
        finally:
            query.stop()
        assert flush(PATIENCE_S), "the listener did not report all batches"

    def run_one(self, bound: str, rows: Iterable[Row]) -> None:
        """Run the query for one batch and stop it before the no-data batch that would have come at the next trigger."""
        self.write([rows])
        # Triggers come at whole multiples of the interval since 1970: with one of an hour, full hours would be met.
        query = self.start(bound, interval="10000 days")
        try:
            until(lambda: query.lastProgress, "the end of the batch")
        finally:
            query.stop()
        assert flush(PATIENCE_S), "the listener did not report all batches"

    def run_available(self, bound: str) -> None:
        """Run the query once over all that is there, batches back to back."""
        query = self.start(bound, available_now=True)
        query.awaitTermination()
        assert flush(PATIENCE_S), "the listener did not report all batches"

    def _collect(self, df: DataFrame, batch_id: int) -> None:
        self.output[batch_id] = [
            (row["key_us"] if "key_us" in df.columns else None, tuple(row["ids"])) for row in df.collect()
        ]
