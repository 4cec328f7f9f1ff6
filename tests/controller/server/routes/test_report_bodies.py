"""Reports as they were sent: what a job's live policy begins with, page by page."""

from __future__ import annotations

from dataclasses import replace

import httpx
import pytest

from tidemark.controller.server.routes import reports as routes
from tidemark.models.protocol.messages import AppendDelay, LiveState, Report
from tidemark.spark_jobs.core.client import ControllerClient

from support.controller_app import Controller
from support.reports import START_US, query_reports
from support.streams import SECOND

REPORTS = query_reports([[("0", START_US + n * SECOND), ("1", START_US)] for n in range(10)])
RICH = replace(
    REPORTS[3],
    append_delay=AppendDelay(rows=1, min_us=1, mean_us=2, max_us=3, by_broker=True),
    live=LiveState(ceiling_ms=60_000, control_ms=None, reason="no row yet", behind=("0",), idle=("1",)),
    final_watermark_ms=None,
)


@pytest.fixture
def controller(either: Controller) -> Controller:
    return either


def sent(controller: Controller, limit: int) -> list[Report]:
    """Return what the client of a job reads, page after page."""

    def passed_on(request: httpx.Request) -> httpx.Response:
        answer = controller.get(request.url.raw_path.decode().removeprefix("/v1/jobs/job/streams/stream"))
        return httpx.Response(answer.status_code, content=answer.content)

    client = ControllerClient("http://controller", transport=httpx.MockTransport(passed_on))
    found, cursor = client.sent_reports("job", "stream", limit)
    while cursor is not None:
        page, cursor = client.sent_reports("job", "stream", limit, cursor)
        found += page
    return found


@pytest.mark.parametrize("limit", [1, 3, 10, 100])
def test_a_job_reads_back_what_it_sent_the_newest_first(controller: Controller, limit: int) -> None:
    reports = [RICH if report.batch_id == 3 else report for report in REPORTS]
    controller.report_all(reports)
    assert sent(controller, limit) == reports[::-1]


def test_a_page_ends_where_it_grows_too_large_but_has_one_report(
    controller: Controller, monkeypatch: pytest.MonkeyPatch
) -> None:
    controller.report_all(REPORTS)
    monkeypatch.setattr(routes, "_MAX_PAGE_BYTES", 2_000)
    page = controller.get("/reports/bodies").json()
    assert 1 <= len(page["reports"]) < len(REPORTS)
    monkeypatch.setattr(routes, "_MAX_PAGE_BYTES", 1)
    assert sent(controller, 100) == list(REPORTS[::-1])


def test_a_stream_without_reports_has_none_and_one_that_is_not_known_is_not_found(
    controller: Controller,
) -> None:
    assert controller.get("/reports/bodies").status_code == 404
    controller.report_all(REPORTS[:1])
    assert len(sent(controller, 10)) == 1
