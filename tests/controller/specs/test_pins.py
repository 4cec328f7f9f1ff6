"""Pins: what they hold, what is published, and what they cost."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import select

from tidemark.controller.base.db.tables import EventRow
from tidemark.controller.server.spec_routes.pin_cost import cost_text
from tidemark.controller.specs.pins import put_pin
from tidemark.models.base.duration import format_about
from tidemark.models.evidence.curve import Curve
from tidemark.models.protocol.messages import Acknowledgement, to_json_object
from tidemark.models.specs.pin import FLEET, StoredPin

from support.controller_app import STREAM, Controller
from support.oracles import replay_reports
from support.policies import at_once
from support.reports import START_US, exponential_batches, query_reports
from support.soak import with_soak
from support.streams import SECOND

REPORTS = query_reports(exponential_batches(24, 50, slow=3))
TARGET = {"target_ppm": 900_000}
OFF = {"to": "Off", "reason": "INC-1"}
CEILING = {"to": "Ceiling", "reason": "INC-2"}
CEILING_MS = 1_800_000
FLEET_PIN, JOB_PIN, STREAM_PIN = "/v1/pin", "/v1/pin?job=job", "/v1/pin?job=job&stream=stream"


@pytest.fixture(params=with_soak(["sqlite", "postgresql"], {"postgresql"}))
def either(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Controller]:
    """A controller on each database that is there."""
    if request.param == "sqlite":
        url = f"sqlite:///{tmp_path / 'tidemark.db'}"
    else:
        url = request.getfixturevalue("new_postgres_url")
    with Controller(url) as running:
        yield running


def acknowledge(controller: Controller, **changes: Any) -> None:
    fields: dict[str, Any] = {
        "query_id": "query",
        "run_id": "run",
        "bound_ms": 5_000,
        "generation": None,
        "source": "job",
        "mode": "Off",
        "applied_us": START_US,
        "ceiling_ms": CEILING_MS,
    }
    answer = controller.acknowledge(Acknowledgement(**{**fields, **changes}))
    assert answer.status_code == 201, answer.text


def recommended(controller: Controller, mode: str = "OnRestart") -> dict[str, Any]:
    """Report, decide, and return the published bound."""
    controller.put("/slo", TARGET)
    controller.put("/policy", at_once(mode))
    controller.report_all(REPORTS)
    controller.tick()
    return bound(controller)


def bound(controller: Controller, path: str = STREAM) -> dict[str, Any]:
    answer: dict[str, Any] = controller.http.get(path + "/bound").json()
    return answer


def pin(controller: Controller, path: str, body: dict[str, Any]) -> dict[str, Any]:
    held = controller.http.get(path).headers.get("etag")
    answer = controller.http.put(path, json=body, headers={} if held is None else {"If-Match": held})
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def unpin(controller: Controller, path: str) -> dict[str, Any]:
    answer: httpx.Response = controller.http.delete(path)
    assert answer.status_code == 200, answer.text
    body: dict[str, Any] = answer.json()
    return body


def events(controller: Controller) -> list[tuple[str, str]]:
    with controller.service.database.read() as session:
        return [(row.kind, row.reason) for row in session.scalars(select(EventRow).order_by(EventRow.id))]


# -- what holds ----------------------------------------------------------------------------------------------------


def test_a_pin_to_off_takes_the_bound_back_and_unpinning_gives_it_again(either: Controller) -> None:
    before = recommended(either)
    pin(either, STREAM_PIN, OFF)
    held = bound(either)
    assert (held["mode"], held["bound_ms"], held["pin"]) == ("OnRestart", None, "Off")
    assert held["generation"] == before["generation"] + 1
    assert held["reason"] == (
        "pinned to Off (by the pin on stream 'stream' of job 'job': INC-1): the job keeps its own bound"
    )
    unpin(either, STREAM_PIN)
    after = bound(either)
    assert {**after, "generation": 0} == {**before, "generation": 0}
    assert after["generation"] == before["generation"] + 2


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["OnRestart", "Restart", "Live"])
def test_a_pin_to_ceiling_makes_the_acknowledged_ceiling_the_bound(controller: Controller, mode: str) -> None:
    acknowledge(controller)
    recommended(controller, mode)
    pin(controller, STREAM_PIN, CEILING)
    held = bound(controller)
    assert (held["mode"], held["bound_ms"], held["pin"]) == (mode, CEILING_MS, "Ceiling")
    assert (held["envelope"] is not None) == (mode == "Live")


def test_a_pin_to_ceiling_without_one_is_the_jobs_own_bound_until_it_acknowledges_one(
    controller: Controller,
) -> None:
    recommended(controller)
    pin(controller, STREAM_PIN, CEILING)
    held = bound(controller)
    assert held["bound_ms"] is None
    assert held["reason"].endswith("the job has acknowledged no ceiling and keeps its own bound")
    acknowledge(controller)
    body = bound(controller)
    assert (body["bound_ms"], body["generation"]) == (CEILING_MS, held["generation"] + 1)


def test_a_driver_whose_clock_was_a_year_ahead_does_not_outrank_every_later_run(
    controller: Controller,
) -> None:
    year_us = 365 * 86_400 * SECOND
    recommended(controller)
    acknowledge(controller, run_id="ahead", ceiling_ms=20_000, applied_us=START_US + year_us)
    controller.clock.now_us += SECOND
    acknowledge(controller, run_id="later", applied_us=controller.clock.now_us)
    pin(controller, STREAM_PIN, CEILING)

    assert bound(controller)["bound_ms"] == CEILING_MS


def test_the_most_specific_pin_wins_and_the_next_one_holds_when_it_is_taken_away(either: Controller) -> None:
    acknowledge(either)
    recommended(either)
    order = [(FLEET_PIN, OFF), (JOB_PIN, CEILING), (STREAM_PIN, OFF)]
    for path, body in order:
        pin(either, path, body)
        assert bound(either)["pin"] == body["to"]
    # A wider one that changes underneath changes nothing.
    before = bound(either)
    pin(either, FLEET_PIN, CEILING)
    assert bound(either) == before
    pin(either, FLEET_PIN, OFF)
    for path, left in ((STREAM_PIN, "Ceiling"), (JOB_PIN, "Off"), (FLEET_PIN, None)):
        unpin(either, path)
        assert bound(either)["pin"] == left


def test_a_pin_holds_the_streams_of_its_job_and_no_others(controller: Controller) -> None:
    for job, stream in (("a", "1"), ("a", "2"), ("b", "1")):
        controller.http.put(f"/v1/jobs/{job}/streams/{stream}/policy", json=at_once())
    pin(controller, "/v1/pin?job=a", OFF)
    held = {
        name: bound(controller, f"/v1/jobs/{name[0]}/streams/{name[1]}")["pin"] for name in ("a1", "a2", "b1")
    }
    assert held == {"a1": "Off", "a2": "Off", "b1": None}


def test_a_stream_that_appears_under_a_pin_is_held_from_its_first_request_on(either: Controller) -> None:
    pin(either, JOB_PIN, OFF)
    unknown = either.get("/bound")
    assert (unknown.json()["generation"], unknown.json()["pin"]) == (0, "Off")
    either.report(REPORTS[0])
    reported = either.get("/bound")
    assert reported.json()["pin"] == "Off"
    assert reported.headers["etag"].startswith('"0-')
    assert reported.headers["etag"] != unknown.headers["etag"]
    either.tick()
    body = bound(either)
    assert (body["generation"], body["pin"]) == (1, "Off")
    either.put("/policy", at_once("Live"))
    assert (bound(either)["generation"], bound(either)["pin"]) == (2, "Off")


def test_a_pin_that_was_not_published_is_published_at_the_next_tick(controller: Controller) -> None:
    """As when a stream appears on another replica in the very moment a pin is set."""
    controller.put("/policy", at_once())
    with controller.service.database.write() as session:
        put_pin(session, StoredPin.on(FLEET, "Off", "INC-9", 1))
    assert bound(controller)["pin"] is None
    controller.tick()
    assert bound(controller)["pin"] == "Off"
    body = bound(controller)
    controller.tick()
    assert bound(controller) == body


def test_what_is_recommended_meanwhile_changes_nothing_for_a_pinned_job(controller: Controller) -> None:
    recommended(controller)
    pin(controller, STREAM_PIN, OFF)
    held = bound(controller)
    controller.put("/slo", {"target_ppm": 500_000})
    controller.report(replace(REPORTS[-1], batch_id=40))
    controller.tick()
    assert bound(controller) == held
    status = controller.status()
    assert status["recommended"]["bound_ms"] is not None
    assert status["recommended"]["generation"] is None


def test_the_bound_held_without_evidence_is_the_one_from_before_the_pin(controller: Controller) -> None:
    before = recommended(controller)
    acknowledge(controller)
    pin(controller, STREAM_PIN, CEILING)
    controller.put("/slo", {"target_ppm": 999_999})
    assert controller.status()["recommended"]["bound_ms"] is None
    unpin(controller, STREAM_PIN)
    assert bound(controller)["bound_ms"] == before["bound_ms"]


def test_the_policy_may_change_under_a_pin_and_the_pin_still_holds(controller: Controller) -> None:
    acknowledge(controller)
    pin(controller, STREAM_PIN, CEILING)
    for mode, held_ms in (("OnRestart", CEILING_MS), ("Off", None), ("Live", CEILING_MS)):
        controller.put("/policy", at_once(mode))
        body = bound(controller)
        assert (body["mode"], body["bound_ms"], body["pin"]) == (mode, held_ms, "Ceiling")


# -- the resource --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "scope", "job", "stream"),
    [
        (FLEET_PIN, "fleet", None, None),
        (JOB_PIN, "job", "job", None),
        (STREAM_PIN, "stream", "job", "stream"),
    ],
)
def test_a_pin_is_set_read_listed_and_taken_away(
    either: Controller, path: str, scope: str, job: str | None, stream: str | None
) -> None:
    assert (either.http.get(path).status_code, either.http.delete(path).status_code) == (404, 404)
    assert either.http.get(path).json()["type"] == "urn:tidemark:problem:pin-not-set"
    expected = {"scope": scope, "job": job, "stream": stream, **OFF, "since_us": either.clock.now_us}
    body = pin(either, path, OFF)
    assert {name: body[name] for name in expected} == expected
    assert either.http.get(path).json() == body
    assert either.http.get("/v1/pins").json() == {"pins": [expected], "next_cursor": None}
    taken = unpin(either, path)
    assert {name: taken[name] for name in expected} == expected
    assert either.http.get("/v1/pins").json()["pins"] == []


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"to": "Off"}, "/reason"),
        ({"to": "Off", "reason": ""}, "/reason"),
        ({"to": "Off", "reason": "  "}, "/reason"),
        ({"to": "Off", "reason": "x" * 1_001}, "/reason"),
        ({"reason": "why"}, "/to"),
        ({"to": "Live", "reason": "why"}, "/to"),
        ({"to": "Off", "reason": "why", "who": "me"}, "/who"),
    ],
    ids=str,
)
def test_a_pin_without_a_reason_or_a_bound_is_rejected(
    untouched: Controller, body: dict[str, Any], pointer: str
) -> None:
    answer = untouched.http.put(FLEET_PIN, json=body)
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["pointer"] == pointer
    assert untouched.http.get("/v1/pins").json()["pins"] == []


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
@pytest.mark.parametrize(
    ("query", "parameter", "sentence"),
    [
        (
            "stream=stream",
            "job",
            "a stream is named without its job; name both, or neither for the whole fleet",
        ),
        ("job=", "job", "a name has 1 to 200 characters, this one 0"),
        ("job=job&stream=", "stream", "a name has 1 to 200 characters, this one 0"),
        ("job=a%2Fb", "job", "a name cannot contain a slash"),
        ("jobs=job", "jobs", "there is no such parameter; did you mean job?"),
        ("job=job&job=other", "job", "it is given more than once"),
    ],
)
def test_a_query_that_does_not_say_what_the_pin_is_on_is_rejected(
    controller: Controller, method: str, query: str, parameter: str, sentence: str
) -> None:
    pin(controller, FLEET_PIN, OFF)
    answer = controller.http.request(method, f"/v1/pin?{query}", json=CEILING if method == "PUT" else None)
    assert answer.status_code == 422
    (error,) = answer.json()["errors"]
    assert error["pointer"] == parameter
    assert error["detail"].startswith(sentence)
    (kept,) = controller.http.get("/v1/pins").json()["pins"]
    assert (kept["scope"], kept["to"]) == ("fleet", "Off")


def test_the_same_pin_again_changes_nothing_and_another_reason_is_another_pin(controller: Controller) -> None:
    recommended(controller)
    pin(controller, STREAM_PIN, OFF)
    first, count = bound(controller), len(events(controller))
    controller.clock.now_us += 1_000
    assert pin(controller, STREAM_PIN, OFF)["since_us"] == controller.clock.now_us - 1_000
    assert (bound(controller), len(events(controller))) == (first, count)
    pin(controller, STREAM_PIN, {**OFF, "reason": "INC-3"})
    assert "INC-3" in bound(controller)["reason"]
    assert bound(controller)["generation"] == first["generation"] + 1


def test_pins_are_paged_with_the_fleets_first(controller: Controller) -> None:
    for path in (STREAM_PIN, "/v1/pin?job=a", FLEET_PIN):
        pin(controller, path, OFF)
    names: list[tuple[str | None, str | None]] = []
    cursor: str | None = None
    while True:
        params = {"limit": 1, **({"cursor": cursor} if cursor else {})}
        page = controller.http.get("/v1/pins", params=params).json()
        names += [(item["job"], item["stream"]) for item in page["pins"]]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert names == [(None, None), ("a", None), ("job", "stream")]


def test_setting_and_taking_away_are_events_of_every_stream_concerned(controller: Controller) -> None:
    recommended(controller)
    already = len(events(controller))
    pin(controller, FLEET_PIN, OFF)
    unpin(controller, FLEET_PIN)
    body = events(controller)[already:]
    assert [kind for kind, _ in body] == ["PinSet", "BoundPublished", "PinRemoved", "BoundPublished"]
    assert body[0][1] == "by the pin on the whole fleet: INC-1"


def test_the_status_shows_the_pin_in_force_with_its_scope_and_reason(controller: Controller) -> None:
    controller.report(REPORTS[0])
    assert controller.status()["pin"] is None
    pin(controller, JOB_PIN, CEILING)
    status = controller.status()
    assert status["pin"] == {
        "to": "Ceiling",
        "scope": "job",
        "job": "job",
        "stream": None,
        "reason": "INC-2",
        "since_us": controller.clock.now_us,
    }
    details = [found["detail"] for found in status["conditions"] if found["type"] == "Pinned"]
    assert details == ["the job is held to its ceiling alone by the pin on job 'job': INC-2"]


# -- what it costs -------------------------------------------------------------------------------------------------


def test_a_pin_says_what_it_costs_by_the_streams_own_curve(controller: Controller) -> None:
    acknowledge(controller)
    recommended(controller)
    (body,) = pin(controller, STREAM_PIN, CEILING)["streams"]
    exact = controller.get("/curve", params={"bound_ms": [5_000, CEILING_MS]}).json()["points"]
    assert (body["bound_ms"], body["from_bound_ms"]) == (CEILING_MS, 5_000)
    assert exact[1]["completeness_ppm"] == 1_000_000
    # Half a minute of reports closes no window at 30 min, and too few at 5 s: no latency is made of that.
    assert exact[1]["windows_emitted"] == 0
    assert [point["latency_unknown"] for point in exact] == ["WindowsOpen"] * 2
    assert "latency" not in body["text"]
    before = exact[0]["completeness_ppm"] / 10_000
    assert body["text"].startswith("job/stream: windows close 29 min 55 s later than at 5 s; ")
    assert f"completeness {before:.2f} % -> 100.00 % (predicted)" in body["text"]
    assert body["text"].endswith("takes effect when the job next starts")


def test_taking_it_away_says_what_that_costs(controller: Controller) -> None:
    acknowledge(controller)
    published_ms = recommended(controller)["bound_ms"]
    pin(controller, STREAM_PIN, CEILING)
    controller.report(replace(REPORTS[-1], batch_id=40, bound_ms=CEILING_MS, generation=3))
    (body,) = unpin(controller, STREAM_PIN)["streams"]
    assert (body["bound_ms"], body["from_bound_ms"]) == (published_ms, CEILING_MS)
    assert "earlier than at 30 min" in body["text"]


def test_what_is_not_known_is_said_to_be_unknown(controller: Controller) -> None:
    controller.put("/slo", TARGET)
    (body,) = pin(controller, FLEET_PIN, OFF)["streams"]
    assert body["text"] == "job/stream: not known: no reports"
    assert (body["bound_ms"], body["from_bound_ms"]) == (None, None)
    # It runs with a bound of the controller's, and never said its own.
    controller.report(replace(REPORTS[0], generation=1))
    (body,) = controller.http.get(FLEET_PIN).json()["streams"]
    assert body["text"] == "job/stream: not known: the job never ran with its own bound"


def test_a_stream_with_a_pin_of_its_own_stays_there_and_says_so(controller: Controller) -> None:
    controller.report(REPORTS[0])
    pin(controller, STREAM_PIN, CEILING)
    (body,) = pin(controller, FLEET_PIN, OFF)["streams"]
    assert body["text"] == (
        "job/stream: stays pinned to Ceiling by the pin on stream 'stream' of job 'job': INC-2"
    )


def test_the_pin_holds_before_its_cost_is_worked_out_and_that_has_a_limit(
    controller: Controller, monkeypatch: pytest.MonkeyPatch
) -> None:
    for job in ("a", "b", "c"):
        report = replace(REPORTS[0], job=job, stream="s")
        controller.http.post(f"/v1/jobs/{job}/streams/s/reports", json=to_json_object(report))
    monkeypatch.setattr("tidemark.controller.server.spec_routes.pin_routes.COST_SECONDS", -1.0)
    body = pin(controller, FLEET_PIN, OFF)
    assert (len(body["streams"]), body["more_streams"]) == (1, 2)
    assert [bound(controller, f"/v1/jobs/{job}/streams/s")["pin"] for job in "abc"] == ["Off"] * 3


def test_a_cost_in_words_names_both_bounds_and_what_they_do() -> None:
    reports = query_reports(exponential_batches(300, 4))
    curve = Curve.of_replay(replay_reports(reports), reports[0].operator)
    wider = cost_text(curve, 65_000, 5_000, "windows close")
    narrower = cost_text(curve, 5_000, 65_000, "windows close")
    rows = cost_text(curve, 65_000, 5_000, None)
    measured = curve.at(5_000_000).latency_wall
    assert measured is not None
    assert measured.measured_us is not None
    # At 65 s too many windows are open to measure a latency: what it is wider by is added to what was measured.
    was, will = (format_about(measured.measured_us + more_us) for more_us in (0, 60_000_000))
    assert wider.startswith(
        f"windows close 60 s later than at 5 s; mean latency {was} -> {will} (predicted); "
    )
    assert narrower.startswith(
        f"windows close 60 s earlier than at 65 s; mean latency {will} -> {was} (predicted); "
    )
    assert rows.startswith("the watermark trails 60 s more than at 5 s; ")
    assert (
        wider.split("completeness ")[1].split(" (")[0].split(" -> ")
        == narrower.split("completeness ")[1].split(" (")[0].split(" -> ")[::-1]
    )


def test_a_pin_answers_without_floats(controller: Controller) -> None:
    acknowledge(controller)
    recommended(controller)
    text = controller.http.put(STREAM_PIN, json=CEILING).text
    json.loads(text, parse_float=lambda number: pytest.fail(f"an answer has the float {number}"))
