"""A call that the plan of a query contradicts: the query ends before it has read a row, and says what to write."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemark.models.base.operators import Operator, RowLevel, call_for, row_level, session, sliding, tumbling
from tidemark.models.evidence.ledger import judge
from tidemark.models.protocol.messages import Mode
from tidemark.spark_jobs import adaptive_watermark, flush
from tidemark.spark_jobs.spark.running_query import RunningQuery

from support.live_operators import windows
from support.live_streams import SECOND_US, Batches, Input, LiveJob
from support.patience import PATIENCE_S
from support.spark_streams import EPOCH_US, SCHEMA, RecordingSink, Row, write_batch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.mark.parametrize(
    "operator",
    [
        tumbling("1 m"),
        tumbling("1 d", "22 h"),
        tumbling("1 m", "1500 us"),
        sliding("10 s", "4 s"),
        session("3 s"),
        session("61.0005 s"),
        row_level(),
    ],
)
def test_the_call_that_is_to_be_written_declares_the_operator(operator: Operator) -> None:
    known = {"tumbling": tumbling, "sliding": sliding, "session": session, "row_level": row_level}

    assert eval(call_for(operator), known) == operator


# -- queries that must not run --------------------------------------------------------------------------------


def _seconds(*batches: tuple[int, ...]) -> Batches:
    """Return rows at so many seconds, each with its second as its id."""
    return [[Row(at, 0, EPOCH_US + at * SECOND_US) for at in batch] for batch in batches]


WRONG = (
    "the call declares a tumbling window of 60 s, but the query has a tumbling window of 5 s; write tumbling"
)


def _input(operator: Operator, ceiling: str | None = None) -> Input:
    return Input(name="in", operator=operator, bound="3 seconds", ceiling=ceiling)


@pytest.mark.parametrize(
    ("mode", "ceiling"),
    [pytest.param("Off", None, marks=pytest.mark.versions), ("Live", "10 minutes")],
)
def test_a_wrong_declaration_ends_the_query_before_a_row_is_read_and_error_and_log_say_what_to_write(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture, mode: Mode, ceiling: str | None
) -> None:
    job = LiveJob(spark, tmp_path, [_input(tumbling("1 minute"), ceiling)], windows("5 seconds"), mode=mode)
    job.publish([_seconds((100,), (200,))])
    with caplog.at_level(logging.ERROR, "tidemark.spark"):
        query = job.start()
        with pytest.raises(StreamingQueryException, match=WRONG):
            query.awaitTermination()

    assert 'write tumbling("5 s")' in str(query.exception())
    assert WRONG in caplog.text
    assert job.log() == []
    assert job.recorded["in"].reports == []


def test_from_the_checkpoint_of_a_query_with_a_wrong_declaration_the_right_one_loses_nothing(
    spark: SparkSession, tmp_path: Path
) -> None:
    """By windows of a minute the ledger would call two of these rows late; Spark drops four."""
    job = LiveJob(spark, tmp_path, [_input(tumbling("1 minute"))], windows("5 seconds"), mode="Off")
    job.publish([_seconds((100,), (200,), (10, 40, 70, 90, 150, 199), (300,))])
    with pytest.raises(StreamingQueryException, match=WRONG):
        job.start().awaitTermination()
    job.inputs = [_input(tumbling("5 s"))]
    job.run([[[]]])
    judged = [judge(report) for report in job.recorded["in"].reports]
    came = [identity for entries in job.output.values() for _, ids in entries for identity in ids]

    assert sum(each.total.rows for each in judged) == 9
    assert sum(each.total.late_min for each in judged) == 4
    assert {*came} == {100, 150, 199, 200}, "and 300 is in a window that is open"


@dataclass
class _Stream:
    """A stream of one file, in queries that may be of any form."""

    spark: SparkSession
    folder: Path
    sink: RecordingSink = field(default_factory=RecordingSink)

    def __post_init__(self) -> None:
        for number, rows in enumerate(_seconds((100,), (200,), (10, 199))):
            write_batch(self.folder / "in", number, rows)

    def run(self, query: Callable[[DataFrame], DataFrame], *call: Operator, **options: Any) -> None:
        """Run a query over the files; ``call`` and ``options`` are those of ``adaptive_watermark``."""
        read = (
            self.spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json(str(self.folder / "in"))
        )
        tapped = read.transform(adaptive_watermark("ts", "3 seconds", *call, sink=self.sink, **options))
        started = (
            query(tapped)
            .writeStream.format("noop")
            .outputMode("append" if query is _gap_by_row else "update")
            .option("checkpointLocation", str(self.folder / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        started.awaitTermination()
        assert flush(PATIENCE_S)


def _windows(size: str) -> Callable[[DataFrame], DataFrame]:
    return lambda df: df.groupBy(F.window("ts", size)).count()


def _gap_by_row(df: DataFrame) -> DataFrame:
    gap = F.when(F.col("id") > 5, "3 seconds").otherwise("9 seconds")
    return df.groupBy(F.session_window("ts", gap), "partition").count()


def _rolled_up(df: DataFrame) -> DataFrame:
    return df.rollup(F.window("ts", "5 seconds"), "id").count()


@pytest.mark.parametrize(
    ("query", "call", "message"),
    [
        (_gap_by_row, [session("3 s")], "depends on the row.*fixed gap, or write withWatermark"),
        (_gap_by_row, [], "depends on the row"),
        (_rolled_up, [], r"cannot be read from the plan: .*; declare it .* tumbling\(size\)"),
        (_windows("500 milliseconds"), [], r'by 1 s.*write tumbling\("500 ms"\) .* or granule="50 ms"'),
    ],
    ids=["a gap by row, declared", "a gap by row", "not recognised", "windows finer than a second"],
)
def test_a_query_whose_rows_cannot_be_judged_ends_before_its_first_batch_with_what_to_write(
    spark: SparkSession,
    tmp_path: Path,
    query: Callable[[DataFrame], DataFrame],
    call: list[Operator],
    message: str,
) -> None:
    stream = _Stream(spark, tmp_path)
    with pytest.raises(StreamingQueryException, match=message):
        stream.run(query, *call)

    assert stream.sink.reports == []


# -- queries that go on ---------------------------------------------------------------------------------------


def test_windows_finer_than_a_second_are_read_from_the_plan_with_a_granule_that_divides_them(
    spark: SparkSession, tmp_path: Path
) -> None:
    stream = _Stream(spark, tmp_path)
    stream.run(_windows("500 milliseconds"), granule="250 ms")

    assert {(report.operator, report.granule_us) for report in stream.sink.reports} == {
        (tumbling("500 ms"), 250_000)
    }


def test_a_declaration_is_trusted_where_the_plan_is_not_recognised_and_the_log_says_so(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    stream = _Stream(spark, tmp_path)
    with caplog.at_level(logging.WARNING, "tidemark.spark"):
        stream.run(_rolled_up, tumbling("5 s"))

    assert sum(judge(report).total.late_min for report in stream.sink.reports) == 1
    assert "the declared tumbling window of 5 s is trusted, since the plan does not show it" in caplog.text


@pytest.mark.parametrize(
    ("query", "call", "readable", "why"),
    [
        (
            lambda df: df.groupBy("id").count(),
            [tumbling("5 s")],
            True,
            "Spark drops no row by this stream's event time",
        ),
        (lambda df: df.groupBy("id").count(), [], True, "Spark drops no row by this stream's event time"),
        (_windows("5 seconds"), [], False, "the query's plan cannot be read"),
        (_windows("5 seconds"), [tumbling("5 s")], False, "it is not known which rows its operator gets"),
    ],
    ids=["nothing is late, declared", "nothing is late", "plan not readable", "plan not readable, declared"],
)
def test_a_query_goes_on_unjudged_where_nothing_can_be_late_or_spark_cannot_be_read(
    spark: SparkSession,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    query: Callable[[DataFrame], DataFrame],
    call: list[Operator],
    readable: bool,
    why: str,
) -> None:
    """The status shows the reason as a condition."""
    stream = _Stream(spark, tmp_path)
    if not readable:
        monkeypatch.setattr(RunningQuery, "plan", lambda _: None)
    with caplog.at_level(logging.INFO, "tidemark.spark"):
        stream.run(query, *call)
    reports = stream.sink.reports

    assert all(why in str(report.contradiction) for report in reports)
    assert (
        sum(judge(report).unjudged_rows for report in reports) == sum(report.rows for report in reports) == 4
    )
    assert {report.operator for report in reports} == {*call} or {type(r.operator) for r in reports} == {
        RowLevel
    }
    assert "its rows are not judged and it is not steered" in caplog.text


def test_a_query_that_should_not_run_and_cannot_be_stopped_is_neither_judged_nor_steered(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As by a Spark whose queries do not have the state that is set."""
    monkeypatch.setattr(RunningQuery, "fail", lambda *_: False)
    job = LiveJob(spark, tmp_path, [_input(tumbling("1 minute"), "10 minutes")], windows("5 minutes"))
    with caplog.at_level(logging.ERROR, "tidemark.spark"):
        job.run([[_seconds((0,), (70,), (80, 10, 20))]])
    reports, (acknowledged,) = job.recorded["in"].reports, job.recorded["in"].acknowledgements

    assert sum(judge(report).unjudged_rows for report in reports) == 5
    assert all('write tumbling("5 min")' in str(report.contradiction) for report in reports)
    assert "should not run and cannot be stopped" in caplog.text
    assert acknowledged.mode == "Off"
    assert job.moves() == []
