"""The fleet over HTTP: every stream in reach, the least budget first, from what is kept for it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tidemark.controller.base.principal import Grant
from tidemark.controller.server.access import token_store
from tidemark.controller.server.access.token_store import NewToken

from support.controller_app import Controller
from support.policies import at_once
from support.reports import exponential_batches, query_reports

NAMES = [("bank", "a"), ("shop-1", "a"), ("shop-1", "b"), ("shop-2", "a"), ("shop-2", "z")]
SLOW = {("shop-1", "b"): 20.0, ("bank", "a"): 5.0, ("shop-2", "z"): 1.0}
"""Mean delay in seconds of the streams that report; the others are only expected."""


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def fleet(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Controller]:
    """A fleet of five streams, of which three report, looked at once."""
    url = f"sqlite:///{tmp_path_factory.mktemp('fleet') / 'tidemark.db'}"
    if request.param == "postgresql":
        url = request.getfixturevalue("module_postgres_url")
    with Controller(url) as controller:
        for job, stream in NAMES:
            path = f"/v1/jobs/{job}/streams/{stream}"
            assert controller.http.put(f"{path}/slo", json={"target_ppm": 900_000}).status_code == 200
            mean_s = SLOW.get((job, stream))
            if mean_s is not None:
                reports = query_reports(exponential_batches(30, 60, mean_s))
                controller.report_all(replace(report, job=job, stream=stream) for report in reports)
        controller.tick()
        controller.snapshot()
        yield controller


def page(
    fleet: Controller, headers: dict[str, str] | None = None, cursor: str | None = None, **params: Any
) -> dict[str, Any]:
    if cursor is not None:
        params["cursor"] = cursor
    answer = fleet.http.get("/v1/fleet", params=params, headers=headers)
    assert answer.status_code == 200, answer.text
    body: dict[str, Any] = answer.json()
    return body


def names(streams: list[dict[str, Any]]) -> list[tuple[str, str]]:
    return [(row["job"], row["stream"]) for row in streams]


def test_an_empty_store_has_an_empty_fleet(controller: Controller) -> None:
    assert page(controller) == {
        "streams": [],
        "totals": {"streams": 0, "worst": []},
        "narrowing": {"streams": 0, "max_streams": 1},
        "next_cursor": None,
    }


@pytest.mark.slow
def test_the_smallest_budget_comes_first_and_unknown_ones_last_by_name(fleet: Controller) -> None:
    streams = page(fleet)["streams"]
    assert names(streams) == [
        ("shop-1", "b"),
        ("bank", "a"),
        ("shop-2", "z"),
        ("shop-1", "a"),
        ("shop-2", "a"),
    ]
    left = [row["budget_remaining_ppm"] for row in streams]
    assert left[:3] == sorted(left[:3])
    assert left[3:] == [None, None]


def test_a_row_says_what_the_status_of_the_stream_says(fleet: Controller) -> None:
    row = next(row for row in page(fleet)["streams"] if row["stream"] == "b")
    status = fleet.http.get("/v1/jobs/shop-1/streams/b").json()
    assert row["budget_remaining_ppm"] == status["budget"]["remaining_ppm"]
    assert row["budget_course_ppm"] == [row["budget_remaining_ppm"]]
    assert (row["window_min_ppm"], row["window_max_ppm"]) == (
        status["budget"]["min_ppm"],
        status["budget"]["max_ppm"],
    )
    assert row["provisional"] is status["completeness"]["provisional"]
    assert row["recommended_bound_ms"] == status["recommended"]["bound_ms"]
    assert (row["in_use_bound_ms"], row["effective_bound_ms"]) == (
        status["in_use_bound_ms"],
        status["effective_bound_ms"],
    )
    assert row["worst"] is None
    assert status["conditions"] == []
    assert row["target_ppm"] == status["slo"]["target_ppm"]
    # All of it was reported within the ten minutes that count as now.
    assert row["completeness_min_ppm"] == status["completeness"]["min_ppm"]


def test_unknown_values_are_null_and_not_zero(fleet: Controller) -> None:
    row = next(row for row in page(fleet)["streams"] if names([row]) == [("shop-1", "a")])
    unknown = (
        "completeness_min_ppm",
        "completeness_max_ppm",
        "window_min_ppm",
        "window_max_ppm",
        "budget_remaining_ppm",
        "recommended_bound_ms",
        "published_bound_ms",
        "applied_bound_ms",
        "in_use_bound_ms",
        "effective_bound_ms",
        "rollout",
        "skewed",
        "last_batch_us",
    )
    assert {name: row[name] for name in unknown} == dict.fromkeys(unknown)
    assert row["worst"]["type"] == "NoReportYet"
    # It is shown, but nobody has to do anything about it.
    assert row["alerts"] == []


def test_a_stream_without_a_snapshot_is_listed_too(controller: Controller) -> None:
    controller.put("/slo", {"target_ppm": 900_000})
    (row,) = page(controller)["streams"]
    assert (row["updated_us"], row["worst"]["type"], row["provisional"]) == (None, "NoReportYet", True)
    assert page(controller)["totals"] == {
        "streams": 1,
        "worst": [{"type": "NoReportYet", "severity": "info", "title": "No report yet", "streams": 1}],
    }


def test_silent_streams_come_first_on_every_page_though_more_fall_silent_meanwhile(
    controller: Controller,
) -> None:
    for number in range(6):
        reports = query_reports(exponential_batches(30, 60))
        controller.report_all(replace(report, stream=str(number)) for report in reports)
        controller.snapshot()
        # The last ones have reported until now.
        controller.clock.now_us += 4_000_000
    found, cursor = [], None
    for _ in range(6):
        body = page(controller, cursor=cursor, limit=1)
        found += [(row["stream"], row["worst"]["type"]) for row in body["streams"]]
        cursor = body["next_cursor"]
        controller.clock.now_us += 2_000_000
    silent = [stream for stream, worst in found if worst == "NoRecentReport"]
    assert 0 < len(silent) < 6
    assert [stream for stream, _ in found] == [*silent, *(str(n) for n in range(len(silent), 6))]


@pytest.mark.parametrize("limit", [1, 2, 3, 5])
def test_pages_hold_every_stream_once_in_one_order(fleet: Controller, limit: int) -> None:
    found: list[dict[str, Any]] = []
    cursor: str | None = None
    while True:
        body = page(fleet, cursor=cursor, limit=limit)
        assert body["totals"]["streams"] == len(NAMES)
        found += body["streams"]
        cursor = body["next_cursor"]
        if cursor is None:
            break
        assert len(body["streams"]) == limit
    assert found == page(fleet)["streams"]


def test_the_totals_count_each_stream_under_its_worst_condition(fleet: Controller) -> None:
    body = page(fleet)
    counted = {row["type"]: row["streams"] for row in body["totals"]["worst"]}
    assert sum(counted.values()) == body["totals"]["streams"] == len(NAMES)
    assert counted["NoReportYet"] == 2
    assert body["narrowing"] == {"streams": 0, "max_streams": 1}


def test_only_one_job_can_be_asked_for(fleet: Controller) -> None:
    body = page(fleet, job="shop-2")
    assert names(body["streams"]) == [("shop-2", "z"), ("shop-2", "a")]
    assert body["totals"]["streams"] == 2
    assert page(fleet, job="nobody")["totals"] == {"streams": 0, "worst": []}


def test_a_token_for_some_jobs_sees_those_and_their_totals_only(controller: Controller) -> None:
    for job, stream in NAMES:
        controller.http.put(f"/v1/jobs/{job}/streams/{stream}/slo", json={"target_ppm": 900_000})
    controller.snapshot()
    _, made = (
        token_store.make(controller.service.database, new, "the test", controller.clock())
        for new in (NewToken("admin", Grant("admin")), NewToken("some", Grant("viewer", ("shop-*",))))
    )
    controller.service.authenticator.forget()
    headers = {"Authorization": f"Bearer {made.token}"}
    for limit in (1, 2, 100):
        found: list[dict[str, Any]] = []
        cursor: str | None = None
        while cursor is not None or not found:
            body = page(controller, headers, cursor, limit=limit)
            assert body["totals"] == {
                "streams": 4,
                "worst": [
                    {"type": "NoReportYet", "severity": "info", "title": "No report yet", "streams": 4}
                ],
            }
            found += body["streams"]
            cursor = body["next_cursor"]
            if cursor is None:
                break
        assert names(found) == NAMES[1:]
    outside = controller.http.get("/v1/jobs/bank/streams/a/heatmap", headers=headers)
    assert outside.status_code == 403


@pytest.mark.parametrize(
    "cursor", ["x", "WyJhIl0", "WyJhIiwgImIiLCAiYyJd", "WyI5OTk5OTk5OTk5OTk5OTk5OTk5OSIsICJiIiwgImMiXQ"]
)
def test_a_cursor_of_another_list_is_rejected(fleet: Controller, cursor: str) -> None:
    answer = fleet.http.get("/v1/fleet", params={"cursor": cursor})
    assert (answer.status_code, answer.json()["type"]) == (422, "urn:tidemark:problem:invalid-parameter")


def test_pins_pauses_and_rollouts_show_at_once_without_a_snapshot(
    controller: Controller, tmp_path: Path
) -> None:
    controller.put("/slo", {"target_ppm": 900_000})
    controller.put("/policy", at_once())
    controller.report_all(query_reports(exponential_batches(24, 50, slow=3)))
    controller.snapshot()
    controller.tick()
    (row,) = page(controller)["streams"]
    assert (row["mode"], row["paused"], row["pin"]) == ("OnRestart", False, None)
    assert row["rollout"]["state"] == "Published"
    assert row["published_bound_ms"] == row["recommended_bound_ms"] is not None
    controller.put("/policy", at_once(paused=True))
    pinned = controller.http.put("/v1/pin", json={"to": "Off", "reason": "INC-1"})
    assert pinned.status_code == 200, pinned.text
    (row,) = page(controller)["streams"]
    assert row["paused"] is True
    assert (row["pin"]["to"], row["pin"]["scope"]) == ("Off", "fleet")
