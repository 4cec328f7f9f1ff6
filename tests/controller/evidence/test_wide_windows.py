"""Sliding windows of a day by the minute: an ordinary job, whose reports must not cost more memory than others."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import Popen

import httpx
import pytest
from sqlalchemy import func, select

from tidemark.controller.base.db.database import Database
from tidemark.controller.base.db.tables import OffsetRow, ReportRow
from tidemark.models.base.operators import TimeWindow, sliding
from tidemark.models.protocol.messages import Report, to_json_object

from support.controller_app import STREAM, Controller
from support.patience import until
from support.process_usage import status_of
from support.processes import serving
from support.reports import dense_report
from support.totals import totals, totals_of

PARTITIONS = 64
"""As many as an ordinary topic has."""

MAX_MEMORY_KB = 400 * 1024
"""What a controller takes at most, in kilobytes."""

LIMITED = ("prlimit", f"--data={512 * 2**20}")
"""Lets the kernel refuse more memory. It counts what is not used too, such as 8 MB of stack for each thread."""

WINDOWS = [(sliding("24h", "1m"), 5), (sliding("1h", "5s"), 50)]
"""Operators, and for each the granules of a partition in a report."""


def reports() -> list[Report]:
    """Return ten reports of a stream for each operator."""
    return [
        dense_report(
            batch,
            partitions=PARTITIONS,
            granules=granules,
            operator=operator,
            stream=f"s{number}",
            interval_s=60,
        )
        for number, (operator, granules) in enumerate(WINDOWS)
        for batch in range(10)
    ]


@contextmanager
def limited(folder: Path, tick_seconds: float = 0.2) -> Iterator[tuple[Popen[str], httpx.Client]]:
    """A controller under a memory limit, which is killed at the end, and a client of it."""
    with serving(
        folder,
        under=LIMITED,
        tick_seconds=tick_seconds,
        # Else it waits for as long as another process could still hold them.
        TIDEMARK_LEASE_SECONDS="0.3",
        # It reserves memory for each core of the machine.
        OPENBLAS_NUM_THREADS="1",
    ) as (process, client):
        yield process, client
        assert status_of(process.pid, "VmHWM") < MAX_MEMORY_KB
        process.kill()


def counted(database: Database) -> dict[int, bool]:
    """Return of each stream whether all its reports are counted by partition."""
    with database.read() as session:
        newest = session.execute(
            select(ReportRow.stream_id, func.max(ReportRow.id)).group_by(ReportRow.stream_id)
        )
        done = dict(session.execute(select(OffsetRow.stream_id, OffsetRow.last_report_id)).all())
        return {stream_id: done.get(stream_id) == report_id for stream_id, report_id in newest}


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.skipif(shutil.which("prlimit") is None, reason="there is no prlimit here, which Linux has")
def test_a_controller_with_half_a_gigabyte_counts_windows_of_a_day_by_the_minute_however_often_it_is_killed(
    tmp_path: Path,
) -> None:
    """One that needs more for what waits would be killed again at each start, for good."""
    sent = reports()
    with limited(tmp_path, tick_seconds=3_600) as (_, client):
        for report in sent:
            path = f"/v1/jobs/job/streams/{report.stream}"
            assert client.post(path + "/reports", json=to_json_object(report)).status_code == 201
            client.put(path + "/slo", json={"target_ppm": 900_000})
    database = Database(f"sqlite:///{tmp_path / 'tidemark.db'}")
    assert not any(counted(database).values())
    while not all(before := counted(database).values()):
        with limited(tmp_path):
            until(
                lambda: sum(counted(database).values()) > sum(before),
                "another stream to be counted",
                seen=lambda: (tmp_path / "controller.log").read_text()[-8_000:],
            )
    assert totals(database) == totals_of(sent, tmp_path)
    database.close()


@pytest.mark.parametrize(
    ("operator", "partitions", "detail"),
    [
        (TimeWindow(10**12, 1_000_000), 1, "a row is in up to 1,000,000 windows, more than the 50,000"),
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
