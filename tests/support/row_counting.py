"""A frame counted by the row counter, outside of a query."""

from __future__ import annotations

from pyspark.sql import DataFrame

from tidemark.spark_jobs.core.counting import classes_for, with_tap
from tidemark.spark_jobs.core.tap import Tap

_QUERY, _BATCH = "sql.streaming.queryId", "streaming.sql.batchId"
"""The local properties by which a task knows the batch that it reads."""


def counted_in_stage(df: DataFrame, tap: Tap) -> str:
    """Return what ``Tap.count`` returns, as the row counter has it."""
    tapped, counts = with_tap(df, tap, "tidemark:support:0", classes_for(df.sparkSession))
    assert counts is not None, "the row counter's classes cannot be had"
    context = df.sparkSession.sparkContext
    context.setLocalProperty(_QUERY, "a query")
    context.setLocalProperty(_BATCH, "7")
    try:
        tapped.write.format("noop").mode("overwrite").save()
    finally:
        context.setLocalProperty(_QUERY, None)  # type: ignore[arg-type]
        context.setLocalProperty(_BATCH, None)  # type: ignore[arg-type]
    counted = counts.take("a query", 7)
    assert counted is not None
    return counted
