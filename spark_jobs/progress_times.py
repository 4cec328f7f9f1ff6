"""Times in Spark's progress reports."""

from __future__ import annotations

from datetime import UTC, datetime

from pyspark.sql.streaming.listener import StreamingQueryProgress


def watermark_ms_of(progress: StreamingQueryProgress) -> int | None:
    """Return the watermark in force in a batch in milliseconds; None when the query has none."""
    try:
        return _ms_of(progress, "watermark")
    except ValueError:  # a year of five digits: somebody's milliseconds were read as seconds
        return None


def newest_ms_of(progress: StreamingQueryProgress) -> int | None:
    """Return the maximum event time that a watermark's node saw in a batch, in milliseconds; None when it saw no row.

    A row without an event time counts as of 1970 (Spark 3.5 to 4.3, ``EventTimeWatermarkExec``).

    Raises:
        ValueError: when it is in no year of four digits.
    """
    return _ms_of(progress, "max")


def _ms_of(progress: StreamingQueryProgress, what: str) -> int | None:
    text = progress.eventTime.get(what)
    return None if text is None else micros_of(text) // 1_000


def micros_of(text: str) -> int:
    """Return Spark's ISO timestamp (UTC, milliseconds) in microseconds since the epoch, exactly."""
    elapsed = datetime.fromisoformat(text) - datetime(1970, 1, 1, tzinfo=UTC)
    return (elapsed.days * 86_400 + elapsed.seconds) * 1_000_000 + elapsed.microseconds
