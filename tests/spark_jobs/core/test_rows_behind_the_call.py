"""What stands behind ``adaptive_watermark`` may change the rows: the ledger has those that reach the operator."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemark.controller.reports.checks import check_report
from tidemark.models.base.operators import (
    Operator,
    RowLevel,
    SessionWindow,
    TimeWindow,
    row_level,
    session,
    sliding,
    tumbling,
)
from tidemark.models.protocol.messages import Report
from tidemark.spark_jobs import adaptive_watermark, flush
from tidemark.spark_jobs.core import counting
from tidemark.spark_jobs.core.tap import TAP_KEY
from tidemark.spark_jobs.late.side import side
from tidemark.spark_jobs.spark import query_plan

from support.live_streams import END_US, SECOND_US, Batches, trailing_batches
from support.oracles import Ledger
from support.patience import PATIENCE_S
from support.spark_streams import EPOCH_US, SCHEMA, RecordingSink, Row, write_batch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]

Query = Callable[[DataFrame], DataFrame]

HEARTBEATS = 1_000
"""Ids from here on are of heartbeats."""

CLOSING = range(960, 990)
"""Ids of rows that close everything before them; some get through every filter."""

EXTRA = "id", "partition", "ts", f"if(id < {HEARTBEATS}, 'click', 'heartbeat') as kind"


def _clicks_and_heartbeats() -> Batches:
    """Return 10 clicks, of which 3 come too late, and 400 heartbeats that are ahead of them."""
    clicks = [(20, 75), (74, 76), (10, 30, 50, 76, 77, 78)]
    batches: Batches = [
        [Row(10 * number + at, 0, EPOCH_US + second * SECOND_US) for at, second in enumerate(seconds)]
        for number, seconds in enumerate(clicks)
    ]
    for number, count in enumerate((150, 150, 100)):
        batches[number] += [
            Row(HEARTBEATS + 200 * number + at, 1 + at % 2, EPOCH_US + (80 + at % 10) * SECOND_US)
            for at in range(count)
        ]
    return batches


def _mixed() -> Batches:
    """Return clicks with stragglers in all partitions, and heartbeats that are a minute ahead of them."""
    batches = trailing_batches("behind", 5, trail_us=8 * SECOND_US)
    rng = random.Random("heartbeats")
    last_us = EPOCH_US
    for number, rows in enumerate(batches):
        last_us = max(last_us, *(row.event_time_us for row in rows))
        rows += [
            Row(HEARTBEATS + 100 * number + at, at % 3, last_us + rng.randrange(60 * SECOND_US))
            for at in range(30)
        ]
    closing = [Row(identity, 0, END_US) for identity in CLOSING]
    return [*batches, closing, [Row(row.id, 0, END_US + SECOND_US) for row in closing]]


@dataclass
class _Run:
    """A query over files, and what came of it."""

    spark: SparkSession
    folder: Path
    batches: Batches
    recorded: RecordingSink = field(default_factory=RecordingSink)
    came: list[int] = field(default_factory=list)
    """Ids in the sink, one for each row that the operator took."""

    def __post_init__(self) -> None:
        for number, rows in enumerate(self.batches):
            write_batch(self.folder / "in", number, rows)

    def source(self) -> DataFrame:
        read = self.spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
        return read.json(str(self.folder / "in"))

    def run(self, query: Query, *operator: Operator, before: Query = lambda df: df, **call: Any) -> None:
        """Run a query, which has the column ``ids``, over all files."""
        tapped = (
            self.source()
            .selectExpr(*EXTRA)
            .transform(before)
            .transform(adaptive_watermark("ts", "5 seconds", *operator, sink=self.recorded, **call))
        )
        started = (
            query(tapped)
            .writeStream.foreachBatch(self._collect)
            .outputMode("append")
            .option("checkpointLocation", str(self.folder / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        started.awaitTermination()
        assert flush(PATIENCE_S)

    def _collect(self, df: DataFrame, _: int) -> None:
        for row in df.select("ids").collect():
            self.came += [identity for identity in row["ids"] if identity not in CLOSING]

    @property
    def reports(self) -> list[Report]:
        return self.recorded.reports

    def ledger(self) -> Ledger:
        ledger = Ledger()
        for report in self.reports:
            ledger.add(report)
        return ledger

    def pairs(self, case: _Case) -> int:
        """Return how many (row, key) pairs reach the operator, as a batch query has it."""
        rows = self.spark.read.schema(SCHEMA).json(str(self.folder / "in")).selectExpr(*EXTRA)
        if isinstance(case.operator, TimeWindow) and case.operator.max_keys > 1:
            return sum(len(row["ids"]) for row in case.ending(case.behind(rows)).select("ids").collect())
        return case.behind(rows).count()


def _ids(rows: DataFrame, *keys: Any) -> DataFrame:
    return rows.groupBy(*keys).agg(F.collect_list("id").alias("ids"))


def _five() -> Any:
    return F.window("ts", "5 seconds")


def _windows(df: DataFrame) -> DataFrame:
    return _ids(df, _five())


def _clicks(df: DataFrame) -> DataFrame:
    return df.where("kind = 'click'")


@pytest.mark.versions
@pytest.mark.parametrize("ceiling", [None, "1 hour"])
def test_rows_that_a_filter_behind_the_call_drops_are_neither_judged_nor_the_base_of_needs(
    spark: SparkSession, tmp_path: Path, ceiling: str | None
) -> None:
    """Spark drops 3 of 10 clicks: 70 %, and not 99.27 % of all 410 rows; a ceiling changes nothing of that."""
    run = _Run(spark, tmp_path, _clicks_and_heartbeats())
    run.run(lambda df: _windows(_clicks(df)), ceiling=ceiling)
    completeness = run.ledger().completeness()
    newest_us = [report.max_event_time_us for report in run.reports if report.rows]

    assert (completeness.rows, completeness.late_min, completeness.late_max) == (10, 3, 3)
    assert completeness.unjudged_rows == completeness.missing_batches == 0
    assert newest_us == [EPOCH_US + second * SECOND_US for second in (75, 76, 78)]


def _table(df: DataFrame) -> DataFrame:
    """Return a table with which a third of the rows have no partner, and a third two."""
    return df.sparkSession.createDataFrame([(0, "a"), (0, "b"), (1, "c")], "rest long, name string")


def _named(how: str) -> Query:
    return lambda df: df.withColumn("rest", F.expr("id % 3")).join(_table(df), "rest", how)


def _exploded(df: DataFrame) -> DataFrame:
    return df.select(
        "ts", "id", F.explode(F.expr("slice(array(7, 8, 9), 1, cast(id % 3 as int))")).alias("x")
    )


def _is_click(df: DataFrame) -> DataFrame:
    return df.where(F.udf(lambda kind: kind == "click", "boolean")("kind"))


def _by_time(df: DataFrame) -> DataFrame:
    return df.where(F.expr("id % 5 > 1 and second(ts) > 9 and kind = 'click'"))


def _sql(df: DataFrame) -> DataFrame:
    df.createOrReplaceTempView("arrived")
    return df.sparkSession.sql(
        "select id, ts, upper(kind) as kind from arrived where kind like 'c%' and id % 2 = 0"
    )


def _sessions(df: DataFrame) -> DataFrame:
    return _ids(df, F.session_window("ts", "3 seconds"), "id")


def _distinct(df: DataFrame) -> DataFrame:
    return df.dropDuplicatesWithinWatermark(["id"]).select(F.array("id").alias("ids"))


def _distinct_by_window(df: DataFrame) -> DataFrame:
    """Spark judges these rows by the end of the window: the optimizer leaves no event time."""
    return df.withColumn("w", _five()).dropDuplicates(["id", "w"]).select(F.array("id").alias("ids"), "w")


FIVE = tumbling("5 s")


@dataclass(frozen=True)
class _Case:
    behind: Query
    operator: Operator = FIVE
    ending: Query = _windows


CASES = {
    "filter": _Case(_clicks),
    "filter in SQL": _Case(_sql),
    "filter by the event time": _Case(_by_time),
    "filter by a function in Python": _Case(_is_click),
    "filter, sliding windows": _Case(
        _clicks, sliding("10 s", "4 s"), lambda df: _ids(df, F.window("ts", "10 seconds", "4 seconds"))
    ),
    "filter, sessions": _Case(_clicks, session("3 s"), _sessions),
    "filter, deduplication": _Case(_clicks, row_level(), _distinct),
    "filter, deduplication by a window": _Case(_clicks, ending=_distinct_by_window),
    "select": _Case(lambda df: df.select("id", "ts")),
    "explode": _Case(_exploded),
    "filter, explode, filter": _Case(lambda df: _exploded(_clicks(df)).where("x > 7")),
    "join with a table": _Case(_named("inner")),
    "left join with a table, filter": _Case(
        lambda df: _named("left")(df).where("name is null or name > 'a'")
    ),
}
FEW = "filter by the event time", "filter by a function in Python", "explode", "join with a table"


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "ceiling"),
    [
        *(pytest.param(name, None, marks=pytest.mark.versions) for name in FEW),
        ("filter, deduplication by a window", None),
        ("filter, explode, filter", "1 hour"),
        *(
            pytest.param(*case, marks=pytest.mark.soak)
            for case in (*((name, None) for name in CASES), ("filter by a function in Python", "1 hour"))
            if case not in {(name, None) for name in (*FEW, "filter, deduplication by a window")}
        ),
    ],
)
def test_the_ledger_has_the_rows_that_reach_the_operator_and_the_sink_those_of_them_that_are_admitted(
    spark: SparkSession, tmp_path: Path, name: str, ceiling: str | None
) -> None:
    case = CASES[name]
    run = _Run(spark, tmp_path, _mixed())
    granule = "1 ms" if isinstance(case.operator, RowLevel | SessionWindow) else None
    run.run(lambda df: case.ending(case.behind(df)), ceiling=ceiling, granule=granule)
    ledger = run.ledger()
    judged = [tally for key_us, tally in ledger.by_key().items() if key_us < END_US]

    assert {(report.contradiction, report.operator) for report in run.reports} == {(None, case.operator)}
    assert ledger.completeness().rows == run.pairs(case)
    assert ledger.completeness().exact
    assert 0 < sum(tally.rows - tally.late_min for tally in judged) == len(run.came)
    assert sum(tally.late_min for tally in judged) > 0


def test_a_batch_of_which_no_row_reaches_the_operator_is_a_report_that_the_controller_takes(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Its rows have moved the watermark all the same, so their times are in it."""
    batches = _mixed()
    batches.insert(2, [Row(HEARTBEATS - 1, 0, EPOCH_US), Row(HEARTBEATS - 1, 1, EPOCH_US + SECOND_US)])
    run = _Run(spark, tmp_path, batches)
    # Above the watermark node, since it names the event time.
    run.run(lambda df: _windows(df.where(f"id != {HEARTBEATS - 1} or ts is null")))
    assert 0 in [report.rows for report in run.reports if report.max_event_time_us is not None]
    for report in run.reports:
        check_report(report, report.job, report.stream)


# -- what cannot be followed ----------------------------------------------------------------------------------


def _mapped(df: DataFrame) -> DataFrame:
    return df.mapInPandas(lambda frames: frames, df.schema)


@pytest.fixture
def observing(spark: SparkSession) -> Iterator[None]:
    """Let Spark observe what is counted."""
    spark.conf.set(TAP_KEY, "observe")
    yield
    spark.conf.unset(TAP_KEY)


@pytest.mark.long
@pytest.mark.versions
@pytest.mark.parametrize("behind", [_clicks, _exploded, _named("inner")], ids=["filter", "explode", "join"])
@pytest.mark.usefixtures("observing")
def test_where_spark_observes_the_rows_a_change_of_them_is_judged_before_the_call_and_said_behind_it(
    spark: SparkSession, tmp_path: Path, behind: Query
) -> None:
    before = _Run(spark, tmp_path / "before", _mixed())
    before.run(_windows, before=behind)
    after = _Run(spark, tmp_path / "behind", _mixed())
    after.run(lambda df: _windows(behind(df)))

    assert before.ledger().completeness().exact
    assert before.ledger().completeness().rows == before.pairs(_Case(behind))
    assert before.came == after.came
    _assert_unjudged(
        after, "behind the watermark drops or multiplies rows before they reach the query's operator"
    )


@pytest.mark.versions
@pytest.mark.parametrize("declared", [[], [FIVE]], ids=["read from the plan", "declared"])
def test_rows_that_go_through_a_function_in_python_are_not_judged_and_the_reason_is_said_at_the_start(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture, declared: list[Operator]
) -> None:
    run = _Run(spark, tmp_path, _clicks_and_heartbeats())
    with caplog.at_level(logging.ERROR, "tidemark.spark"):
        run.run(lambda df: _windows(_mapped(_clicks(df))), *declared)

    _assert_unjudged(run, "mapInPandas behind the watermark")
    assert "put it before the watermark; its rows are not judged and it is not steered" in caplog.text


def test_rows_of_which_a_filter_drops_some_sliding_windows_are_not_judged(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Spark's own filter above these windows looks like it, and drops only those that a time is not in."""
    run = _Run(spark, tmp_path, _clicks_and_heartbeats())
    from_us = EPOCH_US + 16 * SECOND_US

    def later_windows(df: DataFrame) -> DataFrame:
        windows = df.withColumn("w", F.window("ts", "10 seconds", "4 seconds"))
        return _ids(windows.where(F.col("w.start") >= F.timestamp_micros(F.lit(from_us))), "w")

    run.run(later_windows)
    _assert_unjudged(run, "a filter behind the watermark drops or multiplies rows")


def _assert_unjudged(run: _Run, why: str) -> None:
    ledger = run.ledger().completeness()

    assert ledger.rows == 0
    assert ledger.unjudged_rows == sum(report.rows for report in run.reports) > 0
    assert all(why in str(report.contradiction) for report in run.reports if report.rows)


def test_a_batch_whose_newest_event_time_is_not_spark_s_is_not_judged_and_says_so(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As by a Spark in whose plans the counter stays where it was, and nobody sees it."""
    monkeypatch.setattr(counting, "place_counters", lambda *_: None)
    monkeypatch.setattr(query_plan, "changed_unseen", lambda *_: None)
    experimental: Any = spark._jsparkSession.experimental()
    getattr(experimental, "extraOptimizations_$eq")(experimental.extraOptimizations().take(0))
    run = _Run(spark, tmp_path, _clicks_and_heartbeats())
    run.run(lambda df: _windows(_clicks(df)))

    _assert_unjudged(run, "Spark's newest event time of batch")
    assert "is 2026-01-01T00:01:15.000+00:00 and the tap's is 2026-01-01T00:01:29.000+00:00" in str(
        run.reports[0].contradiction
    )


@pytest.mark.parametrize("behind", [_clicks, _exploded], ids=["filter", "explode"])
def test_late_rows_are_not_kept_of_a_stream_whose_rows_change_behind_the_call(
    spark: SparkSession, tmp_path: Path, behind: Query
) -> None:
    """Rows would be kept that Spark never judged."""
    run = _Run(spark, tmp_path, _clicks_and_heartbeats())
    late = side(str(tmp_path / "late"), parse=lambda raw: raw.selectExpr(*EXTRA))
    with pytest.raises(StreamingQueryException, match=r"behind adaptive_watermark .*; put it into parse"):
        run.run(lambda df: _windows(behind(df)), late=late)

    assert run.came == []
