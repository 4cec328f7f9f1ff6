"""Windows by REST: what has come, what counts, what is to come; and the long poll until a share is reached."""

from __future__ import annotations

import json
import threading
from collections import Counter
from dataclasses import replace
from typing import Any

import httpx
import pytest
from sqlalchemy import func, select

from tidemark.controller.base.db.tables import LedgerKeyRow, WindowAgeRow
from tidemark.models.protocol.messages import Report, to_json_object

from support.controller_app import STREAM, Controller
from support.patience import until
from support.reports import START_US, exponential_batches, query_reports
from support.served import served
from support.streams import SECOND

pytestmark = pytest.mark.slow

WINDOW = 10 * SECOND
SHARE = {"share_ppm": 990_000}


def steady(batches: int = 420, **changes: Any) -> list[Report]:
    """Return reports of a batch a second of 100 rows, whose delays have a mean of two seconds."""
    return query_reports(exponential_batches(batches, 100), **changes)


def rows_by_window(batches: int) -> Counter[int]:
    rows = exponential_batches(batches, 100)
    return Counter(time // WINDOW * WINDOW + WINDOW for batch in rows for _, time in batch)


def page(controller: Controller, **params: Any) -> list[dict[str, Any]]:
    answer = controller.get("/windows", params=params)
    assert answer.status_code == 200, answer.text
    found: list[dict[str, Any]] = json.loads(answer.text)["windows"]
    return found


def show(controller: Controller, end_us: int, **params: Any) -> dict[str, Any]:
    answer = controller.get(f"/windows/{end_us}", params=params)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = json.loads(answer.text)
    return found


def test_rows_by_age_add_up_to_the_ledger_whatever_the_order_of_reports(controller: Controller) -> None:
    reports = steady(120)
    controller.report_all([*reports[::2], *reports[1::2]])
    with controller.service.database.read() as session:
        ages = session.execute(
            select(WindowAgeRow.key_us, func.sum(WindowAgeRow.rows)).group_by(WindowAgeRow.key_us)
        ).all()
        ledger = session.execute(select(LedgerKeyRow.key_us, LedgerKeyRow.rows)).all()
    assert sorted((key, int(rows)) for key, rows in ages) == sorted((key, rows) for key, rows in ledger)


def test_a_window_that_has_just_ended_is_forecast_from_those_before(controller: Controller) -> None:
    controller.report_all(steady(421))
    end_us, final = START_US + 420 * SECOND, rows_by_window(460)
    found = show(controller, end_us, **SHARE)
    assert found["unknown"] is None
    assert found["rows"] == rows_by_window(421)[end_us]
    raw, off = final[end_us] - found["rows"], abs(final[end_us] - found["estimate"]["expected"])
    assert off < 0.3 * raw
    assert found["estimate"]["expected_min"] <= final[end_us] <= found["estimate"]["expected_max"]
    assert (
        found["estimate"]["came_min_ppm"]
        <= found["estimate"]["came_ppm"]
        <= found["estimate"]["came_max_ppm"]
    )
    assert (found["state"], found["estimate"]["settled"], found["outcome"]) == ("Open", False, "NotYet")
    assert end_us < found["estimate"]["reached_us"] <= found["estimate"]["reached_max_us"]
    assert found["estimate"]["score"]["within"] > 0.8 * found["estimate"]["score"]["windows"] > 0


def test_a_share_is_reached_when_it_has_come_and_the_result_has_it(controller: Controller) -> None:
    controller.report_all(steady(bound_ms=20_000))
    end_us = START_US + 380 * SECOND
    found = show(controller, end_us, **SHARE)
    assert (found["estimate"]["settled"], found["outcome"], found["counted_min_ppm"]) == (
        True,
        "Reached",
        1_000_000,
    )
    assert found["asked_ppm"] == SHARE["share_ppm"]


def test_a_share_of_a_closed_window_that_lost_rows_cannot_be_reached(controller: Controller) -> None:
    controller.report_all(steady(bound_ms=1_000))
    found = show(controller, START_US + 380 * SECOND, **SHARE)
    assert (found["state"], found["estimate"]["settled"], found["outcome"]) == ("Closed", True, "Unreachable")
    assert found["counted_max_ppm"] < SHARE["share_ppm"]
    # What has come is another question.
    assert found["estimate"]["came_min_ppm"] >= SHARE["share_ppm"]


def test_the_share_asked_for_is_by_default_the_target_of_the_slo(controller: Controller) -> None:
    controller.report_all(steady(5))
    assert show(controller, START_US)["asked_ppm"] == 995_000
    controller.put("/slo", {"target_ppm": 950_000})
    assert show(controller, START_US)["asked_ppm"] == 950_000


def test_windows_are_listed_the_newest_first_by_pages_spans_and_states(controller: Controller) -> None:
    controller.report_all(steady(120))
    every = page(controller)
    ends = [one["end_us"] for one in every]
    assert ends == sorted(ends, reverse=True)
    assert {one["end_us"]: one["rows"] for one in every} == dict(rows_by_window(120))
    first = json.loads(controller.get("/windows", params={"limit": 4}).text)
    rest = page(controller, cursor=first["next_cursor"])
    assert [*first["windows"], *rest] == every
    for state in ("Open", "Closed"):
        assert page(controller, state=state) == [one for one in every if one["state"] == state] != []
    inside = page(controller, from_us=ends[5], to_us=ends[2])
    assert [one["end_us"] for one in inside] == ends[2:5]


def test_what_is_not_known_says_why(controller: Controller) -> None:
    controller.report_all(steady(60))
    found = show(controller, START_US + 30 * SECOND)
    assert (found["outcome"], found["estimate"]) == ("NotKnown", None)
    assert found["unknown"] == "fewer than 20 windows are complete"
    assert found["rows"] > 0


def test_rows_that_could_not_be_counted_by_window_leave_every_window_unknown(controller: Controller) -> None:
    reports = steady(bound_ms=20_000)
    controller.report_all([*reports[:-1], replace(reports[-1], contradiction="the plan has another window")])
    assert show(controller, START_US + 380 * SECOND)["outcome"] == "NotKnown"


def test_a_window_that_has_not_begun_is_answered_and_a_time_off_the_grid_is_not(
    controller: Controller,
) -> None:
    controller.report_all(steady(60))
    assert show(controller, START_US + 3_600 * SECOND)["rows"] == 0
    answer = controller.get(f"/windows/{START_US + 1}")
    assert answer.status_code == 422
    assert str(START_US + WINDOW) in answer.text


def test_the_windows_of_a_span_are_shown_as_one(controller: Controller) -> None:
    controller.report_all(steady(420, bound_ms=20_000))
    end_us, span_us = START_US + 410 * SECOND, 60 * SECOND
    windows = [one for one in page(controller) if end_us - span_us < one["end_us"] <= end_us]
    final = sum(rows_by_window(460)[one["end_us"]] for one in windows)
    found = show(controller, end_us, **SHARE, span_us=span_us)
    assert len(windows) == 6
    assert found["rows"] == sum(one["rows"] for one in windows)
    assert found["estimate"]["expected_min"] <= final <= found["estimate"]["expected_max"]
    assert found["estimate"]["expected"] == pytest.approx(final, rel=0.002)
    # Older than all rows by age, and more windows than these.
    longer = show(controller, end_us, **SHARE, span_us=400 * SECOND)
    assert longer["rows"] - found["rows"] == longer["estimate"]["expected"] - found["estimate"]["expected"]


def test_a_span_of_which_only_a_part_was_reported_is_not_known(controller: Controller) -> None:
    controller.report_all(steady(420, bound_ms=20_000))
    end_us = START_US + 410 * SECOND
    found = show(controller, end_us, share_ppm=10_000, span_us=3_600 * SECOND)
    assert (found["outcome"], found["rows"], found["estimate"]) == ("NotKnown", 0, None)
    assert found["unknown"].startswith("of its time only what is after 2025-12-31 23:59")


def test_of_a_window_that_is_not_known_it_is_said_whether_it_has_begun(controller: Controller) -> None:
    controller.report_all(steady(60))
    assert (
        show(controller, START_US - 3_600 * SECOND)["unknown"] == "it is before the first row that is known"
    )
    assert show(controller, START_US + 3_600 * SECOND)["unknown"] == "it has not begun"


def test_windows_that_do_not_fill_a_span_are_refused(controller: Controller) -> None:
    controller.report_all(steady(60))
    answer = controller.get(f"/windows/{START_US + 30 * SECOND}", params={"span_us": WINDOW + 1})
    assert answer.status_code == 422
    assert "no whole number of windows fills" in answer.text


@pytest.mark.long
@pytest.mark.slow
def test_a_long_poll_ends_with_the_report_that_reaches_the_share(controller: Controller) -> None:
    reports, end_us = steady(460, bound_ms=30_000), START_US + 420 * SECOND
    controller.report_all(reports[:421])
    answers: list[httpx.Response] = []
    with served(controller.app) as url:

        def ask() -> None:
            where, headers = f"{url}{STREAM}/windows/{end_us}", {"Prefer": "wait=60"}
            answers.append(httpx.get(where, params=SHARE, headers=headers, timeout=90))

        thread = threading.Thread(target=ask)
        thread.start()
        until(lambda: controller.service.watch.waiting, "the long poll")
        for report in reports[421:]:
            httpx.post(f"{url}{STREAM}/reports", json=to_json_object(report)).raise_for_status()
        thread.join()
    (answer,) = answers
    assert answer.headers["preference-applied"] == "wait=60"
    assert answer.json()["outcome"] == "Reached"
