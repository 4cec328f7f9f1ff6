"""Sliding windows of a day by the minute: an ordinary job, whose reports must not cost more memory than others."""

from __future__ import annotations

import signal
from pathlib import Path

import httpx
import pytest
from sqlalchemy import func, select

from tidemark.controller.db.database import Database
from tidemark.controller.db.tables import NeedSketchRow, ReportRow, RollupRow
from tidemark.models.operators import TimeWindow, sliding
from tidemark.models.wire import to_json_object

from support.bench_server import status_of
from support.controller_app import STREAM, Controller
from support.patience import until
from support.processes import serving
from support.reports import dense_report

PARTITIONS = 64
"""As many as an ordinary topic has."""

MAX_MEMORY_KB = 400 * 1024


@pytest.mark.slow
@pytest.mark.skipif(
    not Path("/proc/self/status").exists(), reason="the kernel does not say how much memory it took"
)
def test_forty_reports_of_a_day_by_the_minute_are_counted_in_400_mb_by_a_controller_that_was_killed(
    tmp_path: Path,
) -> None:
    """A controller that is killed for its memory would be killed again at each start, for good."""
    operators = [(sliding("24h", "1m"), 5), (sliding("1h", "5s"), 50)]
    with serving(tmp_path) as (process, client):
        for batch in range(40):
            operator, granules = operators[batch % 2]
            report = dense_report(
                batch,
                partitions=PARTITIONS,
                granules=granules,
                operator=operator,
                stream=str(operator.max_keys),
                interval_s=60,
            )
            path = f"/v1/jobs/job/streams/{report.stream}/reports"
            assert client.post(path, json=to_json_object(report)).status_code == 201
        assert status_of(process.pid, "VmHWM") < MAX_MEMORY_KB
        process.send_signal(signal.SIGKILL)
        process.wait()
    with serving(tmp_path) as (process, _):
        database = Database(f"sqlite:///{tmp_path / 'tidemark.db'}")

        def counted() -> bool:
            with database.read() as session:
                newest = select(func.max(ReportRow.id)).group_by(ReportRow.stream_id)
                done = select(RollupRow.split_report_id)
                return sorted(session.scalars(newest)) == sorted(session.scalars(done))

        until(counted, "every report counted by partition")
        assert status_of(process.pid, "VmHWM") < MAX_MEMORY_KB
        with database.read() as session:
            assert session.scalars(select(func.count(NeedSketchRow.partition.distinct()))).one() == PARTITIONS
        database.close()


@pytest.mark.parametrize(
    ("operator", "partitions", "detail"),
    [
        (TimeWindow(10**12, 1_000_000), 1, "the report's rows are in 1,000,000 windows"),
        (sliding("24h", "2s"), 100, "100 partitions in 43,200 windows are more than the 4,000,000 sums"),
    ],
)
def test_a_report_of_too_many_windows_is_rejected_at_once_and_says_what_helps(
    controller: Controller, operator: TimeWindow, partitions: int, detail: str
) -> None:
    answer: httpx.Response = controller.report(
        dense_report(0, partitions=partitions, granules=1, operator=operator)
    )
    assert answer.status_code == 422
    assert detail in answer.json()["detail"]
    assert "a longer slide" in answer.json()["detail"]
    assert controller.http.get(STREAM).status_code == 404
