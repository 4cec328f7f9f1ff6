"""What Live does when something is gone: the control stream, the controller. The query goes on, on the safe side."""

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

from support.live_faults import FaultyAnswers, LiveJob, Logged, files, logged_batches, steady, until
from support.patience import PATIENCE_S
from support.spark_streams import write_batch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

pytestmark = [pytest.mark.spark, pytest.mark.slow]

BOUND_MS, CEILING_MS = 10_000, 100_000
TRAILING_MS = 60_000


@pytest.fixture
def answers(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Iterator[FaultyAnswers]:
    """Return what the control sources of the session ask, in the hands of the test."""
    live = live_of(connections.listener_of(spark))
    answers = FaultyAnswers(live.control)
    monkeypatch.setattr(live, "answers", answers)
    yield answers
    answers.speak()


@pytest.fixture
def job(spark: SparkSession, tmp_path: Path) -> LiveJob:
    """Return a job of two partitions, of which one trails by a minute, with a ceiling of 100 s."""
    return LiveJob(spark, tmp_path, files(spark, tmp_path / "in"), ceiling=f"{CEILING_MS} ms")


def _write(job: LiveJob, first: int, last: int) -> None:
    for number in range(first, last):
        write_batch(job.folder / "in", number, steady(number))


def _by_spark(job: LiveJob) -> dict[int, int]:
    """Return the watermark of each batch by Spark's rule, of what the ceiling and the control in the log allow."""
    batches = logged_batches(job.checkpoint)
    newest_ms = {report.batch_id: (report.max_event_time_us or 0) // 1_000 for report in job.reports}
    result, reached_ms = {}, 0
    for batch in batches:
        result[batch] = reached_ms
        control_ms = Logged.read(job.checkpoint, batch).control["watermark_ms"] or 0
        reached_ms = max(reached_ms, newest_ms.get(batch, 0) - CEILING_MS, control_ms)
    return result


def _controls(job: LiveJob) -> list[int | None]:
    """Return what the control had said by each batch."""
    return [
        Logged.read(job.checkpoint, batch).control["watermark_ms"] for batch in logged_batches(job.checkpoint)
    ]


def _rows_lost(job: LiveJob) -> int:
    """Return how many rows of the windows that were closed are not in them."""
    kept, closed_us = set(job.kept()), max(end for emitted in job.output.values() for end, _ in emitted)
    rows = [row for number in range(1_000) for row in steady(number)]
    return sum(row.event_time_us < closed_us and row.id not in kept for row in rows)


@pytest.mark.soak
def test_without_any_answer_the_control_leaves_a_query_to_its_ceiling(
    job: LiveJob, answers: FaultyAnswers
) -> None:
    """A query without control is one with the bound of the ceiling."""
    answers.die()
    _write(job, 0, 14)
    job.run()
    watermarks = job.watermarks_ms()
    newest_ms = max(row.event_time_us for row in steady(13)) // 1_000

    assert answers.asked == 0
    assert set(_controls(job)) == {None}
    assert watermarks == _by_spark(job)
    assert watermarks[max(watermarks)] == newest_ms - CEILING_MS
    assert _rows_lost(job) == 0
    assert all(report.live is not None and report.live.control_ms is None for report in job.reports)


@pytest.mark.parametrize("fault", ["dies", pytest.param("falls silent", marks=pytest.mark.soak)])
def test_when_the_control_stream_dies_the_query_goes_on_and_the_ceiling_takes_over(
    job: LiveJob, answers: FaultyAnswers, fault: str
) -> None:
    """Nothing raises, nothing goes back, and after one batch the watermark is what the ceiling allows."""
    query = job.start()
    try:
        _write(job, 0, 8)
        query.processAllAvailable()
        if fault == "dies":
            answers.die()
        else:
            answers.fall_silent()
        said = _controls(job)[-1]
        asked = answers.asked
        _write(job, 8, 18)
        query.processAllAvailable()

        assert query.isActive
        assert asked > 0
        assert said is not None
        assert _controls(job)[-1] == said, "nothing more is said"
        newest_ms = max(row.event_time_us for row in steady(17)) // 1_000
        last = logged_batches(job.checkpoint)[-1]
        assert Logged.read(job.checkpoint, last).watermark_ms == newest_ms - CEILING_MS > said

        if fault == "falls silent":
            answers.speak()
            _write(job, 18, 22)
            query.processAllAvailable()
            slowest_ms = newest_ms + 40_000 - TRAILING_MS
            assert slowest_ms - BOUND_MS - 20_000 < (_controls(job)[-1] or 0) <= slowest_ms - BOUND_MS
    finally:
        query.stop()
        assert flush(PATIENCE_S)
    assert job.watermarks_ms() == _by_spark(job), "within one batch"
    assert _rows_lost(job) == 0


class _Slow(StreamingQueryListener):
    """Holds Spark's listeners up, so that they are notified of batches long after these have ended."""

    def onQueryStarted(self, event: Any) -> None: ...  # noqa: N802 - Spark's name

    def onQueryProgress(self, event: Any) -> None:  # noqa: ARG002, N802 - Spark's name
        time.sleep(0.7)

    def onQueryIdle(self, event: Any) -> None: ...  # noqa: N802 - Spark's name

    def onQueryTerminated(self, event: Any) -> None: ...  # noqa: N802 - Spark's name


@pytest.mark.soak
def test_when_the_control_speaks_again_before_spark_has_reported_the_silence_no_batch_is_left_out(
    job: LiveJob, answers: FaultyAnswers, spark: SparkSession
) -> None:
    slow = _Slow()
    spark.streams.addListener(slow)
    query = job.start()
    try:
        _write(job, 0, 4)
        query.processAllAvailable()
        answers.fall_silent()
        _write(job, 4, 10)
        query.processAllAvailable()
        answers.speak()
        _write(job, 10, 14)
        query.processAllAvailable()
    finally:
        query.stop()
        body = flush(60)
        spark.streams.removeListener(slow)
    assert body
    assert job.watermarks_ms() == _by_spark(job)
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
    spark: SparkSession, tmp_path: Path, controller: ControllerProcess
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
        query.processAllAvailable()
        until(lambda: _covers(controller, query), query)
        controller.kill()

        _write(job, 6, 16)
        query.processAllAvailable()
        assert query.isActive
        _check_behind(job, 15, min_ms)
        query.stop()

        # Started again while nobody answers: the last answer is on disk.
        query = job.start()
        _write(job, 16, 20)
        query.processAllAvailable()
        _check_behind(job, 19, min_ms)

        back = ControllerProcess(tmp_path / "controller", "tidemark-tests", "faults", controller.port)
        back.wait_until_ready()
        until(lambda: _covers(back, query), query)
        status = back.get()
        assert [gap for covered in status["coverage"] for gap in covered["missing"]] == []
        assert status["completeness"]["exact"] is True
        assert back.get_metric("tidemark_dropped_reports") == 0
    finally:
        query.stop()
        assert flush(60)
        if back is not controller:
            back.stop()
    assert _rows_lost(job) == 0


def _check_behind(job: LiveJob, newest: int, min_ms: int) -> None:
    """Check that the control keeps the distance that the envelope asks for, to the window."""
    slowest_ms = max(row.event_time_us for row in steady(newest) if row.partition == 1) // 1_000
    assert slowest_ms - min_ms - 20_000 < (_controls(job)[-1] or 0) <= slowest_ms - min_ms


def _covers(controller: ControllerProcess, query: StreamingQuery) -> bool:
    """Whether the newest batch with rows has been reported."""
    last = max(progress.batchId for progress in query.recentProgress if progress.numInputRows)
    coverage = controller.get()["coverage"]
    return bool(coverage) and coverage[0]["last"] >= last
