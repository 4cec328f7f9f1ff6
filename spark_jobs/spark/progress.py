"""Spark's progress of a batch: its times, and a listener that is handed each event as one JSON text.

PySpark (4.2, ``StreamingQueryProgress.fromJObject``) copies every map of a progress over Py4J. The end of a Java
iterator reaches Python as an exception, and to find its Python class PySpark asks the JVM a dozen times for names that
Py4J then looks for in every jar of Spark. For a windowed count on two cores that took 110 to 200 ms a batch, which a
query beside it lacks; the JVM's own JSON, which is what ``query.lastProgress`` gives, takes 0.5 to 1.5 ms.

And it fails (4.0 to 4.3, ``QueryStartedEvent.fromJObject``) on the start of a query with job tags, which every query of
a Connect server has: it calls ``toString`` of strings that Py4J has made Python's. Then a listener never hears of it.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, ClassVar

from pyspark.sql.streaming.listener import (
    JStreamingQueryListener,
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
    StreamingQueryProgress,
)

from tidemark.spark_jobs.spark.jvm import LISTENER, find

if TYPE_CHECKING:
    from py4j.java_gateway import JavaObject


def progress_of(text: str) -> StreamingQueryProgress:
    """Return the progress in Spark's JSON, with offsets as JSON: PySpark up to 4.1 writes them as Python's literals."""
    event = json.loads(text)
    event.setdefault("batchDuration", event["durationMs"].get("triggerExecution", 0))  # 3.5 does not have it
    for source in event["sources"]:
        for name in ("startOffset", "endOffset", "latestOffset"):
            if not isinstance(source[name], str):
                source[name] = json.dumps(source[name])
    return StreamingQueryProgress.fromJson(event)


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


class JsonListener(StreamingQueryListener):
    """A base class. Where this Spark has the Java side in another place, it works as any other listener does."""

    _java: JavaObject | None = None

    def wants(self, run_id: str, batch_id: int) -> bool:  # noqa: ARG002 - for subclasses
        """Return whether ``onQueryProgress`` is to be called for a batch at all."""
        return True

    @property
    def _jlistener(self) -> JavaObject:
        """The Java side, which PySpark registers."""
        if self._java is None:
            wrapper = find(LISTENER)
            self._java = super()._jlistener if wrapper is None else wrapper(_Callbacks(self))
        return self._java


class _Callbacks(JStreamingQueryListener):
    """What the JVM calls."""

    def __init__(self, listener: JsonListener) -> None:
        super().__init__(listener)
        self._listener = listener

    def onQueryStarted(self, jevent: JavaObject) -> None:  # noqa: N802 - Spark's name
        self._listener.onQueryStarted(QueryStartedEvent.fromJson(_read(jevent)))

    def onQueryProgress(self, jevent: JavaObject) -> None:  # noqa: N802 - Spark's name
        progress = jevent.progress()
        if self._listener.wants(progress.runId().toString(), progress.batchId()):
            self._listener.onQueryProgress(QueryProgressEvent(progress_of(progress.json())))

    def onQueryIdle(self, jevent: JavaObject) -> None:  # noqa: N802 - Spark's name
        self._listener.onQueryIdle(QueryIdleEvent.fromJson(_read(jevent)))

    def onQueryTerminated(self, jevent: JavaObject) -> None:  # noqa: N802 - Spark's name
        self._listener.onQueryTerminated(QueryTerminatedEvent.fromJson(_read(jevent)))

    class Java:
        implements: ClassVar[list[str]] = JStreamingQueryListener.Java.implements


def _read(jevent: JavaObject) -> dict[str, Any]:
    event: dict[str, Any] = json.loads(jevent.json())
    return event
