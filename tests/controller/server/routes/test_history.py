"""Jobs, reports, acknowledgements and published bounds: listed page by page, on both databases."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tidemark.models.protocol.messages import Acknowledgement

from support.controller_app import STREAM, Controller
from support.reports import START_US, exponential_batches, query_reports

REPORTS = query_reports(exponential_batches(12, 40))


def pages(controller: Controller, path: str, name: str, limit: int = 2) -> list[dict[str, Any]]:
    """What a list has, page by page."""
    found: list[dict[str, Any]] = []
    cursor: str | None = None
    while True:
        params = {"limit": limit, **({} if cursor is None else {"cursor": cursor})}
        answer = controller.http.get(path, params=params)
        assert answer.status_code == 200, answer.text
        page = answer.json()
        assert len(page[name]) <= limit
        found += page[name]
        cursor = page["next_cursor"]
        if cursor is None:
            return found


# -- jobs ----------------------------------------------------------------------------------------------------------


def test_jobs_are_listed_with_their_modes_and_the_worst_of_their_conditions(either: Controller) -> None:
    assert pages(either, "/v1/jobs", "jobs") == []
    for job in ("c", "a", "b"):
        for stream in ("y", "x"):
            path = f"/v1/jobs/{job}/streams/{stream}"
            mode = "OnRestart" if stream == "x" else "Off"
            assert either.http.put(f"{path}/policy", json={"mode": mode}).status_code == 200
    assert either.http.put("/v1/pin?job=b&stream=x", json={"to": "Off", "reason": "why"}).is_success
    either.snapshot()
    jobs = pages(either, "/v1/jobs", "jobs")
    assert [job["job"] for job in jobs] == ["a", "b", "c"]
    assert jobs[0]["streams"] == 2
    assert jobs[0]["modes"] == [{"mode": "Off", "streams": 1}, {"mode": "OnRestart", "streams": 1}]
    assert (jobs[0]["worst"]["type"], jobs[0]["worst"]["stream"]) == ("NoReportYet", "x")
    assert (jobs[1]["worst"]["type"], jobs[1]["worst"]["stream"]) == ("Pinned", "x")


def test_a_job_has_the_conditions_of_all_its_streams_and_the_pin_on_all_of_it(either: Controller) -> None:
    unknown = either.http.get("/v1/jobs/job")
    assert (unknown.status_code, unknown.json()["type"]) == (404, "urn:tidemark:problem:job-not-found")
    either.report_all(REPORTS)
    assert either.http.get("/v1/jobs/job").json()["pin"] is None
    either.http.put("/v1/pin", json={"to": "Ceiling", "reason": "fleet"})
    assert either.http.get("/v1/jobs/job").json()["pin"]["scope"] == "fleet"
    either.http.put("/v1/pin?job=job", json={"to": "Off", "reason": "INC-1"})
    body = either.http.get("/v1/jobs/job").json()
    assert (body["pin"]["scope"], body["pin"]["reason"]) == ("job", "INC-1")
    assert [condition["type"] for condition in body["conditions"]][-1] == "NoSlo"
    assert {condition["stream"] for condition in body["conditions"]} == {"stream"}
    assert body["more_conditions"] == 0


# -- reports -------------------------------------------------------------------------------------------------------


def test_reports_are_listed_from_the_newest_batch_whatever_order_they_came_in(either: Controller) -> None:
    shuffled = [*REPORTS[6:], *reversed(REPORTS[:6])]
    either.report_all(shuffled)
    # Two queries of one stream may run batches at the same time.
    either.report_all([replace(report, query_id="other") for report in REPORTS[:3]])
    found = pages(either, f"{STREAM}/reports", "reports")
    assert [body["started_us"] for body in found] == sorted(
        (body["started_us"] for body in found), reverse=True
    )
    assert len({(body["query_id"], body["batch_id"]) for body in found}) == len(REPORTS) + 3
    newest = found[0]
    assert newest["rows"] == REPORTS[-1].rows
    assert newest["pairs"] >= newest["late_max"] >= newest["late_min"]


# -- acknowledgements and bounds -----------------------------------------------------------------------------------


def test_acknowledgements_are_listed_from_the_one_applied_last(either: Controller) -> None:
    for number in (3, 1, 2):
        body = Acknowledgement(
            query_id="query",
            run_id=f"run {number}",
            bound_ms=number * 1_000,
            generation=None,
            source="job",
            mode="Off",
            # The widest time there can be, back and forth through a cursor.
            applied_us=START_US + number if number < 3 else 2**60,
        )
        assert either.acknowledge(body).status_code == 201
    found = pages(either, f"{STREAM}/acks", "acknowledgements", limit=1)
    assert [body["bound_ms"] for body in found] == [3_000, 2_000, 1_000]
    assert found[0]["received_us"] == either.clock()


def test_bounds_are_listed_generation_by_generation_from_the_newest(either: Controller) -> None:
    for mode in ("OnRestart", "Restart", "Live"):
        either.put("/policy", {"mode": mode})
    found = pages(either, f"{STREAM}/bounds", "bounds")
    assert [(body["generation"], body["mode"]) for body in found] == [
        (3, "Live"),
        (2, "Restart"),
        (1, "OnRestart"),
    ]
    assert found[0]["envelope"] is not None
    assert found[0]["published_us"] == either.clock()


@pytest.mark.parametrize("path", ["reports", "acks", "bounds"])
def test_lists_of_an_unknown_stream_are_404_and_foreign_cursors_422(
    controller: Controller, path: str
) -> None:
    assert controller.get(f"/{path}").status_code == 404
    controller.put("/slo", {"target_ppm": 900_000})
    for cursor in ("x", "WyJhIl0", "WyJhIiwiYiJd", "WyI5OTk5OTk5OTk5OTk5OTk5OTk5IiwiMSJd"):
        assert controller.get(f"/{path}?cursor={cursor}").status_code == 422, cursor
