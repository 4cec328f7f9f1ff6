"""One run of the demonstration's job: the trace through Spark into a Parquet sink, until a given row."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from tidemark.models.operators import TimeWindow
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


def replay(
    spark: SparkSession,
    feed: Feed,
    *,
    operator: TimeWindow,
    own_bound: str,
    until_rows: int,
    folder: Path,
    names: tuple[str, str],
    controller_url: str,
    on_progress: Callable[[Run], None],
) -> Run:
    """Run the job until row ``until_rows`` and every window the watermark closes is out; return what is known of it.

    Args:
        spark: the session.
        feed: where its rows come from.
        operator: the windows.
        own_bound: the bound the job uses unless the controller gives one.
        until_rows: rows of the trace to stop after.
        folder: holds the checkpoint and the sink.
        names: of the job and the stream.
        controller_url: address of the controller.
        on_progress: called a few times a second with what is known.

    Raises:
        DemoError: when the query or the feed fails.
    """
    job, stream = names
    counts = (
        feed.events(spark, until_rows)
        .transform(
            adaptive_watermark(
                "event_time", own_bound, operator, job=job, stream=stream, controller_url=controller_url
            )
        )
        .groupBy(F.window("event_time", f"{operator.size_us} microseconds"))
        .agg(F.count("*").alias("rows"))
        .select(F.unix_micros("window.end").alias("end_us"), "rows")
    )

    def into_sink(df: DataFrame, batch_id: int) -> None:
        # Overwriting makes a repeated batch harmless; the folder names the batch that emitted the windows.
        df.coalesce(1).write.mode("overwrite").parquet(str(folder / "sink" / f"batch={batch_id}"))

    query = (
        counts.writeStream.foreachBatch(into_sink)
        .outputMode("append")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(processingTime=feed.interval)
        .start()
    )
    run = Run()
    try:
        _drain(query, feed, until_rows, run, on_progress)
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
    error = query.exception()
    if error is not None:
        raise DemoError(f"the Spark query failed: {str(error).splitlines()[0]}")
    if failures:
        raise DemoError(str(failures[0]).partition("\n")[0]) from failures[0]
    _take(query, feed, run)


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
