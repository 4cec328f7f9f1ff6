"""A streaming query listener that is handed each event as one JSON text instead of field by field.

PySpark (4.2, ``StreamingQueryProgress.fromJObject``) copies every map of a progress over Py4J. The end of a Java
iterator reaches Python as an exception, and to find its Python class PySpark asks the JVM a dozen times for names that
Py4J then looks for in every jar of Spark. For a windowed count on two cores that took 110 to 200 ms a batch, which a
query beside it lacks; the JVM's own JSON, which is what ``query.lastProgress`` gives, takes 0.5 to 1.5 ms.

And it fails (4.0 to 4.3, ``QueryStartedEvent.fromJObject``) on the start of a query with job tags, which every query of
a Connect server has: it calls ``toString`` of strings that Py4J has made Python's. Then a listener never hears of it.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, ClassVar

from pyspark.sql.streaming.listener import (
    JStreamingQueryListener,
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from tidemark.spark_jobs.private_names import LISTENER, find
from tidemark.spark_jobs.progress_json import progress_of

if TYPE_CHECKING:
    from py4j.java_gateway import JavaObject


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
    found: dict[str, Any] = json.loads(jevent.json())
    return found
