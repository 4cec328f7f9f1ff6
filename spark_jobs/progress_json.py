"""A batch's progress, from the JSON that the JVM makes of it."""

from __future__ import annotations

import json

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
