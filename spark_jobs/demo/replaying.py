"""The demonstration's job: the trace through Spark into a Parquet sink, run by run."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from tidemark.models.base.operators import TimeWindow
from tidemark.spark_jobs import adaptive_watermark
from tidemark.spark_jobs.demo.controller_process import DemoError
from tidemark.spark_jobs.demo.feed import Feed
from tidemark.spark_jobs.demo.outcome import BatchFacts
from tidemark.spark_jobs.progress_times import watermark_ms_of

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
    """The session."""
    feed: Feed
    """Where its rows come from."""
    operator: TimeWindow
    """The windows."""
    own_bound: str
    """The bound that it uses unless the controller gives one."""
    folder: Path
    """Holds the checkpoint and the sink."""
    names: tuple[str, str]
    """Of the job and the stream."""
    controller_url: str
    """Address of the controller."""

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

        Args:
            until_rows: rows of the trace to stop after.
            on_progress: called a few times a second with what is known.

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
