"""Live queries over streams made on disk, and what can go wrong with them: nothing steers, a killed driver.

Run as a module it is a driver that kills itself, JVM and all, in the middle of a batch:
``python -m support.live_faults FOLDER BATCH``.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from tidemark.models.base.operators import TimeWindow, tumbling
from tidemark.models.protocol.messages import Mode, Report
from tidemark.spark_jobs import adaptive_watermark, flush
from tidemark.spark_jobs.core.watch import Orders
from tidemark.spark_jobs.live.queries import LiveQueries
from tidemark.spark_jobs.live.streams import LiveStream

from support import patience
from support.live_streams import work_off_all
from support.patience import PATIENCE_S
from support.spark_streams import EPOCH_US, SCHEMA, RecordingSink, Row, aggregate, driver_of_its_own, started
from support.streams import Row as Event
from support.streams import report_of
from support.trace_source import register_trace_source

SECOND = 1_000_000
START_US = EPOCH_US + 3_600 * SECOND
BATCH_OF_THE_KILL = 4
Emitted = list[tuple[int, tuple[int, ...]]]
"""What a batch emitted: end of the window in microseconds, ids of its rows."""


# -- a query -------------------------------------------------------------------------------------------------------


@dataclass
class LiveJob:
    """A query over a source, in Live or to be compared with it, run in turns from one checkpoint.

    Args:
        spark: the session.
        folder: for the checkpoint.
        source: returns the stream: columns ``id``, ``ts`` and whatever names the partition.
        bound: the job's own bound.
        ceiling: the ceiling; None for that which a call without it has.
        mode: the job's own mode.
        operator: the window.
        output_mode: Spark's output mode.
        sink: takes what each batch emitted; what it emitted is kept in ``output`` in any case.
        given: more arguments of ``adaptive_watermark``.
    """

    spark: SparkSession
    folder: Path
    source: Callable[[], DataFrame]
    bound: str = "10 seconds"
    ceiling: str | None = "10 minutes"
    mode: Mode = "Live"
    operator: TimeWindow = field(default_factory=lambda: tumbling("10 seconds"))
    output_mode: str = "append"
    sink: Callable[[int, Emitted], None] | None = None
    given: Mapping[str, Any] = field(default_factory=dict)
    recorded: RecordingSink = field(default_factory=RecordingSink)
    output: dict[int, Emitted] = field(default_factory=dict)

    def start(self, interval: str = "0 seconds", *, available_now: bool = False) -> StreamingQuery:
        """Start the query."""
        given: dict[str, Any] = {"stream": "live", "sink": self.recorded, "mode": self.mode, **self.given}
        tapped = self.source().transform(
            adaptive_watermark("ts", self.bound, self.operator, ceiling=self.ceiling, **given)
        )
        trigger = {"availableNow": True} if available_now else {"processingTime": interval}
        writer = (
            aggregate(tapped, self.operator)
            .writeStream.foreachBatch(self._collect)
            .outputMode(self.output_mode)
            .option("checkpointLocation", str(self.checkpoint))
            .trigger(**trigger)
        )
        return started(writer.start)

    def run(self, interval: str = "0 seconds", *, available_now: bool = False) -> None:
        """Run the query over all that is there."""
        query = self.start(interval, available_now=available_now)
        try:
            if available_now:
                query.awaitTermination()
            else:
                work_off_all(query)
        finally:
            query.stop()
        assert flush(PATIENCE_S), "the listener did not report all batches"

    @property
    def checkpoint(self) -> Path:
        """Folder of the checkpoint."""
        return self.folder / "checkpoint"

    @property
    def reports(self) -> list[Report]:
        """The reports so far, in order."""
        return self.recorded.reports

    def kept(self) -> list[int]:
        """Return the ids of all rows in the sink, sorted; one that is there twice is there twice."""
        return sorted(identity for emitted in self.output.values() for _, ids in emitted for identity in ids)

    def batches_of_rows_until_closed(self) -> dict[int, int]:
        """Return by window's end how many batches with rows had been read when the window was emitted."""
        with_rows = sorted(report.batch_id for report in self.reports if report.rows)
        return {
            end: int(np.searchsorted(with_rows, batch, side="right"))
            for batch, emitted in self.output.items()
            for end, _ in emitted
        }

    def watermarks_ms(self) -> dict[int, int]:
        """Return the watermark in force in each batch that was reported."""
        return {report.batch_id: report.watermark_ms for report in self.reports}

    def _collect(self, df: DataFrame, batch_id: int) -> None:
        emitted = [(row["key_us"], tuple(sorted(row["ids"]))) for row in df.collect()]
        self.output[batch_id] = emitted
        if self.sink is not None:
            self.sink(batch_id, emitted)


@dataclass(frozen=True, slots=True)
class Logged:
    """An entry of a checkpoint's offset log."""

    watermark_ms: int
    clock_ms: int

    @classmethod
    def read(cls, checkpoint: Path, batch: int) -> Logged:
        """Return the entry of a batch."""
        _, metadata, *_ = (checkpoint / "offsets" / str(batch)).read_text().splitlines()
        body = json.loads(metadata)
        return cls(body["batchWatermarkMs"], body["batchTimestampMs"])


def logged_batches(checkpoint: Path) -> list[int]:
    """Return the batches in a checkpoint's offset log."""
    return sorted(int(path.name) for path in (checkpoint / "offsets").iterdir() if path.name.isdecimal())


def until(
    true: Callable[[], object], query: StreamingQuery | None = None, patience_s: float = PATIENCE_S
) -> None:
    """Wait until ``true()`` is; fail if it never is, or if the query ends before."""

    def snapshot() -> object:
        found = true()
        assert found or query is None or query.isActive, f"the query ended: {query.exception()}"
        return found

    patience.until(snapshot, "the query to come so far", pause_s=0.05, patience_s=patience_s)


# -- sources -------------------------------------------------------------------------------------------------------


def files(spark: SparkSession, folder: Path, schema: str = SCHEMA) -> Callable[[], DataFrame]:
    """Return the source of a folder of files, one a batch. It does not report its backlog."""
    folder.mkdir(parents=True, exist_ok=True)
    return lambda: spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).json(str(folder))


def trace(spark: SparkSession, path: Path, **options: str) -> Callable[[], DataFrame]:
    """Return the source of a replayed trace. It reports that it has no backlog."""

    def source() -> DataFrame:
        register_trace_source(spark)
        read = spark.readStream.format("tidemark_trace").options(path=str(path), **options).load()
        return read.selectExpr("seq as id", "partition", "event_time as ts")

    return source


def write_trace(path: Path, rows: Iterable[tuple[int, int, str]]) -> None:
    """Write a trace of rows ``(arrival_time_us, event_time_us, partition)`` in their order."""
    arrival, event, partition = zip(*rows, strict=True)
    columns = {
        "seq": np.arange(len(arrival), dtype=np.int64),
        "event_time_us": np.array(event, np.int64),
        "arrival_time_us": np.array(arrival, np.int64),
        "partition": list(partition),
    }
    pq.write_table(pa.table(columns), path)


# -- steering that fails -------------------------------------------------------------------------------------------


class FaultyQueries:
    """What decides for the live queries of a session, which can be made to fail or to fall silent.

    Args:
        requires: as of ``LiveQueries``.
    """

    def __init__(self, requires: Callable[..., int | None]) -> None:
        self.asked = 0
        self._requires = requires
        self._dead = self._silent = False
        self._speak = threading.Event()

    def __call__(self, run_id: str, *, finds_nothing: bool) -> int | None:
        """Decide as the driver does, unless it is dead, or silent."""
        if self._dead:
            raise ConnectionError("dead")
        self.asked += 1
        if self._silent:
            self._speak.wait()
            return None
        return self._requires(run_id, finds_nothing=finds_nothing)

    def die(self) -> None:
        """Fail from now on."""
        self._dead = True

    def fall_silent(self) -> None:
        """Take questions and answer none."""
        self._silent = True

    def speak(self) -> None:
        """Answer again."""
        self._silent = False
        self._speak.set()


# -- a driver that is killed -----------------------------------------------------------------------------------------


def steady(number: int, *, slow: bool = True, trailing_s: int = 60) -> list[Row]:
    """Return the rows of batch ``number``: partition 0 at 10 s a batch, partition 1 trailing unless it is silent."""
    rows = []
    for k in range(5):
        time_us = EPOCH_US + 3_600 * SECOND + (number * 10 + 2 * k) * SECOND
        rows.append(Row(number * 10 + 2 * k, 0, time_us))
        if slow:
            rows.append(Row(number * 10 + 2 * k + 1, 1, time_us - trailing_s * SECOND))
    return rows


def write_once(folder: Path) -> Callable[[int, Emitted], None]:
    """Return an idempotent sink: one file a batch, written whole."""
    folder.mkdir(parents=True, exist_ok=True)

    def write(batch: int, emitted: Emitted) -> None:
        hidden = folder / f".{batch}"
        hidden.write_text(json.dumps(emitted))
        hidden.replace(folder / f"{batch}.json")

    return write


def job_to_be_killed(spark: SparkSession, folder: Path) -> LiveJob:
    """Return the job of the driver that is killed, as it is before and after."""
    return LiveJob(spark, folder, files(spark, folder / "in"), sink=write_once(folder / "out"))


def _main(folder: Path, kill_in: int) -> None:
    """Run the job and kill the whole process group once batch ``kill_in`` has been written and not committed."""
    spark = driver_of_its_own().getOrCreate()
    job, write = job_to_be_killed(spark, folder), write_once(folder / "out")

    def write_and_die(batch: int, emitted: Emitted) -> None:
        write(batch, emitted)
        if batch == kill_in:
            os.killpg(os.getpgrp(), signal.SIGKILL)

    job.sink = write_and_die
    job.start().awaitTermination(int(2 * PATIENCE_S))


# -- the driver's side alone -----------------------------------------------------------------------------------------


class Driver:
    """One live query as its driver sees it, by a clock of the test: it decides, a batch is run, and so on."""

    def __init__(
        self,
        *,
        trigger_ms: int | None = 1_000,
        idle_timeout_us: int | None = None,
        bound_s: int = 10,
        bases_us: Mapping[str, int] | None = None,
        watermark_ms: int = 0,
        now_us: int = START_US,
    ) -> None:
        self.now_us = now_us
        self.operator: TimeWindow = tumbling("10 s")
        self.queries = LiveQueries(lambda: self.now_us)
        stream = LiveStream(
            name="s",
            ceiling_us=7_200 * SECOND,
            idle_timeout_us=idle_timeout_us,
            orders=Orders(None, bound_s * 1_000, "Live", None),
        )
        self.queries.add("tap", stream)
        self.queries.started("run", {"tap": self.operator}, trigger_ms, bases_us={"s": bases_us or {}})
        self.watermark_ms = watermark_ms
        self.batches = 0

    @property
    def bases_us(self) -> Mapping[str, int]:
        """How far the partitions have come, as it is kept."""
        return self.queries.bases_us("run")["s"]

    def ask(self, *, finds_nothing: bool = False) -> int:
        """Let it decide; return the watermark required by now, in microseconds."""
        required_ms = self.queries.requires("run", finds_nothing=finds_nothing)
        self.watermark_ms = self.watermark_ms if required_ms is None else required_ms
        return self.watermark_ms * 1_000

    def run(self, rows: Iterable[Event], backlog: Mapping[str, int] | None, takes_us: int = SECOND) -> None:
        """Run a batch of these rows."""
        self.ask()
        rows = list(rows)
        report = report_of(
            rows,
            self.operator,
            late_watermark_ms=0,
            granule_us=SECOND,
            batch_id=self.batches,
            started_us=self.now_us,
            duration_ms=takes_us // 1_000,
        )
        newest: dict[str, int] = {}
        for part in report.counts.by_partition():
            newest[part.partition] = max(part.granules)
        self.queries.batch("run", self.watermark_ms, self.now_us)
        self.queries.observe("run", "tap", report, newest, backlog)
        self.batches += 1
        self.now_us += takes_us

    def rows(self, *names: str, behind_s: int = 60) -> list[Event]:
        """Return a row of each partition now; those that are named so are slow."""
        return [(name, self.now_us - behind_s * SECOND * (name == "slow")) for name in names]


def whole_second(time_us: int) -> int:
    """Return the time as a tap that counts by the second knows it."""
    return time_us // SECOND * SECOND


def windows_of(rows: Iterable[Row], operator: TimeWindow) -> dict[int, list[int]]:
    """Return the ids of the rows of each tumbling window, by its end."""
    found: dict[int, list[int]] = {}
    for row in rows:
        end = row.event_time_us // operator.size_us * operator.size_us + operator.size_us
        found.setdefault(end, []).append(row.id)
    return {end: sorted(ids) for end, ids in sorted(found.items())}


__all__ = [
    "BATCH_OF_THE_KILL",
    "Driver",
    "FaultyQueries",
    "LiveJob",
    "Logged",
    "files",
    "job_to_be_killed",
    "logged_batches",
    "steady",
    "trace",
    "until",
    "whole_second",
    "windows_of",
    "write_once",
    "write_trace",
]

if __name__ == "__main__":
    _main(Path(sys.argv[1]), int(sys.argv[2]))
