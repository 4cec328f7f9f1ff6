"""A batch's progress: from the JSON that the JVM makes of it, and what the taps observed in it."""

from __future__ import annotations

import json
from collections.abc import Container, Iterable

from pyspark.sql.streaming.listener import StreamingQueryProgress


def progress_of(text: str) -> StreamingQueryProgress:
    """Return the progress in Spark's JSON, with offsets as JSON: PySpark up to 4.1 writes them as Python's literals."""
    found = json.loads(text)
    found.setdefault("batchDuration", found["durationMs"].get("triggerExecution", 0))  # 3.5 does not have it
    for source in found["sources"]:
        for name in ("startOffset", "endOffset", "latestOffset"):
            if not isinstance(source[name], str):
                source[name] = json.dumps(source[name])
    return StreamingQueryProgress.fromJson(found)


def observed_in(
    progress: StreamingQueryProgress, metrics: Container[str], of_run: Iterable[str]
) -> dict[str, str | None]:
    """Return what was observed in a batch by metric; None of a batch without rows, of which 3.5 observes nothing.

    Args:
        progress: the progress.
        metrics: names of the metrics that are wanted.
        of_run: those of them that are known to be in the query.
    """
    found = {name: row[0] for name, row in progress.observedMetrics.items() if name in metrics}
    without_rows = not progress.numInputRows and "addBatch" in progress.durationMs
    return {**dict.fromkeys(of_run), **found} if without_rows else found
