"""Writes of specifications and pins, and what a person does: versions, reasons, dry runs, on both databases."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from tidemark.controller.base.db.tables import EventRow
from tidemark.controller.evidence.evidence_cache import EvidenceCache

from support.controller_app import STREAM, Controller
from support.databases import on_sqlite_alone
from support.policies import at_once
from support.reports import exponential_batches, query_reports
from support.soak import with_soak
from support.stored_rows import stored_rows

REPORTS = query_reports(exponential_batches(60, 40, slow=3))
TARGET = {"target_ppm": 900_000}
PIN = "/v1/pin?job=job&stream=stream"
BODIES: dict[str, list[Any]] = {
    "slo": [{"target_ppm": 900_000}, {"target_ppm": 800_000}, {"target_ppm": 700_000}],
    "policy": [{"min_bound_ms": number} for number in (1, 2, 3)],
}


@pytest.fixture(params=with_soak(["sqlite", "postgresql"], {"postgresql"}))
def either(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Controller]:
    url = f"sqlite:///{tmp_path / 'tidemark.db'}"
    if request.param == "postgresql":
        url = request.getfixturevalue("new_postgres_url")
    with Controller(url) as running:
        yield running


def put(controller: Controller, path: str, body: Any, **headers: str) -> Any:
    """PUT without looking first."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return controller.http.put(url(path), json=body, headers=named)


def url(path: str) -> str:
    """Return a path of the stream; its pin is a resource of its own."""
    return path.replace("/pin", PIN, 1) if path.startswith("/pin") else STREAM + path


def reasons(controller: Controller, kind: str) -> list[str]:
    with controller.service.database.read() as session:
        wanted = select(EventRow.reason).where(EventRow.kind == kind).order_by(EventRow.id)
        return list(session.scalars(wanted))


# -- versions ------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("what", ["slo", "policy"])
def test_what_is_there_is_replaced_only_by_who_has_read_it(either: Controller, what: str) -> None:
    first, second, third = BODIES[what]
    one = put(either, f"/{what}", first).headers["etag"]
    unseen = put(either, f"/{what}", second)
    assert (unseen.status_code, unseen.json()["type"]) == (428, "urn:tidemark:problem:precondition-required")
    assert f"If-Match: {one}" in unseen.json()["detail"]
    assert unseen.headers["etag"] == one
    two = put(either, f"/{what}", second, If_Match=one).headers["etag"]
    stale = put(either, f"/{what}", third, If_Match=one)
    assert (stale.status_code, stale.headers["etag"]) == (412, two)
    assert put(either, f"/{what}", third, If_Match=f"W/{two}").status_code == 412
    three = put(either, f"/{what}", third, If_Match=two).headers["etag"]
    four = put(either, f"/{what}", first, If_Match="*").headers["etag"]
    assert len({one, two, three, four}) == 4


@pytest.mark.parametrize("what", ["slo", "policy"])
def test_setting_what_is_set_changes_nothing_whatever_the_caller_held(either: Controller, what: str) -> None:
    first, second, _ = BODIES[what]
    one = put(either, f"/{what}", first).headers["etag"]
    two = put(either, f"/{what}", second, If_Match=one).headers["etag"]
    before = stored_rows(either)
    # As after an answer that was lost on the way: the same request again.
    for headers in ({}, {"If_Match": one}, {"If_Match": two}):
        again = put(either, f"/{what}", second, **headers)
        assert (again.status_code, again.headers["etag"]) == (200, two)
    assert stored_rows(either) == before


def test_the_default_policy_can_be_read_and_replaced_like_any_other(controller: Controller) -> None:
    controller.report(REPORTS[0])
    held = controller.get("/policy").headers["etag"]
    assert held == '"0"'
    assert put(controller, "/policy", {"min_bound_ms": 1}, If_Match=held).status_code == 200
    assert put(controller, "/policy", {"min_bound_ms": 2}, If_Match=held).status_code == 412


def test_two_who_read_the_same_version_do_not_both_win(either: Controller) -> None:
    from concurrent.futures import ThreadPoolExecutor

    held = put(either, "/slo", TARGET).headers["etag"]
    with ThreadPoolExecutor(6) as pool:
        body = list(
            pool.map(
                lambda n: put(either, "/slo", {"target_ppm": 500_000 + n}, If_Match=held).status_code,
                range(6),
            )
        )
    assert sorted(body) == [200, 412, 412, 412, 412, 412]


# -- reasons -------------------------------------------------------------------------------------------------------


def test_the_reason_of_a_write_is_in_its_event(either: Controller) -> None:
    held = put(either, "/slo?reason=agreed+with+finance", TARGET).headers["etag"]
    put(either, "/policy", {"min_bound_ms": 1})
    put(either, "/slo?reason=%20", {"target_ppm": 800_000}, If_Match=held)
    assert reasons(either, "SloSet") == ["agreed with finance", "no reason given"]
    assert reasons(either, "PolicySet") == ["no reason given"]
    put(either, "/pin", {"to": "Off", "reason": "INC-1"})
    assert either.http.delete(PIN + "&reason=INC-1+is+over").status_code == 200
    (body,) = reasons(either, "PinRemoved")
    assert body.startswith("INC-1 is over; it was set by the pin on stream 'stream' of job 'job': INC-1")


@pytest.mark.parametrize("reason", ["x" * 501, "a%0Ab", "%00"])
def test_a_reason_that_is_too_long_or_no_line_is_refused(untouched: Controller, reason: str) -> None:
    answer = put(untouched, f"/slo?reason={reason}", TARGET)
    assert (answer.status_code, answer.json()["errors"][0]["pointer"]) == (422, "reason")
    assert untouched.get().status_code == 404


def test_a_pin_for_a_reason_that_cannot_be_stored_is_refused(either: Controller) -> None:
    answer = put(either, "/pin", {"to": "Off", "reason": "a\0b"})
    assert (answer.status_code, answer.json()["errors"][0]["pointer"]) == (422, "/reason")


# -- dry runs ------------------------------------------------------------------------------------------------------

ATTEMPTS: list[tuple[str, str, Any, dict[str, str]]] = [
    ("PUT", "/slo", {"target_ppm": 990_000}, {"If-Match": "*"}),
    ("PUT", "/policy", {"mode": "OnRestart"}, {}),
    ("PUT", "/pin", {"to": "Off", "reason": "why"}, {}),
    ("DELETE", "/pin", None, {}),
]


@pytest.mark.slow
@pytest.mark.parametrize("attempt", ATTEMPTS, ids=lambda attempt: f"{attempt[0]} {attempt[1]}")
def test_a_dry_run_answers_as_the_write_does_and_changes_nothing(either: Controller, attempt: Any) -> None:
    method, path, body, headers = attempt
    put(either, "/slo", TARGET)
    either.report_all(REPORTS)
    either.tick()
    if method == "DELETE":
        put(either, "/pin", {"to": "Off", "reason": "before"})
    before = stored_rows(either)

    def ask(query: str) -> Any:
        return either.http.request(method, url(path) + query, json=body, headers=headers)

    tried = ask("&dryRun=All" if path == "/pin" else "?dryRun=All")
    assert tried.status_code == 200, tried.text
    assert stored_rows(either) == before
    done = ask("")
    assert done.status_code == 200
    assert tried.headers.get("etag") == done.headers.get("etag")
    assert {**tried.json(), "dry_run": False} == done.json()
    assert tried.json()["dry_run"] is True
    assert stored_rows(either) != before


@pytest.mark.slow
@pytest.mark.parametrize("act", [":approve", ":discard", ":rollback", ":pause", ":resume"])
@on_sqlite_alone("either")
def test_a_dry_run_of_what_a_person_does_answers_as_that_does_and_changes_nothing(
    either: Controller, act: str
) -> None:
    put(either, "/slo", TARGET)
    put(either, "/policy", {"mode": "OnRestart", "approval": "all"})
    either.report_all(REPORTS)
    either.tick()
    body: list[None] = []
    why = {"reason": "why"}
    (rollout,) = either.get("/rollouts").json()["rollouts"]
    path = f"/rollouts/{rollout['id']}"
    if act == ":rollback":
        assert either.http.post(STREAM + path + ":approve", json=why).status_code == 200
    if act in {":pause", ":resume"}:
        path = ""
    if act == ":resume":
        assert either.http.post(STREAM + ":pause", json=why).status_code == 200
    before = stored_rows(either)
    either.service.database.when_answers_change(lambda: body.append(None))
    tried = either.http.post(STREAM + path + act + "?dryRun=All", json=why)
    assert tried.status_code == 200, tried.text
    assert (stored_rows(either), body) == (before, [])
    done = either.http.post(STREAM + path + act, json=why)
    assert tried.json() == done.json()
    assert tried.headers.get("etag") == done.headers.get("etag")
    assert stored_rows(either) != before


def test_a_dry_run_says_what_would_be_recommended_published_and_what_it_would_cost(
    either: Controller,
) -> None:
    put(either, "/slo", TARGET)
    either.report_all(REPORTS)
    either.tick()
    held = either.get("/slo").headers["etag"]
    answer = either.http.put(
        STREAM + "/slo?dryRun=All", json={"target_ppm": 500_000}, headers={"If-Match": held}
    ).json()
    assert answer["recommended"]["bound_ms"] < either.status()["recommended"]["bound_ms"]
    assert answer["transition"]["bound_ms"] == answer["recommended"]["bound_ms"]
    assert "of the rows will be admitted" in answer["transition"]["text"]
    assert either.get("/slo").json()["target_ppm"] == 900_000


def test_a_dry_run_makes_no_stream_and_wakes_nobody(either: Controller) -> None:
    body: list[None] = []
    either.service.database.when_answers_change(lambda: body.append(None))
    assert put(either, "/slo?dryRun=true", TARGET).status_code == 200
    assert put(either, "/policy?dryRun=All", {"mode": "OnRestart"}).json()["published"]["generation"] == 1
    assert put(either, "/pin&dryRun=All", {"to": "Off", "reason": "why"}).status_code == 200
    assert either.get().status_code == 404
    assert body == []


def test_a_dry_run_is_refused_as_the_write_is(controller: Controller) -> None:
    put(controller, "/slo", TARGET)
    assert put(controller, "/slo?dryRun=All", {"target_ppm": 2_000_000}).status_code == 422
    assert put(controller, "/slo?dryRun=All", {"target_ppm": 800_000}).status_code == 428
    assert controller.http.delete(PIN + "&dryRun=All").status_code == 404


@pytest.mark.parametrize("value", ["all", "yes", "", "None"])
def test_an_unknown_kind_of_dry_run_is_refused_and_does_nothing(controller: Controller, value: str) -> None:
    answer = put(controller, f"/slo?dryRun={value}", TARGET)
    assert (answer.status_code, answer.json()["errors"][0]["pointer"]) == (422, "dryRun")
    assert controller.get().status_code == 404


@pytest.mark.parametrize(
    ("path", "body"),
    [("/slo", {"target_ppm": 990_000}), ("/policy", at_once()), (":pause", {"reason": "a night"})],
)
def test_a_write_holds_no_lock_while_the_evidence_for_its_decision_is_read(
    controller: Controller, monkeypatch: pytest.MonkeyPatch, path: str, body: dict[str, Any]
) -> None:
    controller.put("/slo", {"target_ppm": 900_000})
    controller.report_all(query_reports(exponential_batches(20, 20)))
    database, done = controller.service.database, []
    read, write = EvidenceCache.everything, database.write

    def noted_read(*arguments: Any) -> Any:
        done.append("evidence")
        return read(*arguments)

    def noted_write(**options: Any) -> Any:
        done.append("lock")
        return write(**options)

    monkeypatch.setattr(EvidenceCache, "everything", noted_read)
    monkeypatch.setattr(database, "write", noted_write)
    answer = (
        controller.http.post(STREAM + path, json=body) if path == ":pause" else controller.put(path, body)
    )
    assert answer.status_code == 200, answer.text
    assert done[0] == "evidence"
    assert "lock" in done
