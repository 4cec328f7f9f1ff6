"""What the bounds decide at operators behind one another, beside what Spark does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemark.models.base.operators import row_level, tumbling
from tidemark.models.protocol.downstream import Downstream, OperatorDelay
from tidemark.spark_jobs.plans.downstream import read_operators
from tidemark.spark_jobs.plans.joins import read_joins
from tidemark.spark_jobs.spark.progress import watermark_ms_of
from tidemark.spark_jobs.spark.query_plan import TAP_PREFIX

from support.live_operators import KINDS
from support.spark_streams import EPOCH_US, SCHEMA, Row, write_batch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]

DELAYS = {"l": "2 seconds", "r": "1 second"}
LEFT, RIGHT = f"{TAP_PREFIX}l", f"{TAP_PREFIX}r"
NEAR = "lk = rk and rts >= lts - interval 4 seconds and rts <= lts + interval 6 seconds"


def side(spark: SparkSession, folder: Path, name: str) -> DataFrame:
    """Return an input with a metric of its own name below its watermark, as a tap has."""
    (folder / name).mkdir(parents=True, exist_ok=True)
    rows = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json(str(folder / name))
    rows = rows.selectExpr(f"id as {name}k", f"ts as {name}ts")
    rows = rows.observe(f"{TAP_PREFIX}{name}", F.count(F.lit(1)).alias("rows"))
    return rows.withWatermark(f"{name}ts", DELAYS[name])


def decided_by(df: DataFrame, bound_ms: int | None = None) -> list[OperatorDelay]:
    session, analysed = df.sparkSession._jsparkSession, df._jdf.queryExecution().analyzed()
    found = read_operators(session, analysed, read_joins(session, analysed), bound_ms)
    return [each for each, _ in found.operators]


def five(df: DataFrame) -> DataFrame:
    return df.groupBy(F.window("lts", "5 seconds")).count()


@pytest.mark.parametrize(
    ("condition", "retention_ms"),
    [
        (NEAR, 6_001),
        ("lk = rk and rts >= lts - interval 4 seconds", 4_001),
    ],
    ids=["closed", "one end"],
)
def test_windows_behind_a_join_come_when_the_watermark_has_passed_their_end_by_the_joins_retention(
    spark: SparkSession, tmp_path: Path, condition: str, retention_ms: int
) -> None:
    # A row in each of two windows; then for each window a row that leaves it open by a millisecond, and one that closes
    # it.
    closing_ms = [end_ms + retention_ms + 2_000 for end_ms in (105_000, 110_000)]
    times_ms = [102_000, 107_000, *(at_ms - early_ms for at_ms in closing_ms for early_ms in (1, 0))]
    for number, time_ms in enumerate(times_ms):
        for name in DELAYS:
            write_batch(tmp_path / name, number, [Row(number, 0, EPOCH_US + time_ms * 1_000)])
    df = five(side(spark, tmp_path, "l").join(side(spark, tmp_path, "r"), F.expr(condition)))
    (windows,) = decided_by(df)
    came: dict[int, int] = {}

    def collect(rows: DataFrame, batch: int) -> None:
        came.update({row[0].timestamp() * 1_000: batch for row in rows.select("window.end").collect()})

    query = (
        df.writeStream.foreachBatch(collect)
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    watermark_ms = {each.batchId: watermark_ms_of(each) or 0 for each in query.recentProgress}

    assert (windows.operator, windows.retention_ms, windows.bound_ms) == ("windows", retention_ms, 2_000)
    assert len(came) == 2
    for end_ms, batch in came.items():
        assert watermark_ms[batch - 1] == end_ms + retention_ms - 1
        assert watermark_ms[batch] == end_ms + retention_ms


CHAINS: dict[str, tuple[Callable[[DataFrame, DataFrame], DataFrame], list[tuple[str, int]]]] = {
    "windows": (lambda left, _: five(left), [("windows", 2_000)]),
    "windows behind deduplication": (
        lambda left, _: five(left.dropDuplicatesWithinWatermark(["lk"])),
        [("deduplication", 4_000), ("windows", 2_000)],
    ),
    "deduplication by event time": (
        lambda left, _: left.dropDuplicates(["lk", "lts"]),
        [("deduplication", 2_000)],
    ),
    "windows of windows": (
        lambda left, _: five(left).groupBy(F.window(F.window_time("window"), "20 seconds")).count(),
        [("windows", 2_000), ("windows", 2_000)],
    ),
    "sessions behind a join": (
        lambda left, right: (
            left.join(right, F.expr(NEAR)).groupBy(F.session_window("lts", "3 seconds"), "lk").count()
        ),
        [("sessions", 8_001)],
    ),
    "a join alone, and a count by key": (lambda left, right: left.join(right, F.expr(NEAR)), []),
}


@pytest.mark.parametrize("name", CHAINS)
def test_each_operator_of_a_chain_has_the_time_that_the_bounds_decide(
    spark: SparkSession, tmp_path: Path, name: str
) -> None:
    query, expected = CHAINS[name]
    df = query(side(spark, tmp_path, "l"), side(spark, tmp_path, "r"))

    assert [(each.operator, each.after_ms) for each in decided_by(df)] == expected


def test_another_bound_moves_what_follows_from_it_and_leaves_the_retention(
    spark: SparkSession, tmp_path: Path
) -> None:
    left = side(spark, tmp_path, "l").dropDuplicatesWithinWatermark(["lk"])
    distinct, windows = decided_by(five(left.join(side(spark, tmp_path, "r"), F.expr(NEAR))), 30_000)

    assert distinct.text == "an event is known for 60 s: bound 30 s + horizon 30 s"
    assert windows.text == "one is closed 36.001 s after its end: bound 30 s + 6.001 s of join 1"


def test_each_stream_of_a_query_has_the_numbers_that_its_own_bound_moves(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The left input is deduplicated before the join, and windows close behind it."""
    left, right = (side(spark, tmp_path, name) for name in DELAYS)
    near = left.dropDuplicatesWithinWatermark(["lk"]).join(right, F.expr(NEAR))
    session, analysed = spark._jsparkSession, five(near)._jdf.queryExecution().analyzed()
    operators = read_operators(session, analysed, read_joins(session, analysed))

    of_left = operators.downstream_of(LEFT, row_level(), bound_ms=2_000)
    of_right = operators.downstream_of(RIGHT, row_level(), bound_ms=1_000)
    several = "3 operators keep rows, and Spark counts them together"
    chain = Downstream(retention_ms=6_001, range_ms=6_001, state_unforeseen=several)
    assert of_left == replace(chain, horizon_ms=0, horizon_moves=True, others_ms=1_000)
    assert of_right == replace(chain, horizon_ms=2_000, others_ms=2_000)
    in_live = operators.downstream_of(LEFT, row_level(), bound_ms=2_000, live=[LEFT])
    assert in_live == replace(of_left, horizon_ms=2_000, horizon_moves=False), (
        "the ceiling, which does not move"
    )
    assert (of_left.known_ms(2_000), of_right.known_ms(1_000)) == (4_000, 4_000)
    assert (of_left.closes_ms(500), of_right.closes_ms(500)) == (7_001, 8_001)
    at_500_ms, *_ = of_right.texts(500)
    assert at_500_ms == "windows close at the bound of another input + 6.001 s behind the join: 8.001 s"


def test_a_query_with_nothing_behind_a_streams_own_operator_has_no_chain(
    spark: SparkSession, tmp_path: Path
) -> None:
    rows = side(spark, tmp_path, "l")
    for df, operator in ((five(rows), tumbling("5 s")), (rows.groupBy("lts").count(), row_level())):
        session, analysed = spark._jsparkSession, df._jdf.queryExecution().analyzed()
        assert read_operators(session, analysed, None).downstream_of(LEFT, operator, bound_ms=2_000) is None


def _transformed(left: DataFrame, _: DataFrame) -> DataFrame:
    return KINDS["transformWithState, timers"].plan(
        [left.selectExpr("lk as id", "0 as partition", "lts as ts")]
    )


@pytest.mark.parametrize(
    ("query", "mode", "why", "grows"),
    [
        (
            lambda left, _: left.dropDuplicates(["lk"]),
            "append",
            "never forgets a key of dropDuplicates(lk)",
            True,
        ),
        (lambda left, _: five(left), "complete", "never forgets a key of aggregate(window)", True),
        (lambda left, right: left.join(right, F.expr("lk = rk")), "append", "never evicts the rows", True),
        (
            lambda left, _: left.groupBy("lk").count(),
            "update",
            "aggregate(lk) keeps a row for each key",
            False,
        ),
        (_transformed, "append", "transformWithState (EventTime) keeps what its function says", False),
        (lambda left, right: left.join(right, F.expr(NEAR)), "append", None, False),
        (lambda left, _: left.dropDuplicates(["lk", "lts"]), "append", None, False),
        (lambda left, _: left.dropDuplicatesWithinWatermark(["lk"]), "append", None, False),
        (lambda left, _: left.groupBy().count(), "update", None, False),
    ],
)
def test_whether_the_size_of_the_state_follows_from_the_bound_is_what_the_table_says(
    spark: SparkSession,
    tmp_path: Path,
    query: Callable[[DataFrame, DataFrame], DataFrame],
    mode: str,
    why: str | None,
    grows: bool,
) -> None:
    df = query(side(spark, tmp_path, "l"), side(spark, tmp_path, "r"))
    session, analysed = spark._jsparkSession, df._jdf.queryExecution().analyzed()
    read = read_operators(session, analysed, read_joins(session, analysed, mode), output_mode=mode)

    text, found = read.unforeseen
    assert found is grows
    assert text is None if why is None else why in (text or "")
