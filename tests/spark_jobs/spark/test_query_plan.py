"""The operator that rows are judged by, as the plan of a query has it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tidemark.models.base.operators import Operator, row_level, session, sliding, tumbling
from tidemark.spark_jobs import adaptive_watermark
from tidemark.spark_jobs.spark.query_plan import NoOperator, read_plan

from support.live_operators import KINDS
from support.spark_streams import SCHEMA

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]

Query = Callable[[DataFrame], DataFrame]


def counted(key: Callable[[], Column], *more: str) -> Query:
    return lambda df: df.groupBy(key(), *more).count()


def five() -> Column:
    return F.window("ts", "5 seconds")


def gap_by(column: str) -> Query:
    return counted(lambda: F.session_window("ts", F.expr(f"if({column} > 5, '3 seconds', '9 seconds')")))


def other(df: DataFrame) -> DataFrame:
    return df.sparkSession.readStream.format("rate").load().withWatermark("timestamp", "1 minute")


def joined(df: DataFrame) -> DataFrame:
    return df.join(
        other(df), F.expr("id = value and ts between timestamp - interval 4 seconds and timestamp")
    )


def by_window(df: DataFrame) -> DataFrame:
    right = other(df).select(F.window("timestamp", "5 seconds").alias("w"), "value")
    return df.select(five().alias("w"), "id").join(right, "w", "leftOuter").select("id", "value")


def united(df: DataFrame) -> DataFrame:
    return other(df).selectExpr("timestamp as time", "value").union(df.select("ts", "id"))


def with_state(timeout: str) -> Query:
    def nothing(_: Any, __: Any, ___: Any) -> Iterator[Any]:
        yield from ()

    return lambda df: df.groupBy("id").applyInPandasWithState(nothing, "a long", "a long", "append", timeout)


def with_own_times(df: DataFrame) -> DataFrame:
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor

    class Nothing(StatefulProcessor):
        def init(self, handle: Any) -> None: ...

        def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Any]:  # noqa: ARG002, N802, N803
            yield from ()

    return df.groupBy("id").transformWithStateInPandas(
        Nothing(), "ts timestamp", "append", "EventTime", eventTimeColumnName="ts"
    )


PLANS: dict[str, tuple[Query, Operator | str]] = {
    "tumbling": (counted(lambda: F.window("ts", "1 minute")), tumbling("1 minute")),
    "tumbling with a start": (
        counted(lambda: F.window("ts", "1 minute", "1 minute", "15 seconds")),
        tumbling("1 minute", "15 s"),
    ),
    "tumbling with a start before the epoch": (
        counted(lambda: F.window("ts", "1 day", "1 day", "-2 hours")),
        tumbling("1 day", "22 h"),
    ),
    "sliding, and a key": (
        counted(lambda: F.window("ts", "10 seconds", "4 seconds"), "id"),
        sliding("10 s", "4 s"),
    ),
    "sliding by 288 steps": (
        counted(lambda: F.window("ts", "1 day", "5 minutes")),
        sliding("1 day", "5 minutes"),
    ),
    "window under another name": (counted(lambda: five().alias("w")), tumbling("5 s")),
    "window as a column first": (
        lambda df: df.withColumn("w", five()).filter("id > 0").groupBy(F.col("w").alias("v")).count(),
        tumbling("5 s"),
    ),
    "one of two windows": (
        lambda df: (
            df.withColumn("w", five()).withColumn("v", F.window("ts", "1 minute")).groupBy("w").count()
        ),
        tumbling("5 s"),
    ),
    "window of a renamed event time": (
        lambda df: df.withColumnRenamed("ts", "time").groupBy(F.window("time", "5 seconds")).count(),
        tumbling("5 s"),
    ),
    "rows, distinct, behind an alias that the optimizer leaves out": (
        lambda df: df.select(F.col("ts").alias("ts"), "id").dropDuplicates(["id", "ts"]),
        row_level(),
    ),
    "windows, distinct": (
        lambda df: df.select(five().alias("w"), "id").distinct(),
        tumbling("5 s"),
    ),
    "window of another column": (
        lambda df: (
            df.withColumn("later", F.expr("ts + interval 1 hour"))
            .groupBy(F.window("later", "5 seconds"))
            .count()
        ),
        "NothingLate",
    ),
    "window in a column that has lost its mark": (
        lambda df: (
            df.withColumn("w", five()).select(F.struct("w.start", "w.end").alias("w")).groupBy("w").count()
        ),
        "NothingLate",
    ),
    "end of a window": (counted(lambda: five()["end"]), "NothingLate"),
    "windows, rolled up": (lambda df: df.rollup(five(), "id").count(), "Unrecognised"),
    "window of two queries in one": (
        lambda df: counted(five)(df).union(counted(lambda: F.window("ts", "1 minute"))(df)),
        "Unrecognised",
    ),
    "windows of windows": (
        lambda df: counted(lambda: F.window(F.window_time("window"), "20 seconds"))(counted(five, "id")(df)),
        tumbling("5 s"),
    ),
    "windows behind a function of the user's": (
        lambda df: counted(five)(df.mapInPandas(lambda frames: frames, df.schema)),
        "Uncounted",
    ),
    "windows of a union": (
        lambda df: united(df).groupBy(F.window("time", "5 seconds")).count(),
        tumbling("5 s"),
    ),
    "session": (counted(lambda: F.session_window("ts", "3 seconds"), "id"), session("3 s")),
    "session with a gap by row": (gap_by("id"), "Unsupported"),
    "session with a gap by time": (gap_by("hour(ts)"), "Unsupported"),
    "session with a gap of a month": (counted(lambda: F.session_window("ts", "1 month")), "Unsupported"),
    "event time as a key": (counted(lambda: F.date_trunc("minute", "ts"), "ts"), row_level()),
    "a key by another function": (counted(lambda: F.date_trunc("minute", "ts")), "NothingLate"),
    "a key without time": (counted(lambda: F.col("id")), "NothingLate"),
    "deduplication": (lambda df: df.dropDuplicatesWithinWatermark(["id"]), row_level()),
    "deduplication without a horizon": (lambda df: df.dropDuplicates(["id"]), row_level()),
    "deduplication by a window, without the event time": (
        lambda df: df.withColumn("w", five()).dropDuplicates(["id", "w"]).select("id", "w"),
        tumbling("5 s"),
    ),
    "deduplication by a window, with the event time before it": (
        lambda df: df.withColumn("w", five()).select("ts", "id", "w").dropDuplicates(["id", "w"]),
        row_level(),
    ),
    "join by a window": (by_window, tumbling("5 s")),
    "windows, distinct in SQL": (
        lambda df: df.sparkSession.sql("select distinct window(ts, '5 seconds') as w, id from {df}", df=df),
        tumbling("5 s"),
    ),
    "windows behind a generator": (
        lambda df: counted(five)(df.select("ts", F.explode(F.array("id", "partition")).alias("x"))),
        tumbling("5 s"),
    ),
    "join of two streams behind filters": (
        lambda df: joined(df.where("partition > 0")).where("value > 7 and second(ts) > 3"),
        row_level(),
    ),
    "windows behind a limit": (lambda df: counted(five)(df.limit(3)), "Uncounted"),
    "windows of a filter and of all": (
        lambda df: counted(five)(df.where("id > 3").union(df.where("id < 3"))),
        "Uncounted",
    ),
    "deduplication after which nobody needs the event time": (
        lambda df: df.dropDuplicates(["id"]).select("id"),
        "NothingLate",
    ),
    "deduplication, then windows": (
        lambda df: counted(five)(df.dropDuplicatesWithinWatermark(["id"])),
        row_level(),
    ),
    "join of two streams": (joined, row_level()),
    "join of two streams, then windows": (lambda df: counted(five)(joined(df)), row_level()),
    "join that needs no event time": (
        lambda df: df.join(other(df), F.expr("id = value")).select("id"),
        "NothingLate",
    ),
    "join with a table, then windows": (
        lambda df: counted(five)(df.sparkSession.range(3).join(df, "id")),
        tumbling("5 s"),
    ),
    "transformWithState": (lambda df: KINDS["transformWithState, timers"].plan([df]), row_level()),
    "transformWithState with times of its own": (with_own_times, row_level()),
    "transformWithState with times of its own, then windows": (
        lambda df: counted(five)(with_own_times(df)),
        row_level(),
    ),
    "state with a timeout by event time": (with_state("EventTimeTimeout"), row_level()),
    "state without a timeout": (with_state("NoTimeout"), "NothingLate"),
    "nothing stateful": (lambda df: df.filter("id > 0"), "NothingLate"),
}


@pytest.mark.parametrize(
    ("name", "ceiling"),
    [
        *((name, None) for name in PLANS),
        *((name, "1 hour") for name in ("sliding, and a key", "session", "join of two streams")),
    ],
)
def test_the_operator_that_rows_are_judged_by_is_read_from_the_plan_or_it_is_said_why_not(
    spark: SparkSession, tmp_path: Path, name: str, ceiling: str | None
) -> None:
    query, expected = PLANS[name]
    source = spark.readStream.schema(SCHEMA).json(str(tmp_path))
    tapped = source.transform(adaptive_watermark("ts", "10 seconds", ceiling=ceiling))
    frame = query(tapped)._jdf
    plan = read_plan(frame.queryExecution().analyzed(), frame.sparkSession().sessionState().optimizer())
    (found,) = plan.operators.values()

    assert (found.kind if isinstance(found, NoOperator) else found) == expected
    assert plan.own_times == (("ts",) if "times of its own" in name else ())
