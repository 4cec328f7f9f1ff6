"""What Live does when something is gone: that which steers, the controller. The query goes on, on the safe side."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql.streaming.listener import StreamingQueryListener

from tidemark.spark_jobs import flush
from tidemark.spark_jobs.core import connections
from tidemark.spark_jobs.demo.controller_process import ControllerProcess
from tidemark.spark_jobs.live.live_plan import live_of

from support.faults import Survived
from support.live_faults import FaultyQueries, LiveJob, Logged, files, logged_batches, steady, until
from support.live_streams import work_off_all
from support.metrics import metric_at
from support.patience import PATIENCE_S
from support.spark_streams import write_batch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

pytestmark = [pytest.mark.spark, pytest.mark.slow]

BOUND_MS, CEILING_MS = 10_000, 100_000
TRAILING_MS = 60_000


@pytest.fixture
def steering(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Iterator[FaultyQueries]:
    """Return what decides for the session's queries, in the hands of the test."""
    queries = live_of(connections.listener_of(spark)).queries
    faulty = FaultyQueries(queries.requires)
    monkeypatch.setattr(queries, "requires", faulty)
    yield faulty
    faulty.speak()


@pytest.fixture
def job(spark: SparkSession, tmp_path: Path) -> LiveJob:
    """Return a job of two partitions, of which one trails by a minute, with a ceiling of 100 s."""
    return LiveJob(spark, tmp_path, files(spark, tmp_path / "in"), ceiling=f"{CEILING_MS} ms")


def _write(job: LiveJob, first: int, last: int) -> None:
    for number in range(first, last):
        write_batch(job.folder / "in", number, steady(number))


def _by_the_ceiling(job: LiveJob, first: int = 0) -> dict[int, int]:
    """Return the watermark of each batch from ``first`` on, as the ceiling alone has it."""
    newest_ms = {report.batch_id: (report.max_event_time_us or 0) // 1_000 for report in job.reports}
    result, reached_ms = {}, Logged.read(job.checkpoint, first).watermark_ms
    for batch in logged_batches(job.checkpoint)[first:]:
        result[batch] = reached_ms
        reached_ms = max(reached_ms, newest_ms.get(batch, 0) - CEILING_MS)
    return result


def _required_ms(job: LiveJob) -> int | None:
    """Return what is required by the newest batch that was reported."""
    live = job.reports[-1].live
    return None if live is None else live.control_ms


def _rows_lost(job: LiveJob) -> int:
    """Return how many rows of the windows that were closed are not in them."""
    kept, closed_us = set(job.kept()), max(end for emitted in job.output.values() for end, _ in emitted)
    rows = [row for number in range(1_000) for row in steady(number)]
    return sum(row.event_time_us < closed_us and row.id not in kept for row in rows)


@pytest.mark.soak
def test_a_query_that_nothing_steers_is_left_to_its_ceiling(job: LiveJob, steering: FaultyQueries) -> None:
    """It is one with the bound of the ceiling."""
    steering.die()
    _write(job, 0, 14)
    query = job.start()
    try:
        query.processAllAvailable()
    finally:
        query.stop()
        assert flush(PATIENCE_S)
    watermarks = job.watermarks_ms()
    newest_ms = max(row.event_time_us for row in steady(13)) // 1_000

    assert steering.asked == 0
    assert watermarks == _by_the_ceiling(job)
    assert watermarks[max(watermarks)] == newest_ms - CEILING_MS
    assert _rows_lost(job) == 0
    assert all(report.live is not None and report.live.control_ms is None for report in job.reports)


@pytest.mark.parametrize("fault", ["dies", pytest.param("falls silent", marks=pytest.mark.soak)])
def test_when_nothing_steers_any_more_the_query_goes_on_and_the_ceiling_takes_over(
    job: LiveJob, steering: FaultyQueries, fault: str
) -> None:
    """Nothing raises, nothing goes back, and the next watermark is what the ceiling allows."""
    query = job.start()
    try:
        _write(job, 0, 8)
        work_off_all(query)
        if fault == "dies":
            steering.die()
        else:
            steering.fall_silent()
        said, asked, last = _required_ms(job), steering.asked, logged_batches(job.checkpoint)[-1]
        _write(job, 8, 18)
        query.processAllAvailable()

        assert query.isActive
        assert asked > 0
        newest_ms = max(row.event_time_us for row in steady(17)) // 1_000
        until(
            lambda: (
                Logged.read(job.checkpoint, logged_batches(job.checkpoint)[-1]).watermark_ms
                >= newest_ms - CEILING_MS
            )
        )
        assert said is not None
        assert newest_ms - CEILING_MS > said
        by_the_ceiling = _by_the_ceiling(job, last + 1)

        if fault == "falls silent":
            steering.speak()
            _write(job, 18, 22)
            work_off_all(query)
            slowest_ms = newest_ms + 40_000 - TRAILING_MS
            assert slowest_ms - BOUND_MS - 20_000 < (_required_ms(job) or 0) <= slowest_ms - BOUND_MS
    finally:
        query.stop()
        assert flush(PATIENCE_S)
    watermarks = job.watermarks_ms()
    assert {batch: watermarks[batch] for batch in by_the_ceiling} == by_the_ceiling
    assert _rows_lost(job) == 0


class _Slow(StreamingQueryListener):
    """Holds Spark's listeners up, so that they are notified of batches long after these have ended."""

    def onQueryStarted(self, event: Any) -> None: ...  # noqa: N802 - Spark's name

    def onQueryProgress(self, event: Any) -> None:  # noqa: ARG002, N802 - Spark's name
        time.sleep(0.7)

    def onQueryIdle(self, event: Any) -> None: ...  # noqa: N802 - Spark's name

    def onQueryTerminated(self, event: Any) -> None: ...  # noqa: N802 - Spark's name


@pytest.mark.soak
def test_when_spark_notifies_late_of_its_batches_none_is_left_out(job: LiveJob, spark: SparkSession) -> None:
    slow = _Slow()
    spark.streams.addListener(slow)
    query = job.start()
    try:
        _write(job, 0, 10)
        work_off_all(query)
        moved_ms = _required_ms(job)
    finally:
        query.stop()
        body = flush(60)
        spark.streams.removeListener(slow)
    assert body
    assert moved_ms is not None
    assert sorted(job.watermarks_ms()) == logged_batches(job.checkpoint)
    assert _rows_lost(job) == 0


@pytest.fixture
def controller(tmp_path: Path) -> Iterator[ControllerProcess]:
    """Return a running controller."""
    (tmp_path / "controller").mkdir()
    process = ControllerProcess(tmp_path / "controller", "tidemark-tests", "faults")
    process.wait_until_ready()
    yield process
    process.stop()


@pytest.mark.soak
def test_a_controller_that_is_killed_leaves_its_envelope_in_force_and_loses_no_report(
    spark: SparkSession, tmp_path: Path, controller: ControllerProcess, survived: Survived
) -> None:
    """The fast part runs in the driver: an outage changes nothing but the age of the controller's last answer."""
    min_ms = 27_000
    controller.put("policy", {"mode": "Live", "min_bound_ms": min_ms})
    body = controller.get("bound")
    assert (body["mode"], body["envelope"]["min_bound_ms"]) == ("Live", min_ms)
    given = {"stream": "faults", "controller_url": controller.url, "mode": "Off", "sink": None}
    job = LiveJob(spark, tmp_path / "job", files(spark, tmp_path / "job" / "in"), given=given)
    query, back = job.start(), controller
    try:
        _write(job, 0, 6)
        work_off_all(query)
        until(lambda: _covers(controller, query), query)
        controller.kill()

        _write(job, 6, 16)
        work_off_all(query)
        assert query.isActive
        _check_behind(job, 15, min_ms)
        query.stop()

        # Started again while nobody answers: the last answer is on disk.
        query = job.start()
        _write(job, 16, 20)
        work_off_all(query)
        _check_behind(job, 19, min_ms)

        back = ControllerProcess(tmp_path / "controller", "tidemark-tests", "faults", controller.port)
        back.wait_until_ready()
        until(lambda: _covers(back, query), query)
        status = back.get()
        missing = [gap for covered in status["coverage"] for gap in covered["missing"]]
        survived(
            "a controller is killed",
            times=1,
            rows=sum(len(steady(number)) for number in range(20)),
            lost=_rows_lost(job),
            verdicts=len(logged_batches(job.checkpoint)),
            wrong=len(missing),
        )
        assert missing == []
        assert status["completeness"]["exact"] is True
        assert metric_at(back.url, "tidemark_dropped_reports") == 0
    finally:
        query.stop()
        assert flush(60)
        if back is not controller:
            back.stop()
    assert _rows_lost(job) == 0


def _check_behind(job: LiveJob, newest: int, min_ms: int) -> None:
    """Check that the distance that the envelope asks for is kept, to the window."""
    slowest_ms = max(row.event_time_us for row in steady(newest) if row.partition == 1) // 1_000
    reached_ms = Logged.read(job.checkpoint, logged_batches(job.checkpoint)[-1]).watermark_ms
    assert slowest_ms - min_ms - 20_000 < reached_ms <= slowest_ms - min_ms


def _covers(controller: ControllerProcess, query: StreamingQuery) -> bool:
    """Whether the newest batch with rows has been reported."""
    last = max(progress.batchId for progress in query.recentProgress if progress.numInputRows)
    coverage = controller.get()["coverage"]
    return bool(coverage) and coverage[0]["last"] >= last
