"""Times in Spark's progress reports."""

from __future__ import annotations

from datetime import UTC, datetime

from pyspark.sql.streaming.listener import StreamingQueryProgress


def watermark_ms_of(progress: StreamingQueryProgress) -> int | None:
    """Return the watermark in force in a batch in milliseconds; None when the query has none."""
    text = progress.eventTime.get("watermark")
    try:
        return None if text is None else micros_of(text) // 1_000
    except ValueError:  # a year of five digits: somebody's milliseconds were read as seconds
        return None


def micros_of(text: str) -> int:
    """Return Spark's ISO timestamp (UTC, milliseconds) in microseconds since the epoch, exactly."""
    elapsed = datetime.fromisoformat(text) - datetime(1970, 1, 1, tzinfo=UTC)
    return (elapsed.days * 86_400 + elapsed.seconds) * 1_000_000 + elapsed.microseconds
