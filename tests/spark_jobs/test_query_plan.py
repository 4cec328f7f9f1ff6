"""The operator as the plan has it, against the one that the call declares."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tidemark.models.ledger import judge
from tidemark.models.operators import Operator, call_for, row_level, session, sliding, tumbling
from tidemark.spark_jobs import adaptive_watermark
from tidemark.spark_jobs.query_plan import read_plan

from support.live_streams import Input, LiveJob
from support.spark_streams import EPOCH_US, SCHEMA, Row

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]

SECOND = 1_000_000
Query = Callable[[DataFrame], DataFrame]


def counted(key: Callable[[], Column], *more: str) -> Query:
    return lambda df: df.groupBy(key(), *more).count()


def gap_by_row() -> Column:
    return F.session_window("ts", F.when(F.col("id") > 5, "3 seconds").otherwise("9 seconds"))


def joined(df: DataFrame) -> DataFrame:
    other = df.sparkSession.readStream.format("rate").load()
    return df.join(other, F.expr("id = value and ts between timestamp - interval 4 seconds and timestamp"))


PLANS: dict[str, tuple[Query, Operator | None]] = {
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
    "session": (counted(lambda: F.session_window("ts", "3 seconds"), "id"), session("3 s")),
    "session with a gap by row": (counted(gap_by_row, "partition"), None),
    "window as a column first": (
        lambda df: df.withColumn("w", F.window("ts", "30 seconds")).filter("id > 0").groupBy("w").count(),
        tumbling("30 s"),
    ),
    "window of another column": (
        lambda df: (
            df.withColumn("t2", F.expr("ts + interval 1 hour")).groupBy(F.window("t2", "5 seconds")).count()
        ),
        None,
    ),
    "windows of windows": (
        lambda df: counted(lambda: F.window(F.window_time("window"), "20 seconds"))(
            counted(lambda: F.window("ts", "5 seconds"), "id")(df)
        ),
        tumbling("5 s"),
    ),
    "a key by another function": (counted(lambda: F.date_trunc("minute", "ts"), "ts"), None),
    "deduplication": (lambda df: df.dropDuplicatesWithinWatermark(["id"]), row_level()),
    "deduplication, then windows": (
        lambda df: counted(lambda: F.window("ts", "5 seconds"))(df.dropDuplicatesWithinWatermark(["id"])),
        row_level(),
    ),
    "join of two streams": (joined, row_level()),
    "join with a table, then windows": (
        lambda df: counted(lambda: F.window("ts", "5 seconds"))(df.join(df.sparkSession.range(3), "id")),
        tumbling("5 s"),
    ),
    "nothing stateful": (lambda df: df.filter("id > 0"), None),
}


@pytest.mark.parametrize(
    ("name", "ceiling"),
    [*((name, None) for name in PLANS), ("sliding, and a key", "1 hour"), ("join of two streams", "1 hour")],
)
def test_the_operator_above_the_tap_is_read_from_the_plan_or_not_recognised(
    spark: SparkSession, tmp_path: Path, name: str, ceiling: str | None
) -> None:
    query, expected = PLANS[name]
    source = spark.readStream.schema(SCHEMA).json(str(tmp_path))
    tapped = source.transform(adaptive_watermark("ts", "10 seconds", row_level(), ceiling=ceiling))
    plan = read_plan(query(tapped)._jdf.queryExecution().analyzed())
    operators = {metric: operator for metric, operator in plan.operators.items() if "control" not in metric}

    assert list(operators.values()) == [expected]
    assert plan.watermarks == 1


@pytest.mark.parametrize(
    "operator",
    [tumbling("1 m"), tumbling("1 d", "22 h"), sliding("10 s", "4 s"), session("3 s"), row_level()],
)
def test_the_call_that_is_to_be_written_declares_the_operator(operator: Operator) -> None:
    known = {"tumbling": tumbling, "sliding": sliding, "session": session, "row_level": row_level}

    assert eval(call_for(operator), known) == operator


@pytest.mark.parametrize("ceiling", [None, "10 minutes"], ids=["OnRestart", "Live"])
def test_under_a_declaration_that_the_plan_contradicts_no_row_is_judged_nothing_steered_and_the_log_says_what_to_write(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture, ceiling: str | None
) -> None:
    """By windows of a minute some of these rows would be called late, and Spark admits them all."""
    entry = Input(name="in", operator=tumbling("1 minute"), bound="3 seconds", ceiling=ceiling)
    mode = "OnRestart" if ceiling is None else "Live"
    job = LiveJob(
        spark,
        tmp_path,
        [entry],
        lambda inputs: (
            inputs[0]
            .groupBy(F.window("ts", "5 minutes"))
            .agg(F.collect_list("id").alias("ids"))
            .select(F.unix_micros("window.end").alias("key_us"), "ids")
        ),
        mode=mode,  # type: ignore[arg-type]
    )
    batches = [[Row(n, 0, EPOCH_US + at * SECOND)] for n, at in enumerate((0, 70, 80, 10, 20))]
    with caplog.at_level(logging.ERROR, "tidemark.spark"):
        job.run([[[rows]] for rows in batches])
    reports, (acknowledged,) = job.recorded["in"].reports, job.recorded["in"].acknowledgements

    assert {report.contradiction for report in reports} == {
        "the call declares a tumbling window of 60 s, but the query has a tumbling window of 5 min"
    }
    assert sum(judge(report).unjudged_rows for report in reports) == 5
    assert [judge(report).tallies for report in reports if judge(report).tallies] == []
    assert 'declare tumbling("5 min")' in caplog.text
    assert acknowledged.mode == ("OnRestart" if ceiling is None else "Off")
    assert all(logged.controls in {(), (None,)} for logged in job.log())
