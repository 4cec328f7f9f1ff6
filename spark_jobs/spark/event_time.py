"""The event time of a stream: as plans mark it, and as the call names it, which takes what ``withWatermark`` takes.

``EventTimeWatermark.delayKey`` marks an event time and all that is made of it in the metadata of a plan's columns, and
holds the bound of its watermark (Spark 3.5 to 4.3); ``TimeWindow.marker`` and ``SessionWindow.marker`` mark windows. A
schema shows it in the driver and over Spark Connect. So Spark itself is asked what an event time and its delay are, and
not a copy of its rules.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

from pyspark.errors import AnalysisException, IllegalArgumentException
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from tidemark.spark_jobs.spark.jvm import Py4JJavaError

_Node = Any
"""An expression of a plan, in the JVM."""

TIME_WINDOW, SESSION_WINDOW = "spark.timeWindow", "spark.sessionWindow"

DELAY = "spark.watermarkDelayMs"


_CASE_SENSITIVE = "spark.sql.caseSensitive"
_IN_PIPELINE_FUNCTION = "ATTEMPT_ANALYSIS_IN_PIPELINE_QUERY_FUNCTION"
_OUTSIDE = (
    "adaptive_watermark needs the stream's schema and a listener, and Spark allows neither within a pipeline's query "
    "function: put the stream with this line before the function, as in "
    "clicks = spark.readStream. ... .transform(adaptive_watermark(...)), and return what is made of clicks"
)
_IN_BACK_TICKS = re.compile("`((?:[^`]|``)+)`")


def is_column(expression: _Node) -> bool:
    """Say whether an expression is a column, and not made of some."""
    return str(expression.nodeName()) == "AttributeReference"


def is_event_time(expression: _Node) -> bool:
    """Say whether an expression is a column with a watermark."""
    return is_column(expression) and bool(expression.metadata().contains(DELAY))


def delay_ms(event_time: _Node) -> int:
    """Return the bound of an event time's watermark, in milliseconds."""
    return int(event_time.metadata().getLong(DELAY))


def quoted(name: str) -> str:
    """Return a column's name so that Spark takes it whole, dots and backticks included."""
    return "`" + name.replace("`", "``") + "`"


class EventTime(NamedTuple):
    """What Spark makes of ``withWatermark(event_time, delay)``."""

    column: str
    """The column's name, as the frame has it."""
    delay_ms: int


def read_event_time(df: DataFrame, event_time: str, delay: str) -> EventTime | None:
    """Return what ``df.withWatermark(event_time, delay)`` is by; None of a frame that does not stream, which has none.

    Raises:
        ValueError: when Spark refuses it, in Spark's words; in a pipeline's query function, with where to put the line;
            when it takes a window, which it reads as one and the same time; when rows cannot be counted by the name.
    """
    try:
        schema = df.withWatermark(event_time, delay).schema
    # Before 4.1 Spark has no error of its own for a field within a column.
    except (AnalysisException, IllegalArgumentException, Py4JJavaError) as error:
        if _IN_PIPELINE_FUNCTION in str(error):
            raise ValueError(_OUTSIDE) from error
        why = next(filter(None, map(str.strip, str(error).splitlines())), type(error).__name__)
        raise ValueError(
            f"Spark refuses withWatermark({event_time!r}, ...): {why}{_hint(df, event_time)}"
        ) from error
    field = next((field for field in schema if DELAY in field.metadata), None)
    if field is None:
        return None
    if isinstance(field.dataType, StructType):
        raise ValueError(  # noqa: TRY004 - one error for every fault of a frame
            f"event-time column {field.name!r} is a window. Spark takes it, but reads the same time of 1970 from every "
            "row (its place in memory), so its watermark stays there and nothing comes out. After an aggregate leave "
            "the watermark out: its windows carry the watermark on, as in groupBy(window(window, ...)). Else take a "
            f"timestamp: .withColumn('time', window_time({field.name!r}))"
        )
    case = _case_of(df)
    same = [name for name in df.columns if case(name) == case(field.name)]
    if len(same) > 1:
        raise ValueError(
            f"there are {len(same)} columns {field.name!r}, and rows are counted by the name: rename the others, or "
            "put the watermark before the join"
        )
    return EventTime(field.name, int(field.metadata[DELAY]))


def column_named(df: DataFrame, name: str) -> str | None:
    """Return the name that a frame has for its column ``name``, as Spark finds it; None where it has none.

    It may be in back ticks, and in upper or lower case unless Spark is told to tell them apart.
    """
    ticked = _IN_BACK_TICKS.fullmatch(name)
    names = [name] if ticked is None else [name, ticked[1].replace("``", "`")]
    exact = [column for column in df.columns if column in names]
    if exact:
        return exact[0]
    case = _case_of(df)
    return next((column for column in df.columns if case(column) in map(case, names)), None)


def column_of(df: DataFrame, name: str) -> str:
    """Return the same.

    Raises:
        ValueError: when the frame has no such column.
    """
    column = column_named(df, name)
    if column is None:
        raise ValueError(f"there is no column {name!r}; the columns are {', '.join(df.columns)}")
    return column


def _case_of(df: DataFrame) -> Callable[[str], str]:
    """Return what makes names equal that Spark takes for one."""
    sensitive = (df.sparkSession.conf.get(_CASE_SENSITIVE, "false") or "").strip().lower() == "true"
    return str if sensitive else str.lower


def _hint(df: DataFrame, event_time: str) -> str:
    """Return what to write instead of a name that Spark refuses, as far as that can be told."""
    column = column_named(df, event_time)
    if column is None:
        if "." in event_time and _is_field(df, event_time):
            return f"; put the field into a column of its own: .withColumn('time', col({event_time!r}))"
        return f"; the columns are {', '.join(df.columns)}"
    kind = df.schema[df.columns.index(column)].dataType.simpleString()
    if kind != "timestamp":
        return f"; {column!r} is a {kind}: cast it to timestamp"
    return "" if column.isidentifier() or event_time == quoted(column) else f"; write {quoted(column)!r}"


def _is_field(df: DataFrame, name: str) -> bool:
    try:
        return bool(df.select(name).columns)
    except AnalysisException:
        return False
