"""A query whose start the listener does not hear of, or cannot take: its plan is read with a batch after that."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tidemark.models.base.operators import tumbling
from tidemark.spark_jobs import flush
from tidemark.spark_jobs.core import listener
from tidemark.spark_jobs.core.connections import listener_of

from support.patience import PATIENCE_S
from support.spark_streams import Job, random_batches

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]

BATCHES = random_batches(35, 4)


def _job(spark: SparkSession, folder: Path, window: str = "5 seconds") -> Job:
    """Return a job whose operator only its plan tells."""
    return Job(spark, folder, tumbling(window), "update", stream=folder.name, declared=False)


def _judged(job: Job) -> dict[int, object]:
    """Return by batch with rows what was said of it: its operator, or why its rows are not judged."""
    return {
        report.batch_id: report.contradiction or report.operator
        for report in job.recorded.reports
        if report.rows
    }


@pytest.mark.versions
def test_a_query_with_job_tags_is_judged_by_its_plan(spark: SparkSession, tmp_path: Path) -> None:
    """PySpark's own listener fails on the event of its start. All queries of a Connect server have tags."""
    job = _job(spark, tmp_path)
    spark.sparkContext.addJobTag("nightly")
    try:
        job.run("3 seconds", [BATCHES])
    finally:
        spark.sparkContext.clearJobTags()

    assert list(_judged(job).values()) == [tumbling("5 seconds")] * len(BATCHES)


def test_a_query_that_ran_before_the_listener_came_is_judged_from_then_on(
    spark: SparkSession, tmp_path: Path
) -> None:
    job = _job(spark, tmp_path)
    late_listener = listener_of(spark)
    spark.streams.removeListener(late_listener)
    try:
        query = job.start("3 seconds")
        job.write(BATCHES[:2])
        query.processAllAvailable()
    finally:
        spark.streams.addListener(late_listener)
    missed = query.lastProgress
    assert missed is not None
    job.write(BATCHES[2:])
    query.processAllAvailable()
    query.stop()
    assert flush(PATIENCE_S)

    assert {batch: said for batch, said in _judged(job).items() if batch > missed.batchId}
    assert set(_judged(job).values()) == {tumbling("5 seconds")}
    assert all(report.late_watermark_ms is not None for report in job.recorded.reports)


def test_a_query_whose_start_could_not_be_taken_is_judged_all_the_same(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = _job(spark, tmp_path)

    def fails(*_: object) -> None:
        raise RuntimeError("out of order")

    with monkeypatch.context() as patched:
        patched.setattr(listener, "judge", fails)
        query = job.start("3 seconds")
    job.write(BATCHES)
    query.processAllAvailable()
    query.stop()
    assert flush(PATIENCE_S)

    assert list(_judged(job).values()) == [tumbling("5 seconds")] * len(BATCHES)


def test_a_query_met_in_mid_life_that_should_not_run_goes_on_unjudged_and_without_an_error_of_its_own(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Only a query that begins can be ended before it has read a row."""
    job = _job(spark, tmp_path, "1500 milliseconds")
    with monkeypatch.context() as patched:
        patched.setattr(listener.TidemarkListener, "onQueryStarted", lambda *_: None)
        query = job.start("3 seconds")
    job.write(BATCHES)
    query.processAllAvailable()
    error = query.exception()
    query.stop()
    assert flush(PATIENCE_S)

    assert error is None
    assert "should not run and cannot be stopped" in caplog.text
    assert all("does not divide" in str(said) for said in _judged(job).values())
