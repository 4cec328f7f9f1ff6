"""The whole loop in mode Restart: report, estimate, recommend, restart between batches, acknowledge."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tidemark.models.base.operators import tumbling
from tidemark.spark_jobs import AdaptiveQuery, flush
from tidemark.spark_jobs.demo.controller_process import ControllerProcess
from tidemark.spark_jobs.restart.runner import Parts

from support.patience import PATIENCE_S, until
from support.policies import at_once
from support.spark_streams import EPOCH_US, Job, Row

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def _batch(number: int) -> list[Row]:
    """Return a batch of a second whose rows are up to 9 s late."""
    start_us = EPOCH_US + 3_600_000_000 + number * 1_000_000
    return [Row(number * 1_000 + n, n % 4, start_us - n % 10 * 1_000_000 + n) for n in range(40)]


@pytest.mark.soak
def test_a_running_job_takes_what_is_recommended_between_two_batches(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Nobody restarts it by hand, and the controller hears of it at the first batch."""
    (tmp_path / "controller").mkdir()
    controller = ControllerProcess(tmp_path / "controller", "tidemark-tests", "restart-loop")
    spark.conf.set("spark.tidemark.watch.seconds", "2")
    controller.wait_until_ready()
    job = Job(
        spark,
        tmp_path / "job",
        tumbling("5 seconds"),
        "update",
        stream="restart-loop",
        controller_url=controller.url,
    )
    job.write(_batch(number) for number in range(12))
    runner = AdaptiveQuery(lambda: job.start("0 seconds"), cooldown_s=0.0, parts=Parts(poll_s=0.1))
    codes: list[int] = []
    thread = threading.Thread(target=lambda: codes.append(runner.run()), daemon=True)
    thread.start()
    try:
        until(lambda: len(job.output) >= 12 or codes, "twelve batches")
        controller.put("slo", {"target_ppm": 900_000})
        until(
            lambda: (controller.get().get("recommended") or {}).get("current"),
            "a decision",
            seen=controller.get,
        )
        first = runner.query
        controller.put("policy", at_once("Restart"))
        until(lambda: runner.query is not first or codes, "a restart", seen=controller.get)
        job.write(_batch(number) for number in range(12, 16))
        until(
            lambda: controller.get()["applied"]["source"] == "controller",
            "an acknowledgement",
            seen=controller.get,
        )
        status = controller.get()

        assert status["applied"]["bound_ms"] == controller.get("bound")["bound_ms"] > 0
        assert status["coverage"][0]["missing"] == []
    finally:
        runner.stop()
        thread.join(PATIENCE_S)
        spark.conf.unset("spark.tidemark.watch.seconds")
        flush(PATIENCE_S)
        controller.stop()
    assert codes == [0]
