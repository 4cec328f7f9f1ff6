"""The demonstration's job: the trace through Spark into a Parquet sink, run by run, and counted against the truth."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow.dataset as ds
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from tidemark.models.base.operators import TimeWindow
from tidemark.spark_jobs import adaptive_watermark
from tidemark.spark_jobs.demo.controller_process import DemoError
from tidemark.spark_jobs.demo.plan import Feed, Plan
from tidemark.spark_jobs.spark.progress import watermark_ms_of

_POLL_SECONDS = 0.25


@dataclass
class Run:
    """What is known of one run."""

    facts: dict[int, BatchFacts] = field(default_factory=dict)
    watermark_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """The job of the demonstration: what all of its runs share."""

    spark: SparkSession
    feed: Feed
    operator: TimeWindow
    own_bound: str
    """The bound that it uses unless the controller gives one."""
    folder: Path
    """Holds the checkpoint and the sink."""
    names: tuple[str, str]
    """Of the job and the stream."""
    controller_url: str

    def start(self, until_rows: int) -> StreamingQuery:
        """Start it from its checkpoint, for the rows of the trace up to ``until_rows``."""
        job, stream = self.names
        counts = (
            self.feed.events(self.spark, until_rows)
            .transform(
                adaptive_watermark(
                    "event_time",
                    self.own_bound,
                    self.operator,
                    job=job,
                    stream=stream,
                    controller_url=self.controller_url,
                )
            )
            .groupBy(F.window("event_time", f"{self.operator.size_us} microseconds"))
            .agg(F.count("*").alias("rows"))
            .select(F.unix_micros("window.end").alias("end_us"), "rows")
        )

        def into_sink(df: DataFrame, batch_id: int) -> None:
            # Overwriting makes a repeated batch harmless; the folder names the batch that emitted the windows.
            df.coalesce(1).write.mode("overwrite").parquet(str(self.folder / "sink" / f"batch={batch_id}"))

        return (
            counts.writeStream.foreachBatch(into_sink)
            .outputMode("append")
            .option("checkpointLocation", str(self.folder / "checkpoint"))
            .trigger(processingTime=self.feed.interval)
            .start()
        )

    def replay(self, until_rows: int, on_progress: Callable[[Run], None]) -> Run:
        """Run it until row ``until_rows`` and every window the watermark closes is out; return what is known of it.

        Raises:
            DemoError: when the query or the feed fails.
        """
        query = self.start(until_rows)
        run = Run()
        try:
            _drain(query, self.feed, until_rows, run, on_progress)
        finally:
            query.stop()
        return run


def _drain(
    query: StreamingQuery, feed: Feed, until_rows: int, run: Run, on_progress: Callable[[Run], None]
) -> None:
    failures: list[Exception] = []

    def work() -> None:
        try:
            feed.send(until_rows)
            query.processAllAvailable()
        except Exception as error:  # noqa: BLE001 - raised where the thread is joined
            failures.append(error)

    worker = threading.Thread(target=work, daemon=True)
    worker.start()
    while True:
        worker.join(_POLL_SECONDS)
        _take(query, feed, run)
        on_progress(run)
        if not worker.is_alive():
            break
        if not query.isActive:
            feed.stop()
    check(query)
    if failures:
        raise DemoError(str(failures[0]).partition("\n")[0]) from failures[0]
    _take(query, feed, run)


def check(query: StreamingQuery) -> None:
    """Check that a query has not failed.

    Raises:
        DemoError: when it has.
    """
    error = query.exception()
    if error is not None:
        raise DemoError(f"the Spark query failed: {str(error).splitlines()[0]}")


def _take(query: StreamingQuery, feed: Feed, run: Run) -> None:
    for progress in query.recentProgress:
        end = progress.sources[0].endOffset
        if "triggerExecution" not in progress.durationMs or "addBatch" not in progress.durationMs or not end:
            continue  # an idle trigger ran no batch
        run.facts[progress.batchId] = BatchFacts(
            progress.batchId,
            feed.rows_read(end),
            sum(state.numRowsTotal for state in progress.stateOperators),
        )
        run.watermark_ms = max(run.watermark_ms, watermark_ms_of(progress) or 0)


@dataclass(frozen=True, slots=True)
class BatchFacts:
    """What Spark reported of one batch."""

    batch_id: int
    rows_so_far: int
    """Rows of the trace that were taken up to this batch."""
    state_rows: int
    """Rows in the state store after the batch."""


@dataclass(frozen=True, slots=True)
class SinkWindow:
    """One window as it stands in the sink."""

    batch_id: int
    end_us: int
    rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Completeness and latency under some bounds."""

    bounds_ms: tuple[int, ...]
    """The bounds, one after the other, in milliseconds; none where one moved."""
    rows: int
    """Rows of the trace that belong to windows that closed."""
    lost: int
    """Rows of those that were not counted."""
    lost_later: int
    """Those of them whose windows closed after the restart."""
    latency_us: float | None
    """Mean over the windows of the wall time of emission, by the trace's clock, minus the window's end."""
    replayed: bool
    """Whether it was worked out rather than run on Spark."""

    @property
    def completeness(self) -> float | None:
        """Share of the rows that were counted; None when no window closed."""
        return (self.rows - self.lost) / self.rows if self.rows else None


def read_sink(folder: Path) -> list[SinkWindow]:
    """Return every window in the sink."""
    if not any(folder.rglob("*.parquet")):
        return []
    table = ds.dataset(folder, format="parquet", partitioning="hive").to_table()
    return [SinkWindow(row["batch"], row["end_us"], row["rows"]) for row in table.to_pylist()]


def outcome_of(
    *,
    plan: Plan,
    operator: TimeWindow,
    bounds_ms: tuple[int, ...],
    times_us: tuple[int, int, int],
    windows: list[SinkWindow],
    facts: Mapping[int, BatchFacts],
) -> Outcome:
    """Return the outcome of the runs on Spark.

    A window that closed counts with all rows the trace has for it, whenever they arrive; also a window of which
    every row was lost, so that nothing reached the sink. ``times_us`` is the watermark before the runs, at the restart
    and at the end, in microseconds.
    """
    _, ends = operator.keys(plan.arrivals.event_time_us)
    first, restarted, last = times_us
    closed, truth = np.unique(ends[(ends > first) & (ends <= last)], return_counts=True)
    counted = {window.end_us: window for window in windows if window.batch_id in facts}
    lost = truth - [counted[end].rows if end in counted else 0 for end in closed.tolist()]
    latency = [
        max(plan.wall_us(facts[window.batch_id].rows_so_far) - end, 0) for end, window in counted.items()
    ]
    return Outcome(
        bounds_ms=bounds_ms,
        rows=int(truth.sum()),
        lost=int(lost.sum()),
        lost_later=int(lost[closed > restarted].sum()),
        latency_us=float(np.mean(latency)) if latency else None,
        replayed=False,
    )
