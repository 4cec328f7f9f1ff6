"""Recommendation and published bound: the service's loop, over HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, event, select

from tidemark.controller.base.db.tables import StreamRow
from tidemark.controller.control.bounds.publication import NO_REPORT, OFF, SteeredStream
from tidemark.controller.control.decide.decision import decide, write
from tidemark.controller.control.decide.load import load, read_version
from tidemark.controller.control.rollout.store import read_rules
from tidemark.controller.server.process.loop import Tick
from tidemark.models.evidence.curve import Curve
from tidemark.models.protocol.messages import Acknowledgement, Report, to_json_object

from support.controller_app import Controller
from support.oracles import replay_reports
from support.policies import at_once
from support.reports import START_US, exponential_batches, query_reports
from support.soak import with_soak
from support.streams import SECOND

BATCHES = exponential_batches(24, 50, slow=3)
REPORTS = query_reports(BATCHES)
TARGET = {"target_ppm": 900_000}
MAX_STATEMENTS = 31
"""Of a decision in mode Off, whatever the stream holds."""


@pytest.fixture(params=with_soak(["sqlite", "postgresql"], {"postgresql"}))
def either(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Controller]:
    """A controller on each database that is there."""
    if request.param == "sqlite":
        url = f"sqlite:///{tmp_path / 'tidemark.db'}"
    else:
        url = request.getfixturevalue("postgres_url")
    with Controller(url) as running:
        yield running


def conditions(controller: Controller) -> set[str]:
    return {condition["type"] for condition in controller.status()["conditions"]}


def acknowledged(generation: int | None, bound_ms: int) -> Acknowledgement:
    return Acknowledgement(
        query_id="query",
        run_id="second",
        bound_ms=bound_ms,
        generation=generation,
        source="controller",
        mode="OnRestart",
        applied_us=START_US,
    )


def test_a_stream_goes_from_unknown_to_recommended_to_applied(either: Controller) -> None:
    unknown = either.get("/bound").json()
    assert (unknown["mode"], unknown["generation"], unknown["bound_ms"]) == ("Off", 0, None)
    assert unknown["reason"] == NO_REPORT

    assert either.put("/slo", TARGET).status_code == 200
    assert conditions(either) == {"NoReportYet"}
    assert either.put("/policy", at_once()).status_code == 200
    assert either.get("/bound").json()["generation"] == 1

    either.report_all(REPORTS)
    assert either.tick() == Tick(decided=1, unchanged=0, failed=0)
    body = either.get("/bound").json()
    assert (body["mode"], body["generation"]) == ("OnRestart", 2)
    status = either.status()
    assert status["recommended"]["bound_ms"] == body["bound_ms"] == status["published"]["bound_ms"]
    assert status["recommended"]["generation"] == 2
    assert status["recommended"]["current"] is True
    assert [step["kind"] for step in status["recommended"]["steps"]] == [
        "Quantile",
        "RoundUp",
        "UnknownRows",
        "NoData",
        "CatchingUp",
        "SilentPartitions",
        "NarrowLate",
        "LatencyCap",
        "Limits",
        "DeadBand",
    ]
    # A quarter of the rows is 30 s later, so nine tenths take that, less what is left of a window of 10 s.
    assert 20_000 < body["bound_ms"] < 40_000
    assert conditions(either) == {"WaitsForStart", "Rolling"}

    either.acknowledge(acknowledged(2, body["bound_ms"]))
    status = either.status()
    assert status["applied"]["generation"] == 2
    assert [condition["type"] for condition in status["conditions"]] == ["Rolling"]


@pytest.mark.parametrize(("mode", "spent"), [("OnRestart", 1), ("Restart", 0.25), ("Off", 0.25)])
def test_the_recommendation_meets_the_target_on_the_exact_needs(
    controller: Controller, mode: str, spent: float
) -> None:
    """Where a change takes a restart, it leaves three quarters of the error budget, so that it lasts."""
    controller.put("/policy", at_once(mode))
    controller.put("/slo", TARGET)
    controller.report_all(REPORTS)
    controller.tick()
    bound_ms = controller.status()["recommended"]["bound_ms"]
    # The first two batches met a filter that knew nothing; the replay counts them as admitted.
    curve = Curve.of_replay(replay_reports(REPORTS), REPORTS[0].operator)
    exact = curve.at(bound_ms * 1_000)
    assert exact.late <= exact.rows * 0.1 * spent
    # Not much wider than needed: confidence at every look and the sketch's error take some.
    narrower = curve.at(round(bound_ms * 0.85) * 1_000)
    assert narrower.late > narrower.rows * 0.1 * spent


@pytest.mark.slow
def test_the_same_reports_give_the_same_recommendation_in_any_order_and_at_any_time(tmp_path: Path) -> None:
    seen: list[Any] = []
    for number, reports in enumerate((REPORTS, list(reversed(REPORTS)))):
        with Controller(f"sqlite:///{tmp_path / f'{number}.db'}") as controller:
            controller.clock.now_us += number * 10**15
            controller.put("/slo", {**TARGET, "latency_cap_ms": 60_000})
            controller.report_all(reports)
            controller.tick()
            recommended = controller.status()["recommended"]
            seen.append((recommended["bound_ms"], recommended["steps"]))
    assert seen[0] == seen[1]


def test_a_decision_for_want_of_data_is_not_written_once_a_report_has_come(controller: Controller) -> None:
    """The job is back, and what waits for its return would take its bound away."""
    controller.put("/slo", TARGET)
    controller.put("/policy", at_once(on_no_data="own"))
    controller.report_all(REPORTS[:-1])
    controller.tick()
    controller.clock.now_us += 30 * 86_400 * SECOND
    service, now_us = controller.service, controller.clock.now_us
    with service.database.read() as session:
        stream_id = session.scalars(select(StreamRow.id)).one()
        stream = SteeredStream(session, session.get_one(StreamRow, stream_id), now_us, locked=False)
        silent = load(stream, read_version(session, stream_id), service.cache)
    assert silent is not None
    decision = decide(silent)
    assert decision.proposal is not None
    assert decision.proposal.cause == "NoData"
    controller.report(REPORTS[-1])
    with service.database.write() as session:
        locked = SteeredStream.lock(session, stream_id, now_us)
        assert locked is not None
        rules = read_rules(locked, service.decider.fleet)
        assert rules is not None
        assert not write(locked, rules, decision)


def test_who_waits_for_a_bound_is_told_by_the_tick_that_publishes_one_and_by_no_other(
    controller: Controller,
) -> None:
    controller.put("/slo", TARGET)
    controller.put("/policy", at_once())
    controller.report_all(REPORTS)
    told: list[bool] = []
    controller.service.database.when_answers_change(lambda: told.append(True))
    controller.tick()
    assert told == [True]
    controller.tick()
    assert told == [True]


def test_a_recommendation_that_changes_is_an_event_with_the_bounds_before_and_after(
    controller: Controller,
) -> None:
    seen = []
    for target in (TARGET, {"target_ppm": 800_000}, {"target_ppm": 800_000, "window_ms": 3_600_000}):
        controller.put("/slo", target)
        controller.report_all(REPORTS)
        controller.tick()
        seen.append(controller.status()["recommended"]["bound_ms"])
    assert seen[0] > seen[1] == seen[2]
    events = controller.get("/events", params={"kind": "RecommendationChanged"}).json()["events"]
    assert [(event["before"], event["after"]) for event in events] == [
        (str(seen[0]), str(seen[1])),
        (None, str(seen[0])),
    ]


def test_an_unchanged_stream_costs_nothing(controller: Controller) -> None:
    controller.put("/slo", TARGET)
    controller.report_all(REPORTS)
    assert controller.tick() == Tick(1, 0, 0)
    assert controller.tick() == Tick(0, 1, 0)
    controller.report(replace(REPORTS[-1], batch_id=99))
    assert controller.tick() == Tick(1, 0, 0)


def test_a_failing_stream_is_counted_and_does_not_stop_the_others(
    controller: Controller, monkeypatch: pytest.MonkeyPatch
) -> None:
    for job in ("a", "b", "c"):
        controller.http.put(f"/v1/jobs/{job}/streams/s/slo", json=TARGET)
        report = replace(REPORTS[0], job=job, stream="s")
        controller.http.post(f"/v1/jobs/{job}/streams/s/reports", json=to_json_object(report))

    def broken(stream: SteeredStream, *given: Any) -> Any:
        if stream.row.job == "b":
            raise RuntimeError("planted")
        return load(stream, *given)

    monkeypatch.setattr("tidemark.controller.control.decide.decider.load", broken)
    assert controller.tick() == Tick(decided=2, unchanged=0, failed=1)
    assert "tidemark_decision_failures_total 1.0" in controller.http.get("/metrics").text


def test_a_decision_asks_the_store_few_things(controller: Controller) -> None:
    """Each statement costs a fifth of a millisecond, and a fleet has a thousand streams."""
    controller.put("/slo", TARGET)
    controller.report_all(REPORTS[:-1])
    controller.tick()
    controller.report(REPORTS[-1])
    asked: list[str] = []

    def note(*given: Any) -> None:
        asked.append(given[2])

    event.listen(Engine, "before_cursor_execute", note)
    try:
        assert controller.service.decider.decide(1, controller.clock())
    finally:
        event.remove(Engine, "before_cursor_execute", note)
    assert len(asked) <= MAX_STATEMENTS, asked


# -- the bound -----------------------------------------------------------------------------------------------------


def test_the_bound_is_answered_304_while_its_etag_is_current(controller: Controller) -> None:
    first = controller.get("/bound")
    assert controller.get("/bound", headers={"If-None-Match": first.headers["etag"]}).status_code == 304
    controller.report(REPORTS[0])
    # Generation 0 still, but it says something else now.
    second = controller.get("/bound", headers={"If-None-Match": first.headers["etag"]})
    assert (second.status_code, second.json()["reason"]) == (200, OFF)
    held = controller.get("/bound", headers={"If-None-Match": second.headers["etag"]})
    assert (held.status_code, held.content) == (304, b"")


@pytest.mark.slow
def test_a_generation_grows_exactly_when_mode_or_bound_change_and_names_one_answer_for_good(
    controller: Controller,
) -> None:
    seen: dict[int, tuple[str, int | None, str]] = {}
    order: list[int] = []

    def snapshot() -> None:
        body = controller.get("/bound").json()
        answer = (body["mode"], body["bound_ms"], body["reason"])
        if order and order[-1] == body["generation"]:
            assert seen[order[-1]] == answer
        elif order:
            assert body["generation"] == order[-1] + 1
            assert seen[order[-1]][:2] != answer[:2]
        seen[body["generation"]] = answer
        order.append(body["generation"])

    controller.report(REPORTS[0])
    snapshot()
    steps: list[Report | tuple[str, Any]] = [
        ("/slo", TARGET),
        ("/policy", at_once()),
        *REPORTS[1:],
        ("/policy", at_once(max_bound_ms=20_000)),
        ("/policy", at_once("Off")),
        ("/policy", at_once(max_bound_ms=20_000)),
        ("/slo", {"target_ppm": 500_000}),
    ]
    for step in steps:
        if isinstance(step, tuple):
            assert controller.put(*step).status_code == 200
        else:
            controller.report(step)
            controller.tick()
        snapshot()
    assert order[0] == 0
    assert controller.get("/bound").json()["bound_ms"] < 20_000


def test_a_limit_of_the_policy_holds_from_the_moment_it_is_set(controller: Controller) -> None:
    controller.put("/slo", TARGET)
    controller.put("/policy", at_once())
    controller.report_all(REPORTS)
    controller.tick()
    assert controller.get("/bound").json()["bound_ms"] > 20_000
    controller.put("/policy", at_once(max_bound_ms=12_000))
    assert controller.get("/bound").json()["bound_ms"] == 12_000


def test_a_bound_that_was_recommended_before_the_mode_was_set_is_rolled_out_with_what_was_predicted(
    controller: Controller,
) -> None:
    """In Off what is recommended is for a job that restarts."""
    controller.put("/slo", TARGET)
    controller.report_all(REPORTS)
    controller.tick()
    recommended = controller.status()["recommended"]
    controller.put("/policy", at_once("Restart"))
    (rollout,) = controller.get("/rollouts").json()["rollouts"]
    assert (rollout["state"], rollout["to_bound_ms"]) == ("Published", recommended["bound_ms"])
    assert rollout["predicted"]["rows"] == 1_100


@pytest.mark.parametrize("mode", ["OnRestart", "Restart", "Live"])
def test_a_mode_is_published_together_with_the_bound_that_is_recommended_in_it_and_with_no_other(
    controller: Controller, mode: str
) -> None:
    """Where a change takes no restart, it is narrower than the one that was recommended in Off."""
    controller.put("/slo", TARGET)
    controller.report_all(REPORTS)
    controller.tick()
    before = controller.get("/bound").json()["generation"]
    in_off = controller.status()["recommended"]["bound_ms"]
    controller.put("/policy", at_once(mode))
    (rollout,) = controller.get("/rollouts").json()["rollouts"]
    body, recommended = controller.get("/bound").json(), controller.status()["recommended"]["bound_ms"]
    assert (body["mode"], body["bound_ms"]) == (mode, recommended)
    assert (rollout["state"], rollout["to_bound_ms"]) == ("Published", recommended)
    assert body["generation"] == rollout["generation"] == before + 1
    assert (recommended < in_off) == (mode != "Restart")


def test_mode_off_takes_the_bound_back_at_once(controller: Controller) -> None:
    controller.put("/slo", TARGET)
    controller.put("/policy", at_once())
    controller.report_all(REPORTS)
    controller.tick()
    controller.put("/policy", at_once("Off"))
    body = controller.get("/bound").json()
    assert (body["mode"], body["bound_ms"], body["reason"]) == ("Off", None, OFF)


def test_a_bound_once_published_is_held_when_the_evidence_no_longer_suffices(controller: Controller) -> None:
    controller.put("/slo", TARGET)
    controller.put("/policy", at_once())
    controller.report_all(REPORTS)
    controller.tick()
    before = controller.get("/bound").json()
    controller.put("/slo", {"target_ppm": 999_999})
    assert "NotEnoughEvidence" in conditions(controller)
    assert controller.get("/bound").json() == before
