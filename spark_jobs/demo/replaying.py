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

from tidemark.models.base.operators import Int64s, TimeWindow
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


@dataclass(frozen=True, slots=True)
class Outcome:
    """Completeness and cost of one run."""

    bound_ms: int | None
    """The bound of the run, in milliseconds; None for one that moved."""
    windows: int
    """Windows closed in the run."""
    rows: int
    """Rows of the trace that belong to those windows."""
    lost: int
    """Rows of those that the sink does not have."""
    latency_us: float | None
    """Mean over the windows of the wall time of emission, by the trace's clock, minus the window's end."""
    state_rows: float | None
    """Mean over the batches of the rows in the state store; None of a replay."""

    @property
    def completeness(self) -> float | None:
        """Share of the rows that the sink has; None when no window closed."""
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
    bound_ms: int,
    watermark_us: Int64s,
    windows: list[SinkWindow],
    facts: Mapping[int, BatchFacts],
) -> Outcome:
    """Return the outcome of one run.

    A window that closed counts with all rows the trace has for it, whenever they arrive; also a window of which
    every row was lost, so that nothing reached the sink. ``watermark_us`` is the watermark before the run and after it,
    shape (2,).
    """
    _, ends = operator.keys(plan.arrivals.event_time_us)
    before, after = watermark_us.tolist()
    closed, truth = np.unique(ends[(ends > before) & (ends <= after)], return_counts=True)
    have = {window.end_us: window for window in windows}
    counted = sum(window.rows for window in windows)
    latency = [
        max(plan.wall_us(facts[window.batch_id].rows_so_far) - end, 0)
        for end, window in have.items()
        if window.batch_id in facts
    ]
    return Outcome(
        bound_ms=bound_ms,
        windows=len(closed),
        rows=int(truth.sum()),
        lost=int(truth.sum()) - counted,
        latency_us=float(np.mean(latency)) if latency else None,
        state_rows=float(np.mean([fact.state_rows for fact in facts.values()])) if facts else None,
    )
