"""Rows counted for a tap: within the stage that reads them, or observed in the progress.

The function that counts is a column that is always true, and a filter on it, so that Spark does not leave it out.
``DataFrame.observe`` counts the same at several times the cost, and serves where Java functions cannot be used.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.listener import StreamingQueryProgress

from tidemark.spark_jobs.core.tap import Tap
from tidemark.spark_jobs.spark.event_time import quoted
from tidemark.spark_jobs.spark.java_classes import (
    JavaClasses,
    classes_of_jar,
    compiled_classes,
    java_array,
)
from tidemark.spark_jobs.spark.jvm import COMPILER, PLACEMENT, Py4JError, Py4JJavaError, SparkContext
from tidemark.spark_jobs.spark.query_plan import TAP_PREFIX

_log = logging.getLogger("tidemark.spark")
_DESCRIPTION = "spark.job.description"
_NO_LIMIT_US = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class StageCounts:
    """What a tap's rows were counted as, in the JVM, until a batch's counts are taken."""

    batches: Any
    """``BatchCounts``, in the JVM."""

    def take(self, query_id: str, batch_id: int) -> str | None:
        """Return what was counted of a batch, for ``Tap.decode``, and drop it; None where no row was read."""
        counted = self.batches.take(query_id, str(batch_id))
        return None if counted is None else str(counted)

    def forget(self, query_id: str) -> None:
        """Drop what was counted of a query whose next run begins: it reads its last batch anew if that failed."""
        self.batches.forget(query_id)


def with_tap(
    df: DataFrame, tap: Tap, metric: str, classes: JavaClasses | None
) -> tuple[DataFrame, StageCounts | None]:
    """Return ``df``, unchanged, with its rows counted, and where the counts are; None for what Spark observes.

    Args:
        tap: how they are counted.
        metric: name by which the plan of a query shows that it has this tap, and under which counts are observed.
        classes: what ``classes_for`` returns, None to have the rows observed.
    """
    return (tap.observe(df, metric), None) if classes is None else _counted(classes, df, tap, metric)


_classes: dict[SparkContext, JavaClasses | None] = {}
"""By context its classes, None where they cannot be used; of the last one, as a JVM has one at a time."""


def classes_for(spark: SparkSession) -> JavaClasses | None:
    """Return the classes for the executors of a session in the driver; None where they cannot be used.

    That is logged once: this Spark cannot compile them, or its executors cannot have them.
    """
    context = spark.sparkContext
    if context not in _classes:
        _classes.clear()
        jar = _usable(classes_of_jar, spark, "Tidemark's jar; its classes are compiled")
        _classes[context] = jar or _usable(compiled_classes, spark, COMPILER.without)
    return _classes[context]


def _usable(
    load: Callable[[SparkContext], JavaClasses | None], spark: SparkSession, without: str
) -> JavaClasses | None:
    try:
        classes = load(spark.sparkContext)
        if classes is not None and not classes.sent:
            # A query runs in a session of its own, too, which may not have what was added for this one.
            _try(classes, spark.newSession())
    except (Py4JError, PySparkException, AttributeError, OSError, TypeError, ValueError) as error:
        why = error.java_exception.toString() if isinstance(error, Py4JJavaError) else error
        _log.warning("running without %s: it does not work here: %s", without, why)
        return None
    return classes


def _try(classes: JavaClasses, spark: SparkSession) -> None:
    """Count one row: a task that cannot have the classes would end the user's query.

    Raises:
        PySparkException: when the task fails.
        ValueError: when its count does not come back.
    """
    row = spark.range(0, 1, 1, 1).select(F.timestamp_seconds("id").alias("ts"))
    tapped, counts = _counted(classes, row, Tap("ts", None, 1, "left"), f"{TAP_PREFIX}trial")
    described = spark.sparkContext.getLocalProperty(_DESCRIPTION)
    spark.sparkContext.setLocalProperty(_DESCRIPTION, "tidemark: can executors have the row counter?")
    try:
        tapped.write.format("noop").mode("overwrite").save()
    finally:
        spark.sparkContext.setLocalProperty(_DESCRIPTION, described)  # type: ignore[arg-type]
    if '"all":1,' not in (counts.take("", 0) or ""):
        raise ValueError("executors do not return what they count")


def _counted(classes: JavaClasses, df: DataFrame, tap: Tap, metric: str) -> tuple[DataFrame, StageCounts]:
    grid = _grid(classes, df, tap)
    batches = classes.make("BatchCounts", grid)
    classes.context._jsc.sc().register(batches)  # noqa: SLF001 - PySpark's are others
    counter = classes.make("RowCounter", batches, grid)
    counted = classes.function(counter, "tidemark_count", "BooleanType", _arguments(df, tap))
    place_counters(df.sparkSession, classes)
    marked = df.withColumn(metric, counted)
    return marked.filter(F.col(quoted(metric))).drop(metric), StageCounts(batches)


def place_counters(spark: SparkSession, classes: JavaClasses) -> None:
    """Let the optimizer of a session, and of those that its queries run in, place row counters (``PlaceCounters``)."""
    try:
        classes.make("PlaceCounters").addTo(spark._jsparkSession.experimental())  # noqa: SLF001 - Spark's own session
    except (Py4JError, TypeError) as error:
        # The plan shows at the start where that matters.
        _log.warning("running without %s: %s", PLACEMENT.without, error)


def _grid(classes: JavaClasses, df: DataFrame, tap: Tap) -> Any:
    times = tap.times
    return classes.make(
        "RowCounter$Grid",
        times.granule_us,
        java_array("long", times.shifts),
        times.first_us,
        times.end_us,
        times.bits,
        tap.other_number,
        not tap.packed(df),
        tap.partition is not None,
        tap.max_keys,
        _NO_LIMIT_US if tap.allowance_us is None else tap.allowance_us,
    )


def _arguments(df: DataFrame, tap: Tap) -> list[Column]:
    nothing = F.lit(None)
    partition = nothing
    if tap.partition is not None:
        column = F.col(quoted(tap.partition))
        partition = column.cast("long") if tap.packed(df) else tap.name().cast("binary")
    arrival = arrival_type = nothing
    if tap.arrival_time is not None:
        arrival = F.unix_micros(F.col(quoted(tap.arrival_time)).cast("timestamp"))
        kind = F.lit(0) if tap.arrival_type is None else F.col(quoted(tap.arrival_type))
        arrival_type = kind.cast("int")
    return [
        F.spark_partition_id(),
        F.unix_micros(F.col(quoted(tap.event_time))),
        partition,
        nothing if tap.ahead is None else F.col(tap.ahead).cast("int"),
        arrival,
        arrival_type,
    ]


def counted_in(
    progress: StreamingQueryProgress, taps: Mapping[str, StageCounts | None], of_run: Collection[str]
) -> dict[str, str | None]:
    """Return what was counted in a batch, for ``Tap.decode``, by tap; None of a tap that had no row.

    What row counters counted can be had once.

    Args:
        taps: the row counter of each tap; None of one that observes.
        of_run: the taps that are known to be in the query; none where its plan could not be read. Then those that have
            rows are.
    """
    counted: dict[str, str | None] = {
        name: row[0] for name, row in progress.observedMetrics.items() if name in taps
    }
    if "addBatch" not in progress.durationMs:  # no batch was run
        return counted
    if not progress.numInputRows:  # of which Spark 3.5 observes nothing
        counted = {**dict.fromkeys(of_run), **counted}
    for name in of_run or list(taps):
        counts = taps[name]
        text = None if counts is None else counts.take(str(progress.id), progress.batchId)
        if text is not None or (counts is not None and name in of_run):
            counted[name] = text
    return counted
