"""A tripwire on what Tidemark reads of Spark beyond its public Python API, so that an upgrade fails here first."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tidemark.models.base.operators import tumbling
from tidemark.spark_jobs.spark.running_query import RunningQuery

from support.spark_streams import Job, random_batches

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def test_the_logged_watermark_is_the_one_in_the_checkpoint_even_after_the_query_has_ended(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The first batch after a restart is judged by it, and nothing else has it."""
    job = Job(spark, tmp_path, tumbling("5 seconds"), "update")
    query = job.start("1 second")
    handle = RunningQuery(spark, str(query.id))
    job.write(random_batches(1, 3))
    query.processAllAvailable()
    query.stop()
    offsets = tmp_path / "checkpoint" / "offsets"
    logged = {
        int(path.name): json.loads(path.read_text().splitlines()[1])["batchWatermarkMs"]
        for path in offsets.iterdir()
        if path.name.isdigit()
    }

    assert len(logged) >= 4
    assert logged == {batch: handle.logged_watermark_ms(batch) for batch in logged}
    assert handle.logged_watermark_ms(max(logged) + 1) is None
    assert handle.output_mode() == "update"
    assert handle.metric_registry() is None, (
        "Spark would keep what is added to the metrics of a query that has ended"
    )


def test_a_query_that_is_not_there_is_unknown_and_not_an_error(spark: SparkSession) -> None:
    """A listener may be notified of a query that has ended meanwhile."""
    handle = RunningQuery(spark, "00000000-0000-0000-0000-000000000000")

    assert handle.output_mode() is None
    assert handle.logged_watermark_ms(0) is None
    assert handle.metric_registry() is None


def test_the_first_batch_after_a_restart_is_judged_by_the_watermark_logged_before_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    """A new driver has seen no batch; the checkpoint has."""
    job = Job(spark, tmp_path, tumbling("5 seconds"), "update")
    batches = random_batches(2, 4)
    job.run("1 second", [batches[:2]])
    job.run("9 seconds", [batches[2:]])
    reports = job.recorded.reports
    first = next(report for report in reports if report.run_id != reports[0].run_id)
    before = next(report for report in reports if report.batch_id == first.batch_id - 1)

    assert first.late_watermark_ms == before.watermark_ms
    assert first.late_base_ms is None
