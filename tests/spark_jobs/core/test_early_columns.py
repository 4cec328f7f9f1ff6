"""Early results of real queries, with how complete their windows are."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cache, reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemark.spark_jobs import adaptive_watermark, commit_properties, flush, with_completeness
from tidemark.spark_jobs.core import early_results
from tidemark.spark_jobs.core.connections import Connection
from tidemark.spark_jobs.core.early_results import COLUMNS, WindowAnswers

from support.patience import PATIENCE_S, until
from support.report_server import ReportServer
from support.spark_streams import EPOCH_US, SCHEMA, Row, write_batch
from support.window_answers import WINDOW

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

pytestmark = [pytest.mark.spark, pytest.mark.slow]

SECOND = 1_000_000
SAID = (0.915268, 0.856357, 1_192, False)
UNKNOWN = (None, None, None, None)
TYPES = ["double", "double", "bigint", "boolean"]


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> list[WindowAnswers]:
    """Return what is known of the windows of each stream that is asked about, with a question after each report."""
    made: list[WindowAnswers] = []

    @cache
    def make(connection: Connection, job: str, stream: str) -> WindowAnswers:
        made.append(WindowAnswers(connection, job, stream))
        return made[-1]

    monkeypatch.setattr(early_results, "_REST", 0)
    monkeypatch.setattr(early_results, "_answers_of", make)
    return made


@dataclass
class EarlyJob:
    """A query in update mode over a folder of batches, and what its function sees."""

    spark: SparkSession
    folder: Path
    url: str | None
    grouped: Callable[[DataFrame], DataFrame] = lambda rows: rows.groupBy(F.window("ts", "1 minute")).count()
    early: Callable[[DataFrame], DataFrame] = with_completeness
    seen: list[DataFrame] = field(default_factory=list)
    said: list[dict[int, tuple[Any, ...]]] = field(default_factory=list)
    query: StreamingQuery | None = None

    def start(self, *names: str) -> None:
        """Start it over streams of these names, or of one."""
        (self.folder / "in").mkdir(parents=True, exist_ok=True)
        inputs = [
            self.spark.readStream.schema(SCHEMA)
            .json(str(self.folder / "in"))
            .transform(
                adaptive_watermark(
                    "ts", "10 minutes", stream=name, job=self.folder.name, controller_url=self.url
                )
            )
            for name in names or ("clicks",)
        ]
        counts = self.grouped(reduce(DataFrame.unionAll, inputs))
        writer = counts.writeStream.outputMode("update").foreachBatch(self._write)
        self.query = writer.option("checkpointLocation", str(self.folder / "checkpoint")).start()

    def batch(self, number: int, *seconds: int) -> dict[int, tuple[Any, ...]]:
        """Run a batch with rows of these times; return by the ends of its windows, in seconds, what is said of them."""
        rows = [Row(number * 100 + n, 0, EPOCH_US + at * SECOND) for n, at in enumerate(seconds)]
        write_batch(self.folder / "in", number, rows)
        assert self.query is not None
        self.query.processAllAvailable()
        return next(said for said in reversed(self.said) if said)

    def _write(self, df: DataFrame, _: int) -> None:
        early = self.early(df)
        self.seen.append(early)
        end_us = F.unix_micros("window.end" if "window" in early.columns else "end").alias("end_us")
        rows = early.select(end_us, *COLUMNS).collect()
        self.said.append({(end_us - EPOCH_US) // SECOND: tuple(values) for end_us, *values in rows})


@pytest.fixture
def job(spark: SparkSession, tmp_path: Path) -> Iterator[EarlyJob]:
    """Return a job whose controller says something of the window that ends at the first minute."""
    with ReportServer() as server:
        server.windows = [replace(WINDOW, end_us=EPOCH_US + 60 * SECOND)]
        made = EarlyJob(spark, tmp_path, server.url)
        yield made
        if made.query is not None:
            made.query.stop()
        assert flush(PATIENCE_S)


def _wait_for(answers: list[WindowAnswers]) -> None:
    until(lambda: answers and answers[-1].newest, "an answer about the windows")


def test_a_window_has_what_the_controller_says_and_one_that_is_not_known_has_nulls(
    job: EarlyJob, answers: list[WindowAnswers]
) -> None:
    job.start()
    assert job.batch(0, 5, 65) == {60: UNKNOWN, 120: UNKNOWN}
    _wait_for(answers)
    assert job.batch(1, 6, 66) == {60: SAID, 120: UNKNOWN}
    assert [dict(frame.dtypes)[name] for frame in job.seen for name in COLUMNS] == TYPES * len(job.seen)
    assert all(field.nullable for frame in job.seen for field in frame.schema if field.name in COLUMNS)


def test_what_is_said_is_a_part_of_the_plan_and_no_join(job: EarlyJob, answers: list[WindowAnswers]) -> None:
    job.start()
    job.batch(0, 5)
    _wait_for(answers)
    job.batch(1, 6)
    plan = str(job.seen[-1]._jdf.queryExecution().optimizedPlan().toString())
    assert f"map(keys: [{EPOCH_US + 60 * SECOND}]" in plan
    assert "Join" not in plan


def test_the_column_may_be_the_windows_end(job: EarlyJob, answers: list[WindowAnswers]) -> None:
    grouped = job.grouped
    job.grouped = lambda rows: grouped(rows).select(F.col("window.end").alias("end"), "count")
    job.early = lambda df: with_completeness(df, "end")
    job.start()
    job.batch(0, 5)
    _wait_for(answers)
    assert job.batch(1, 6) == {60: SAID}


def test_each_sliding_window_has_its_own(job: EarlyJob, answers: list[WindowAnswers]) -> None:
    job.grouped = lambda rows: rows.groupBy(F.window("ts", "1 minute", "30 seconds")).count()
    job.start()
    job.batch(0, 5)
    _wait_for(answers)
    assert job.batch(1, 6) == {30: UNKNOWN, 60: SAID}


def test_a_window_of_another_length_is_none_of_the_streams(
    job: EarlyJob, answers: list[WindowAnswers]
) -> None:
    longer = F.struct((F.col("window.start") - F.expr("interval 1 minute")).alias("start"), "window.end")
    job.early = lambda df: with_completeness(df.withColumn("window", longer))
    job.start()
    job.batch(0, 5)
    _wait_for(answers)
    assert job.batch(1, 6) == {60: UNKNOWN}


def test_of_several_streams_one_is_named(job: EarlyJob, answers: list[WindowAnswers]) -> None:
    job.early = lambda df: with_completeness(df, stream="views")
    job.start("clicks", "views")
    job.batch(0, 5)
    _wait_for(answers)
    assert job.batch(1, 6) == {60: SAID}


def test_with_several_streams_and_no_name_the_query_ends_with_what_to_write(job: EarlyJob) -> None:
    job.start("clicks", "views")
    with pytest.raises(StreamingQueryException, match=r"stream=: the query has clicks, views"):
        job.batch(0, 5)


def test_an_operator_without_windows_of_fixed_ends_ends_the_query_with_the_reason(job: EarlyJob) -> None:
    job.grouped = lambda rows: rows.dropDuplicatesWithinWatermark(["id"])
    job.early = lambda df: with_completeness(df, "ts")
    job.start()
    with pytest.raises(StreamingQueryException, match=r"windows of fixed ends .* the query has a row-level"):
        job.batch(0, 5)


def test_a_batch_that_comes_again_in_another_run_has_the_columns_too(
    job: EarlyJob, answers: list[WindowAnswers]
) -> None:
    job.start()
    job.batch(0, 5)
    _wait_for(answers)
    early, job.early = job.early, lambda _: 1 / 0  # type: ignore[assignment,return-value]
    with pytest.raises(StreamingQueryException):
        job.batch(1, 6)
    job.early = early
    job.start()
    assert job.query is not None
    job.query.processAllAvailable()
    assert next(said for said in reversed(job.said) if said) == {60: SAID}


def test_without_a_controller_the_columns_are_null_and_a_commit_says_nothing(
    spark: SparkSession, tmp_path: Path
) -> None:
    said: list[dict[str, str]] = []

    def early(df: DataFrame) -> DataFrame:
        both = with_completeness(df)
        said.append(commit_properties(both))
        return both

    job = EarlyJob(spark, tmp_path, None, early=early)
    job.start()
    assert job.batch(0, 5) == {60: UNKNOWN}
    assert job.query is not None
    job.query.stop()
    assert said[0] == {}
    batch = spark.sql("select window(timestamp'2026-01-01', '1 minute') as window")
    assert with_completeness(batch).select(*COLUMNS).collect() == [UNKNOWN]
    assert commit_properties(batch) == {}


def test_a_commit_says_the_windows_of_its_batch_and_no_others(
    job: EarlyJob, answers: list[WindowAnswers]
) -> None:
    said: list[dict[str, str]] = []

    def early(df: DataFrame) -> DataFrame:
        both = with_completeness(df).persist()
        said.append(commit_properties(both))
        return both

    job.early = early
    job.start()
    job.batch(0, 5, 65, 125)
    _wait_for(answers)
    job.batch(1, 6, 66)
    found = [json.loads(options["snapshot-property.tidemark"]) for options in said if options]
    first, second = [commit for commit in found if commit["windows"]]
    assert (second["job"], second["stream"]) == (job.folder.name, "clicks")
    assert [window["end"] for window in first["windows"]] == [f"2026-01-01T00:0{n}:00Z" for n in (3, 2, 1)]
    assert second["windows"] == [
        {"end": "2026-01-01T00:02:00Z", **dict.fromkeys(COLUMNS)},
        {"end": "2026-01-01T00:01:00Z", **dict(zip(COLUMNS, SAID, strict=True))},
    ]


def test_a_batch_that_is_not_persisted_ends_the_query_rather_than_be_computed_twice(job: EarlyJob) -> None:
    def early(df: DataFrame) -> DataFrame:
        commit_properties(with_completeness(df))
        return df

    job.early = early
    job.start()
    with pytest.raises(StreamingQueryException, match=r"write with_completeness\(df\).persist\(\)"):
        job.batch(0, 5)


@pytest.mark.parametrize(
    ("columns", "window", "match"),
    [
        ("window(timestamp'2026-01-01', '1 minute') as window, 1 as Share", "window", "'share' of its own"),
        ("'2026-01-01' as end", "end", "'end' is no window"),
        ("struct(1 as a) as window", "window", "'window' is no window"),
    ],
)
def test_a_batch_without_a_window_or_with_a_column_of_the_name_is_refused(
    spark: SparkSession, columns: str, window: str, match: str
) -> None:
    with pytest.raises(ValueError, match=match):
        with_completeness(spark.sql(f"select {columns}"), window)
