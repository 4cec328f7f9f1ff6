"""What the taps of a query counted in a batch: observed in its progress, or by row counters."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from pyspark.sql.streaming.listener import StreamingQueryProgress

from tidemark.spark_jobs.binding import Binding


def counted_in(
    progress: StreamingQueryProgress, bindings: Mapping[str, Binding], of_run: Collection[str]
) -> dict[str, str | None]:
    """Return what was counted in a batch, for ``Tap.decode``, by tap; None of a tap that had no row.

    What row counters counted can be had once.

    Args:
        progress: the batch's progress.
        bindings: what stands behind each tap.
        of_run: the taps that are known to be in the query; none where its plan could not be read. Then those that have
            rows are.
    """
    found: dict[str, str | None] = {
        name: row[0] for name, row in progress.observedMetrics.items() if name in bindings
    }
    if "addBatch" not in progress.durationMs:  # no batch was run
        return found
    if not progress.numInputRows:  # of which Spark 3.5 observes nothing
        found = {**dict.fromkeys(of_run), **found}
    for name in of_run or list(bindings):
        counts = bindings[name].stage_counts
        text = None if counts is None else counts.take(str(progress.id), progress.batchId)
        if text is not None or (counts is not None and name in of_run):
            found[name] = text
    return found


def forget_counts(bindings: Mapping[str, Binding], taps: Iterable[str], query_id: str) -> None:
    """Drop what row counters counted of a query, whose next run begins: it reads a batch that failed anew."""
    for name in taps:
        counts = bindings[name].stage_counts
        if counts is not None:
            counts.forget(query_id)
