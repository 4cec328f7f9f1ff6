"""The plan of a live stream: the data under its ceiling, united with the control stream, whose row goes no further.

With ``spark.sql.streaming.multipleWatermarkPolicy=max`` the watermark is the greatest of what the two allow: the
ceiling below the data, and what the control row says. The filter names the event-time column, so the optimizer cannot
push it below the watermark's node, where the row would be gone before it could move anything (Spark 4.2,
``PushPredicateThroughNonJoin``).
"""

from __future__ import annotations

import re

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

from tidemark.spark_jobs.live.control_source import CONTROL_COLUMN, register_control_source
from tidemark.spark_jobs.running_query import MULTIPLE_WATERMARKS_KEY
from tidemark.spark_jobs.tap import quoted

__all__ = ["ask_for_max_policy", "restore_policy", "steered"]

_EVOLUTION_KEY = "spark.sql.streaming.queryEvolution.enableSourceEvolution"
"""Where it is on, Spark wants every source named."""

_EPOCH = "1970-01-01"
_VALUES: tuple[tuple[type | tuple[type, ...], str | int], ...] = (
    (NumericType, 0),
    ((StringType, BinaryType), ""),
    (BooleanType, "false"),
    ((DateType, TimestampType, TimestampNTZType), _EPOCH),
)
_MAX = "max"
_NEVER = "0001-01-02"
_before: dict[SparkSession, str] = {}


def ask_for_max_policy(spark: SparkSession) -> None:
    """Let the next query of the session that starts take the greatest of its watermarks.

    A query copies the session's conf when it starts, and its checkpoint keeps this key for good. So that no other query
    is changed, ``restore_policy`` puts the conf back when the query has started.
    """
    if spark in _before:
        return
    before = spark.conf.get(MULTIPLE_WATERMARKS_KEY) or ""
    if before != _MAX:
        _before[spark] = before
        spark.conf.set(MULTIPLE_WATERMARKS_KEY, _MAX)


def restore_policy(spark: SparkSession) -> None:
    """Put the conf back as it was before ``ask_for_max_policy``."""
    if spark in _before:
        spark.conf.set(MULTIPLE_WATERMARKS_KEY, _before.pop(spark))


def steered(df: DataFrame, event_time: str, delay_ms: int, path: str, stream: str) -> DataFrame:
    """Return ``df`` with a watermark that follows the control stream, ``delay_ms`` behind its own rows at the most.

    Args:
        df: the data, tapped, without a watermark.
        event_time: name of its event-time column.
        delay_ms: the static bound, in milliseconds.
        path: path of the driver's socket.
        stream: name under which the driver knows the stream.
    """
    data = df.withWatermark(event_time, f"{delay_ms} milliseconds")
    return data.union(_control(df.sparkSession, df, event_time, (path, stream)))


def _control(spark: SparkSession, like: DataFrame, event_time: str, where: tuple[str, str]) -> DataFrame:
    register_control_source(spark)
    path, stream = where
    reader = spark.readStream.format("tidemark_control").options(socket=path, stream=stream)
    if (spark.conf.get(_EVOLUTION_KEY, "false") or "").lower() == "true":
        reader = reader.name("tidemark_" + re.sub(r"\W", "_", stream.split(":")[1]))
    source = reader.load()
    moving = (
        source.select(F.col(CONTROL_COLUMN).alias(event_time))
        .withWatermark(event_time, "0 seconds")
        .filter(F.col(quoted(event_time)) < F.lit(_NEVER).cast("timestamp"))
    )
    columns = [
        (_present(field) if field.name == event_time else _absent(field)).alias(field.name)
        for field in like.schema
    ]
    # Whatever follows in the user's plan (a filter, a join) may be pushed down to here, contradict the columns and let
    # the optimizer drop the branch with its watermark's node; it cannot pass an observation.
    return moving.select(*columns).observe(f"tidemark_control:{stream}", F.count(F.lit(1)).alias("rows"))


def _present(field: StructField) -> Column:
    time = F.col(quoted(field.name))
    return time if field.nullable else F.coalesce(time, F.lit(_EPOCH).cast(field.dataType))


def _absent(field: StructField) -> Column:
    """Return a value for the row that nobody sees; a column without nulls keeps having none, for the state's schema."""
    if not field.nullable:
        for kind, value in _VALUES:
            if isinstance(field.dataType, kind):
                return F.lit(value).cast(field.dataType)
    return F.lit(None).cast(field.dataType)
