"""A stream that comes to Live from another mode begins with what its earlier reports show, on real Spark."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tidemark.models.live.learned import Learned, unpacked
from tidemark.spark_jobs import flush
from tidemark.spark_jobs.core import connections
from tidemark.spark_jobs.demo.controller_process import ControllerProcess
from tidemark.spark_jobs.live import learned as learned_files
from tidemark.spark_jobs.live.learned import file_of
from tidemark.spark_jobs.live.live_plan import live_of

from support.live_faults import LiveJob, files, until
from support.patience import PATIENCE_S
from support.policies import at_once
from support.spark_streams import Row, write_batch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.long]

JOB, STREAM = "tidemark-tests", "history"
BATCHES, ROWS = 15, 20


@pytest.fixture
def controller(tmp_path: Path) -> Iterator[ControllerProcess]:
    (tmp_path / "controller").mkdir()
    process = ControllerProcess(tmp_path / "controller", JOB, STREAM)
    process.wait_until_ready()
    yield process
    process.stop()


@pytest.fixture
def job(spark: SparkSession, tmp_path: Path, controller: ControllerProcess) -> LiveJob:
    given = {"stream": STREAM, "controller_url": controller.url, "mode": "Off", "sink": None}
    return LiveJob(spark, tmp_path / "job", files(spark, tmp_path / "job" / "in"), given=given)


def learned_of(job: LiveJob, query: StreamingQuery) -> Learned | None:
    return live_of(connections.listener_of(job.spark)).queries.learned(str(query.runId)).get(STREAM)


def run_until(
    job: LiveJob, done: Callable[[StreamingQuery], bool], interval: str = "300 milliseconds"
) -> None:
    """Run the query over rows that are as old as their file until ``done``."""
    folder, query = job.folder / "in", job.start(interval)

    def batch() -> bool:
        now_us, number = time.time_ns() // 1_000, len(list(folder.iterdir()))
        rows = [Row(100 * number + k, k % 2, now_us - 200_000 * k) for k in range(ROWS)]
        write_batch(folder, number, rows)
        query.processAllAvailable()
        return done(query)

    try:
        until(batch, query)
    finally:
        query.stop()
        assert flush(PATIENCE_S)


def pairs_of(learned: Learned | None) -> int:
    return 0 if learned is None else int(learned.arrays["rules.pairs"])


def test_a_stream_begins_live_and_a_new_target_with_what_its_earlier_reports_show(
    job: LiveJob, controller: ControllerProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(learned_files, "_LOOK_SECONDS", 0.1)
    controller.put("policy", at_once())
    controller.put("slo", {"target_ppm": 990_000})
    batches = 0

    def enough(query: StreamingQuery) -> bool:
        nonlocal batches
        batches += 1
        assert learned_of(job, query) is None, "nothing is steered, so nothing is learned"
        return batches == BATCHES

    run_until(job, enough)
    assert not (job.checkpoint / file_of(STREAM)).exists()

    controller.put("policy", {"mode": "Live"})
    own, target_ppm = 0, 990_000

    def knows_more_than_its_own(query: StreamingQuery) -> bool:
        nonlocal own
        own += ROWS
        learned = learned_of(job, query)
        # Until the driver hears of a new target, what it has learned is of the one before.
        return learned is not None and learned.target_ppm == target_ppm and pairs_of(learned) > own

    run_until(job, knows_more_than_its_own)
    first = unpacked((job.checkpoint / file_of(STREAM)).read_bytes())
    assert (first.target_ppm, first.partitions) == (990_000, ("0", "1"))

    own, target_ppm = 0, 900_000
    controller.put("slo", {"target_ppm": target_ppm})
    run_until(job, knows_more_than_its_own)
    second = unpacked((job.checkpoint / file_of(STREAM)).read_bytes())
    assert second.target_ppm == 900_000
    assert pairs_of(second) > own
