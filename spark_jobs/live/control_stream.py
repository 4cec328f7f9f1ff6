"""Control streams: made in the JVM by ``ControlSource.java``, answered here, and united with the data in the plan.

A source asks while Spark plans a batch, so the answer is made of all batches before that one, also of those of which
Spark has not notified the listener yet. Spark waits for the answer; it takes milliseconds, and a source that gets none
within its time limit goes on without.

The node's delay is the ceiling, and a control row carries the required watermark plus the ceiling as its event time. So
the watermark becomes the larger of the two: newest event time - ceiling, and the required one. Every input of a query
has a node of its own, and Spark combines the nodes as the user's ``multipleWatermarkPolicy`` says.

The filter that drops control rows must stay above the node, and no filter of the user's may pass it: below the node a
control row would be gone before it could move the watermark. The optimizer moves only deterministic predicates and
moves none past a filter that is not (Spark 4.2, ``PushPredicateThroughNonJoin``, ``CombineFilters``), so the condition
holds an expression that counts as non-deterministic and costs nothing.

The filter and the node also keep a left semi join above the union. Spark pushes such a join through a union that it
stands on (``PushDownLeftSemiAntiJoin``), and then keeps the whole right side for each part of it.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable
from typing import Any, ClassVar

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    DateType,
    NumericType,
    StringType,
    StructField,
    TimestampNTZType,
    TimestampType,
)

from tidemark.spark_jobs.live.backlog import Offset
from tidemark.spark_jobs.spark.event_time import quoted
from tidemark.spark_jobs.spark.java_classes import JavaClasses
from tidemark.spark_jobs.spark.jvm import SparkContext

CONTROL_COLUMN = "watermark_ms"
"""The one column of a control stream: the required watermark, in milliseconds since the epoch."""

_log = logging.getLogger("tidemark.spark")


_EVOLUTION_KEY = "spark.sql.streaming.queryEvolution.enableSourceEvolution"
"""Where it is on, Spark requires a name for every source."""

_IS_CONTROL = "__tidemark_control"
"""Column that marks control rows, between the union and the filter."""

_EPOCH = "1970-01-01"
_VALUES: tuple[tuple[type | tuple[type, ...], str | int], ...] = (
    (NumericType, 0),
    ((StringType, BinaryType), ""),
    (BooleanType, "false"),
    ((DateType, TimestampType, TimestampNTZType), _EPOCH),
)


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
    """Return a new control stream, with ``CONTROL_COLUMN``."""
    jvm: Any = SparkContext._jvm  # noqa: SLF001 - the one way to the JVM
    callback = jvm.java.util.ArrayList()
    callback.add(answers)
    reader = spark.readStream if name is None else spark.readStream.name(name)
    made = classes.make("ControlSource$Maker", stream, callback.get(0)).load(reader._jreader)  # noqa: SLF001
    return DataFrame(made, spark)


def steered(
    df: DataFrame,
    event_time: str,
    delay_ms: int,
    stream: str,
    *,
    classes: JavaClasses,
    answers: ControlAnswers,
    set_back: Callable[[DataFrame], DataFrame] = lambda marked: marked,
) -> DataFrame:
    """Return ``df`` with a watermark that follows the control stream and trails its own rows by ``delay_ms`` at most.

    Args:
        df: the data, tapped, without a watermark.
        event_time: name of its event-time column.
        delay_ms: the static bound, in milliseconds.
        stream: name under which the driver knows the stream.
        classes: the Java classes of the session's context.
        answers: what the control stream asks.
        set_back: what is to be done with the rows below the watermark's node. They are marked before it: Spark makes
            one projection of both then, and else two, because it moves none past one that has the batch's clock.
    """
    data = set_back(df.withColumn(_IS_CONTROL, F.lit(False)))
    spark = df.sparkSession
    control = control_stream(spark, classes, stream, answers, _source_name(spark, stream))
    shaped = _shaped(control, data.drop(_IS_CONTROL), event_time, delay_ms)
    both = data.union(shaped).withWatermark(quoted(event_time), f"{delay_ms} milliseconds")
    never = F.spark_partition_id() < 0
    return both.filter(~F.col(_IS_CONTROL) | never).drop(_IS_CONTROL)


def _source_name(spark: SparkSession, stream: str) -> str | None:
    if (spark.conf.get(_EVOLUTION_KEY, "false") or "").lower() != "true":
        return None
    return "tidemark_" + re.sub(r"\W", "_", stream.split(":")[1])


def _shaped(control: DataFrame, df: DataFrame, event_time: str, delay_ms: int) -> DataFrame:
    """Return the control stream with the columns of ``df`` and the mark."""
    time = F.timestamp_millis(F.col(CONTROL_COLUMN) + F.lit(delay_ms))
    columns = [
        (_present(field, time) if field.name == event_time else _absent(field)).alias(field.name)
        for field in df.schema
    ]
    return control.select(*columns, F.lit(True).alias(_IS_CONTROL))


def _present(field: StructField, time: Column) -> Column:
    return time if field.nullable else F.coalesce(time, F.lit(_EPOCH).cast(field.dataType))


def _absent(field: StructField) -> Column:
    """Return a value for a row that nobody sees; a column without nulls keeps having none, for the state's schema."""
    if not field.nullable:
        for kind, value in _VALUES:
            if isinstance(field.dataType, kind):
                return F.lit(value).cast(field.dataType)
    return F.lit(None).cast(field.dataType)
