"""The whole loop: a real Spark query, a real controller in a process of its own, and what happens when it is away."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tidemark.models.base.operators import tumbling
from tidemark.spark_jobs import flush
from tidemark.spark_jobs.demo.controller_process import ControllerProcess

from support.metrics import metric_at
from support.patience import PATIENCE_S, until
from support.policies import at_once
from support.spark_streams import EPOCH_US, Job, Row, random_batches

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.fixture
def controller(tmp_path: Path) -> Iterator[ControllerProcess]:
    """Return a running controller."""
    (tmp_path / "controller").mkdir()
    process = ControllerProcess(tmp_path / "controller", "tidemark-tests", "loop")
    process.wait_until_ready()
    yield process
    process.stop()


def _job(spark: SparkSession, folder: Path, controller: ControllerProcess) -> Job:
    return Job(spark, folder, tumbling("5 seconds"), "update", stream="loop", controller_url=controller.url)


def _steady(batches: int, first: int = 0, rows: int = 40) -> list[list[Row]]:
    """Return batches of a second each whose rows are up to 9 s late."""
    return [
        [
            Row(
                batch * 1_000 + n,
                n % 4,
                EPOCH_US + 3_600_000_000 + batch * 1_000_000 - n % 10 * 1_000_000 + n,
            )
            for n in range(rows)
        ]
        for batch in range(first, first + batches)
    ]


def _decided(controller: ControllerProcess) -> dict[str, Any]:
    """Return the recommendation once it rests on every report."""
    until(
        lambda: (controller.get().get("recommended") or {}).get("current"), "a decision", seen=controller.get
    )
    recommended: dict[str, Any] = controller.get()["recommended"]
    return recommended


def _wait_for_last_batch(controller: ControllerProcess, query: StreamingQuery) -> dict[str, Any]:
    """Return the status once the newest batch with rows has been reported."""
    last = max(progress.batchId for progress in query.recentProgress if progress.numInputRows)
    until(
        lambda: controller.get()["coverage"][0]["last"] >= last,
        f"the report of batch {last}",
        seen=controller.get,
    )
    return controller.get()


@pytest.mark.soak
def test_a_job_takes_the_recommended_bound_at_its_next_start_and_says_so(
    spark: SparkSession, tmp_path: Path, controller: ControllerProcess, capfd: pytest.CaptureFixture[str]
) -> None:
    """Report, estimate, recommend, apply, acknowledge: the loop of DESIGN section 3, on real parts."""
    job = _job(spark, tmp_path / "job", controller)
    job.run("0 seconds", [_steady(6)])
    status = controller.get()
    assert status["mode"] == "Off", "a stream's first report registers it in mode Off"
    assert status["applied"]["source"] == "job"

    controller.put("slo", {"target_ppm": 900_000})
    job.run("0 seconds", [_steady(14, 6)])
    status = controller.get()
    assert status["applied"]["bound_ms"] == 0, "in mode Off the job keeps its own bound"
    bound = _decided(controller)["bound_ms"]
    assert bound > 0

    controller.put("policy", at_once())
    assert controller.get("bound")["bound_ms"] == bound
    job.run("0 seconds", [_steady(4, 20)])
    status = controller.get()
    said = capfd.readouterr().err

    assert (status["applied"]["bound_ms"], status["applied"]["source"]) == (bound, "controller")
    assert f"source=controller generation={status['applied']['generation']} mode=OnRestart" in said
    assert controller.url in said
    assert status["coverage"][0]["missing"] == []


@pytest.mark.long
def test_while_the_controller_is_away_for_20_batches_the_query_goes_on_and_the_ledger_shows_the_exact_gap(
    spark: SparkSession, tmp_path: Path, controller: ControllerProcess
) -> None:
    """Killed, not stopped: nothing it had acknowledged may be lost, nothing it missed may look complete."""
    spark.conf.set("spark.tidemark.queue.reports", "10")
    try:
        job = _job(spark, tmp_path / "job", controller)
        query = job.start("20 seconds")
    finally:
        spark.conf.unset("spark.tidemark.queue.reports")
    back = controller
    try:
        job.write(random_batches(1, 3))
        query.processAllAvailable()
        until(
            lambda: (controller.get().get("evidence") or {}).get("batches", 0) >= 4,
            "four reports",
            seen=controller.get,
        )
        before = controller.get()["evidence"]["batches"]
        controller.kill()

        job.write(_steady(20, 10_000, rows=3))
        query.processAllAvailable()
        assert query.isActive
        back = ControllerProcess(tmp_path / "controller", "tidemark-tests", "loop", controller.port)
        back.wait_until_ready()
        job.write(_steady(2, 10_100, rows=3))
        query.processAllAvailable()
        _wait_for_last_batch(back, query)
        # A report counts what was dropped before it was queued, so the next one has the whole number.
        job.write(_steady(1, 10_200, rows=3))
        query.processAllAvailable()
        status = _wait_for_last_batch(back, query)
        coverage = status["coverage"][0]
        missing = {batch for gap in coverage["missing"] for batch in range(gap["first"], gap["last"] + 1)}
        dropped = metric_at(back.url, "tidemark_dropped_reports")

        assert coverage["last"] - coverage["first"] + 1 == status["evidence"]["batches"] + len(missing)
        assert len(missing) == dropped
        assert 5 <= len(missing) <= 20, "20 batches and a queue of 10"
        assert min(missing) >= before
        assert status["completeness"]["missing_batches"] == len(missing)
        assert status["completeness"]["exact"] is False
    finally:
        query.stop()
        assert flush(PATIENCE_S), "what is left in the driver would wait for a controller that is gone"
        if back is not controller:
            back.stop()
