"""Control streams: made in the JVM by ``ControlSource.java``, and answered here.

A source asks while Spark plans a batch, so the answer is made of all batches before that one, also of those of which
Spark has not notified the listener yet. Spark waits for the answer; it takes milliseconds, and a source that gets none
within its time limit goes on without.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from typing import Any, ClassVar

from pyspark.sql import DataFrame, SparkSession

from tidemark.spark_jobs.gateway import SparkContext
from tidemark.spark_jobs.java_classes import JavaClasses
from tidemark.spark_jobs.live.offset import Offset

CONTROL_COLUMN = "watermark_ms"
"""The one column of a control stream: the required watermark, in milliseconds since the epoch."""

_log = logging.getLogger("tidemark.spark")


class ControlAnswers:
    """What the control sources of a session call.

    Args:
        answer: returns the offset for ``(stream, start offset)``; None leaves the watermark where it is.
    """

    def __init__(self, answer: Callable[[str, Offset], Offset | None]) -> None:
        self._answer = answer

    def apply(self, stream: str, start: str) -> str | None:
        """Return the offset after ``start`` for a source of ``stream``, as JSON; None where nothing is to move."""
        try:
            end = self._answer(stream, json.loads(start))
        except Exception:  # noqa: BLE001 - without an answer the ceiling holds, which is safe
            _log.exception("the control of %s could not be decided; the ceiling holds", stream)
            return None
        return None if end is None else json.dumps(end, separators=(",", ":"))

    class Java:
        """As what the JVM sees it."""

        implements: ClassVar[list[str]] = ["java.util.function.BiFunction"]


def control_stream(
    spark: SparkSession, classes: JavaClasses, stream: str, answers: ControlAnswers, name: str | None
) -> DataFrame:
    """Return a new control stream, with ``CONTROL_COLUMN``.

    Args:
        spark: the session whose queries have it.
        classes: the Java classes of the session's context.
        stream: name under which the driver knows the stream.
        answers: what it asks.
        name: the source's name in plans; None where sources have none.
    """
    jvm: Any = SparkContext._jvm  # noqa: SLF001 - the one way to the JVM
    callback = jvm.java.util.ArrayList()
    callback.add(answers)
    reader = spark.readStream if name is None else spark.readStream.name(name)
    made = classes.make("ControlSource$Maker", stream, callback.get(0)).load(reader._jreader)  # noqa: SLF001
    return DataFrame(made, spark)
