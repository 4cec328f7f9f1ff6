"""What is read of a query's joins, against what the engine does."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql import functions as F

from tidemark.models.base.operators import row_level
from tidemark.models.specs.findings import JoinedQuery, judge_joins
from tidemark.spark_jobs import adaptive_watermark
from tidemark.spark_jobs.plans.joins import read_joins
from tidemark.spark_jobs.spark.progress import watermark_ms_of

from support.join_state import predicted_state_rows
from support.spark_streams import EPOCH_US, SCHEMA, Row, write_batch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

pytestmark = [pytest.mark.spark, pytest.mark.slow]

HOW = {
    "inner": "inner",
    "leftOuter": "left_outer",
    "rightOuter": "right_outer",
    "fullOuter": "full_outer",
    "leftSemi": "left_semi",
}
KEY = "lk = rk"
CLOSED = "lk = rk and rts >= lts - interval 4 seconds and rts <= lts + interval 6 seconds"
HALF_OPEN = "lk = rk and rts > lts - interval 4 seconds and rts <= lts + interval 6 seconds"
ONE_END = "lk = rk and rts >= lts - interval 4 seconds"
APART = "lk = rk and lts = rts + interval 3 seconds"
ONE_TIME = "lk = rk and lts = rts"
UNREADABLE = "lk = rk and rts >= lts - interval 4 seconds and unix_timestamp(rts) <= unix_timestamp(lts) + 6"


def side(spark: SparkSession, folder: Path, name: str, *, delay: str | None = "10 seconds") -> DataFrame:
    """Return an input with the columns lk and lts, or rk and rts."""
    path = folder / name
    path.mkdir(parents=True, exist_ok=True)
    rows = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json(str(path))
    rows = rows.selectExpr(f"id as {name}k", f"ts as {name}ts")
    return rows if delay is None else rows.withWatermark(f"{name}ts", delay)


def read(df: DataFrame) -> JoinedQuery | None:
    return read_joins(df.sparkSession._jsparkSession, df._jdf.queryExecution().analyzed())


def started(df: DataFrame, folder: Path, **trigger: bool) -> StreamingQuery:
    writer = df.writeStream.format("noop").option("checkpointLocation", str(folder / "checkpoint"))
    return (writer.trigger(**trigger) if trigger else writer).start()


def refusal(df: DataFrame, folder: Path) -> str | None:
    """Return the engine's own words, None when it starts the query."""
    try:
        started(df, folder).stop()
    except AnalysisException as error:
        return str(error)
    return None


def cells(how: str) -> Iterator[tuple[str | None, str | None, str]]:
    """Yield the delays of both inputs and a condition; an inner join always starts, so few are enough."""
    for left, right in itertools.product((None, "10 seconds"), repeat=2):
        conditions = (KEY,) if how == "inner" else (KEY, CLOSED, ONE_END, ONE_TIME)
        yield from ((left, right, condition) for condition in conditions)
    yield "10 seconds", "10 seconds", UNREADABLE


@pytest.mark.long
@pytest.mark.parametrize("how", HOW)
def test_a_query_is_said_to_start_exactly_if_the_engine_starts_it(
    spark: SparkSession, tmp_path: Path, how: str
) -> None:
    found, engine = {}, {}
    for number, cell in enumerate(cells(how)):
        left, right, condition = cell
        one, other = side(spark, tmp_path, "l", delay=left), side(spark, tmp_path, "r", delay=right)
        df = one.join(other, F.expr(condition), how)
        joins = read(df)
        assert joins is not None
        assert joins.joins[0].type == HOW[how]
        words = refusal(df, tmp_path / str(number))
        found[cell], engine[cell] = joins.starts, words is None
        assert joins.refused is None or (words is not None and words.startswith(joins.refused))

    assert found == engine
    assert how == "inner" or set(found.values()) == {True, False}


APART_US = 3_000_000
NO_PARTNER = {"l": 90, "r": 91}
"""A key of each side that the other one lacks."""


def about_evictions(folder: Path) -> dict[str, list[list[Row]]]:
    """Write rows of both sides, a microsecond and a millisecond about the times at which others are evicted."""
    draw = random.Random(17)
    streams: dict[str, list[list[Row]]] = {"l": [], "r": []}
    for number, now_s in enumerate((100, 104, 104.001, 106, 106.001, 115)):
        for name, batches in streams.items():
            ago_s = (0, 1e-6, 1e-3, 1, 4, 4.001, 6, 6.001, 9)
            times = [EPOCH_US + round((now_s - each) * 1e6) for each in ago_s]
            batches.append([Row(draw.randrange(4), 0, time) for time in times])
            if not number:
                batches[0].append(Row(NO_PARTNER[name], 0, times[0]))
            write_batch(folder / name, number, batches[number])
    return streams


@dataclass(frozen=True)
class Ran:
    """What a join did, beside what was said of it."""

    state: list[tuple[int, int]]
    """Rows in the state after each batch: of the engine, and as predicted."""
    loose: set[str]
    """Sides whose retention could be a millisecond more or less, for all that the state shows."""
    alone: set[str]
    """Sides of which a row came out without a partner."""


def ran(
    df: DataFrame, joins: JoinedQuery, folder: Path, streams: dict[str, list[list[Row]]], condition: str
) -> Ran:
    """Run a join over all there is, and predict its state.

    Raises:
        AnalysisException: when the engine does not start it.
    """
    alone: set[str] = set()

    def collect(rows: DataFrame, _: int) -> None:
        came = [row.asDict() for row in rows.collect()]
        for name, other in ("lr", "rl"):
            alone.update(name for row in came if f"{other}k" in row and row[f"{other}k"] is None)

    writer = df.writeStream.foreachBatch(collect).option("checkpointLocation", str(folder))
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()

    join, before_ms = joins.joins[0], 0
    sides = {"l": join.left, "r": join.right}
    held: dict[str, list[int]] = {"l": [], "r": []}
    state: list[tuple[int, int]] = []
    fits = {(name, more_ms): True for name in sides for more_ms in (-1, 1)}
    for progress in query.recentProgress:
        for name, batches in streams.items():
            rows = batches[progress.batchId] if progress.batchId < len(batches) else []
            judged_us = 0 if sides[name].watermark_column is None else before_ms * 1_000
            # What the condition adds to the right row's time is part of what is compared.
            more_us = APART_US if name == "r" and condition == APART else 0
            held[name] += [row.event_time_us + more_us for row in rows if row.event_time_us > judged_us]
        before_ms = watermark_ms_of(progress) or 0
        kept = {name: sides[name].retention_ms for name in sides}
        actual = progress.stateOperators[0].numRowsTotal
        state.append((actual, predicted_state_rows([(held[n], kept[n]) for n in sides], before_ms)))
        for name, more_ms in fits:
            other = kept | {name: (kept[name] or 0) + more_ms}
            wrong = predicted_state_rows([(held[n], other[n]) for n in sides], before_ms)
            fits[name, more_ms] &= actual == wrong
    endless = {name for name in sides if sides[name].retention_ms is None}
    return Ran(state, {name for name, _ in fits if fits[name, -1] or fits[name, 1]} - endless, alone)


def compared(how: str, joins: JoinedQuery, found: Ran) -> list[str]:
    """Return where a join did something else than was said."""
    exact = all(actual == predicted for actual, predicted in found.state)
    at_most = all(actual <= predicted for actual, predicted in found.state)
    wrong = [] if exact or (how == "leftSemi" and at_most) else [f"state {found.state}"]
    if how != "leftSemi":
        wrong += [f"the retention of {name} is not shown to the millisecond" for name in sorted(found.loose)]
    outer = {"leftOuter": "l", "rightOuter": "r", "fullOuter": "lr"}.get(how, "")
    never = {f.side[0] for f in judge_joins(joins) if f.code == "outer_rows_never_come" and f.side}
    if found.alone != set(outer) - never:
        wrong.append(f"rows without a partner came of {found.alone}, and never come of {never}")
    return wrong


@pytest.mark.long
@pytest.mark.parametrize(
    ("how", "condition", "left_ms", "right_ms"),
    [
        ("leftOuter", HALF_OPEN, 6_001, 4_000),
        ("inner", ONE_END, None, 4_001),
        ("fullOuter", APART, 0, 0),
        ("leftSemi", CLOSED, 6_001, 4_001),
    ],
)
def test_the_engine_holds_after_each_batch_the_rows_that_retention_predicts(
    spark: SparkSession, tmp_path: Path, how: str, condition: str, left_ms: int | None, right_ms: int | None
) -> None:
    streams = about_evictions(tmp_path)
    one, other = side(spark, tmp_path, "l", delay="0 seconds"), side(spark, tmp_path, "r", delay="0 seconds")
    df = one.join(other, F.expr(condition), how)
    joins = read(df)
    assert joins is not None
    join = joins.joins[0]
    found = ran(df, joins, tmp_path / "checkpoint", streams, condition)

    assert (join.left.retention_ms, join.right.retention_ms) == (left_ms, right_ms)
    assert compared(how, joins, found) == []
    assert len(found.state) >= 6
    assert how != "leftSemi" or any(actual < predicted for actual, predicted in found.state)


RANGES = (KEY, CLOSED, HALF_OPEN, ONE_END, APART, ONE_TIME, UNREADABLE)


@pytest.mark.soak
@pytest.mark.parametrize("how", HOW)
def test_in_every_cell_the_engine_starts_keeps_and_emits_what_is_said(
    spark: SparkSession, tmp_path: Path, how: str
) -> None:
    """A watermark on none, one and both inputs, and each range."""
    streams, wrong, started_cells, batches = about_evictions(tmp_path), [], 0, 0
    cells = list(itertools.product((None, "0 seconds"), (None, "0 seconds"), RANGES))
    for number, cell in enumerate(cells):
        left, right, condition = cell
        one, other = side(spark, tmp_path, "l", delay=left), side(spark, tmp_path, "r", delay=right)
        df = one.join(other, F.expr(condition), how)
        joins = read(df)
        assert joins is not None
        try:
            found = ran(df, joins, tmp_path / "checkpoints" / str(number), streams, condition)
        except AnalysisException as error:
            if joins.refused is None or not str(error).startswith(joins.refused):
                wrong.append(f"{cell}: not started: {error}")
            continue
        if not joins.starts:
            wrong.append(f"{cell}: started, though {joins}")
        wrong += [f"{cell}: {each}" for each in compared(how, joins, found)]
        started_cells, batches = started_cells + 1, batches + len(found.state)
    print(f"{how}: {len(cells)} cells, {started_cells} of them start; {batches} batches compared")

    assert wrong == []
    assert started_cells == len(cells) if how == "inner" else 0 < started_cells < len(cells)


def test_a_left_outer_join_with_a_watermark_on_the_right_alone_starts_and_evicts_and_emits_nothing(
    spark: SparkSession, tmp_path: Path
) -> None:
    for number, time_s in enumerate((100, 200, 300)):
        for name in "lr":
            write_batch(
                tmp_path / name, number, [Row(number + 10 * (name == "r"), 0, EPOCH_US + time_s * 10**6)]
            )
    one, other = side(spark, tmp_path, "l", delay=None), side(spark, tmp_path, "r", delay="0 seconds")
    df = one.join(other, F.expr(CLOSED), "leftOuter")

    query = started(df, tmp_path, availableNow=True)
    query.awaitTermination()
    last = query.recentProgress[-1]

    # By then a row of 100 s would long have gone; nothing would be evicted, so Spark runs no batch without data.
    assert watermark_ms_of(last) == EPOCH_US // 1_000 + 200_000
    assert last.stateOperators[0].numRowsTotal == 6
    assert sum(progress.sink.numOutputRows for progress in query.recentProgress) == 0
    joins = read(df)
    assert joins is not None
    assert joins.starts
    assert [finding.code for finding in judge_joins(joins) if finding.severity == "error"] == [
        "outer_rows_never_come"
    ]


@pytest.mark.parametrize("what", ["no equality", "two event times"])
def test_what_the_engine_says_at_its_first_batch_is_said_before(
    spark: SparkSession, tmp_path: Path, what: str
) -> None:
    for name in "lrx":
        write_batch(tmp_path / name, 0, [Row(1, 0, EPOCH_US)])
    one, other, third = (side(spark, tmp_path, name) for name in "lrx")
    df = one.join(other, F.expr(CLOSED.removeprefix("lk = rk and ") if what == "no equality" else CLOSED))
    if what == "two event times":
        df = df.join(third, F.expr("lk = xk and xts between lts and lts + interval 5 seconds"), "leftOuter")
    joins = read(df)
    assert joins is not None
    words = joins.joins[0].refused
    assert words is not None
    assert not joins.starts

    with pytest.raises(StreamingQueryException) as error:
        started(df, tmp_path, availableNow=True).awaitTermination()
    assert words.partition(" event time columns: ")[0] in str(error.value)


def windows(df: DataFrame, name: str) -> DataFrame:
    return df.groupBy(F.window(f"{name}ts", "5 seconds").alias(f"{name}w"), f"{name}k").count()


MONTH = "lk = rk and lts between rts - interval 1 month and rts"
SHAPES: dict[
    str, tuple[Callable[[DataFrame, DataFrame], DataFrame], tuple[int | None, int | None], set[str]]
] = {
    "a filter behind the join": (
        lambda one, other: one.join(other, F.expr(KEY)).where(CLOSED),
        (6_001, 4_001),
        {"silent_side"},
    ),
    "a range ahead": (
        lambda one, other: one.join(
            other, F.expr("lk = rk and rts between lts + interval 1 minute and lts + interval 1 hour")
        ),
        (3_600_001, -59_999),
        {"silent_side"},
    ),
    "windows": (
        lambda one, other: windows(one, "l").join(windows(other, "r"), F.expr("lw = rw"), "leftOuter"),
        (0, 0),
        {"silent_side"},
    ),
    "ends of windows": (
        lambda one, other: windows(one, "l").join(windows(other, "r"), F.expr("lw.end = rw.end")),
        (None, None),
        {"unreadable_range", "never_evicted", "silent_side"},
    ),
    "months": (
        lambda one, other: one.join(other, F.expr(MONTH)),
        (None, 1),
        {"unreadable_range", "never_evicted", "silent_side"},
    ),
    "a new event time": (
        lambda one, other: one.withColumn("lts", F.date_trunc("hour", "lts")).join(other, F.expr(CLOSED)),
        (None, None),
        {"watermark_lost", "never_evicted", "silent_side"},
    ),
    "a column that nothing reads": (
        lambda one, other: one.join(other, F.expr(KEY)).select("lk"),
        (None, None),
        {"never_evicted", "silent_side"},
    ),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_shapes_of_joins_and_what_is_found(spark: SparkSession, tmp_path: Path, shape: str) -> None:
    plan, retention_ms, codes = SHAPES[shape]
    joins = read(plan(side(spark, tmp_path, "l"), side(spark, tmp_path, "r")))
    assert joins is not None
    join = joins.joins[0]

    assert (join.left.retention_ms, join.right.retention_ms) == retention_ms
    assert {finding.code for finding in judge_joins(joins)} == codes


def test_a_query_that_joins_no_two_streams_has_nothing_to_judge(spark: SparkSession, tmp_path: Path) -> None:
    assert read(side(spark, tmp_path, "l").join(spark.range(3), F.expr("lk = id"))) is None


@pytest.mark.parametrize("ceiling", [None, "1 hour"], ids=["plain", "with a ceiling"])
def test_an_adaptive_watermark_is_read_as_any_other(
    spark: SparkSession, tmp_path: Path, ceiling: str | None
) -> None:
    sides = (
        side(spark, tmp_path, name, delay=None).transform(
            adaptive_watermark(f"{name}ts", "10 seconds", row_level(), stream=name, ceiling=ceiling)
        )
        for name in "lr"
    )
    one, other = sides
    joins = read(one.join(other, F.expr(CLOSED), "leftOuter"))
    assert joins is not None
    (join,) = joins.joins

    assert (joins.starts, joins.watermarks) == (True, 2)
    assert (join.left.watermark_column, join.right.watermark_column) == ("lts", "rts")
    assert (join.left.retention_ms, join.right.retention_ms) == (6_001, 4_001)


def test_the_policy_of_the_session_is_read(spark: SparkSession, tmp_path: Path) -> None:
    key = "spark.sql.streaming.multipleWatermarkPolicy"
    df = side(spark, tmp_path, "l").join(side(spark, tmp_path, "r"), F.expr(CLOSED))
    spark.conf.set(key, "max")
    try:
        joins = read(df)
    finally:
        spark.conf.unset(key)
    assert joins is not None
    assert [finding.code for finding in judge_joins(joins)] == ["policy_max"]
