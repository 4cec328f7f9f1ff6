"""Which batches lack a report, and what becomes of a report that was made anew."""

from __future__ import annotations

from dataclasses import replace

import pytest

from support.controller_app import Controller
from support.reports import START_US, query_reports
from support.streams import SECOND

REPORTS = query_reports([[("0", START_US + n * SECOND)] for n in range(10)])
QUERY = REPORTS[0].query_id


@pytest.fixture
def controller(either: Controller) -> Controller:
    return either


def missing(controller: Controller, from_batch: int = 0, query_id: str = QUERY) -> list[tuple[int, int]]:
    answer = controller.get("/missing", params={"query_id": query_id, "from_batch": from_batch})
    assert answer.status_code == 200, answer.text
    return [(each["first"], each["last"]) for each in answer.json()["missing"]]


def test_missing_are_batches_between_some_that_came(controller: Controller) -> None:
    assert missing(controller) == [], "the stream is not known"
    controller.report_all(REPORTS[number] for number in (1, 2, 5, 7, 9))

    assert missing(controller) == [(3, 4), (6, 6), (8, 8)]
    assert missing(controller, 4) == [(4, 4), (6, 6), (8, 8)], "from the middle of a gap"
    assert missing(controller, 9) == []
    assert missing(controller, query_id="another") == []


def test_a_report_made_anew_fills_a_gap_and_changes_no_batch_that_was_reported(
    controller: Controller,
) -> None:
    controller.report_all(report for report in REPORTS if report.batch_id != 4)
    anew = [replace(report, reread=True, duration_ms=1, late_base_ms=None) for report in REPORTS]
    before = controller.get("").json()["completeness"]
    answers = [controller.report(each) for each in (anew[3], anew[4], anew[4], REPORTS[4])]
    status = controller.get("").json()
    sent = controller.get("/reports/bodies").json()["reports"]
    details = [each for number in (3, 4) for each in sent if each["batch_id"] == number]

    assert [answer.status_code for answer in answers] == [200, 201, 200, 200]
    assert [detail["reread"] for detail in details] == [False, True]
    assert details[0]["duration_ms"] == REPORTS[3].duration_ms
    assert (before["exact"], before["missing_batches"], before["rows"]) == (False, 1, 9)
    assert (status["completeness"]["exact"], status["completeness"]["rows"]) == (True, 10)
    assert missing(controller) == []
