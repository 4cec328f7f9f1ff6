"""SLO, policy, recommendation and published bound: the service's loop, over HTTP."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, event, select

from tidemark.controller.bounds.publication import NO_REPORT, OFF
from tidemark.controller.db.tables import RecommendationRow, StreamRow
from tidemark.controller.decide.load import load
from tidemark.controller.loop import Tick
from tidemark.models.curve import Curve
from tidemark.models.granule_counts import GranuleCounts
from tidemark.models.operators import row_level, tumbling
from tidemark.models.wire import Acknowledgement, Report, to_json_object

from support.controller_app import STREAM, Controller
from support.oracles import replay_reports
from support.policies import at_once
from support.reports import START_US, exponential_batches, query_reports
from support.soak import with_soak

BATCHES = exponential_batches(24, 50, slow=3)
REPORTS = query_reports(BATCHES)
TARGET = {"target_ppm": 900_000}
MAX_STATEMENTS = 40
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
    assert [step["name"] for step in status["recommended"]["steps"]] == [
        "quantile",
        "round up",
        "unknown rows",
        "no data",
        "catching up",
        "silent partitions",
        "narrow late",
        "latency cap",
        "limits",
        "dead band",
    ]
    # A quarter of the rows is 30 s later, so nine tenths take that, less what is left of a window of 10 s.
    assert 20_000 < body["bound_ms"] < 40_000
    assert conditions(either) == {"WaitsForStart", "Rolling"}

    either.acknowledge(acknowledged(2, body["bound_ms"]))
    status = either.status()
    assert status["applied"]["generation"] == 2
    assert [condition["type"] for condition in status["conditions"]] == ["Rolling"]


def test_the_recommendation_meets_the_target_on_the_exact_needs(controller: Controller) -> None:
    controller.put("/slo", TARGET)
    controller.report_all(REPORTS)
    controller.tick()
    bound_ms = controller.status()["recommended"]["bound_ms"]
    # The first two batches met a filter that knew nothing; the replay counts them as admitted.
    exact = Curve.of_replay(replay_reports(REPORTS), REPORTS[0].operator).at(bound_ms * 1_000)
    assert exact.late <= exact.rows * 0.1
    # Not much wider than needed: confidence and the sketch's error take a little.
    narrower = Curve.of_replay(replay_reports(REPORTS), REPORTS[0].operator).at(round(bound_ms * 0.9) * 1_000)
    assert narrower.late > narrower.rows * 0.1


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

    def broken(session: Any, stream_id: int, *given: Any) -> Any:
        if session.get_one(StreamRow, stream_id).job == "b":
            raise RuntimeError("planted")
        return load(session, stream_id, *given)

    monkeypatch.setattr("tidemark.controller.decide.decider.load", broken)
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


# -- specifications ------------------------------------------------------------------------------------------------


def test_an_slo_reads_back_as_it_was_set_with_its_defaults(controller: Controller) -> None:
    answer = controller.put("/slo", {"target_ppm": 995_000})
    assert answer.status_code == 200
    assert answer.headers["etag"] == '"1"'
    read = controller.get("/slo").json()
    assert (read["target_ppm"], read["horizon_ms"]) == (995_000, 86_400_000)


@pytest.mark.parametrize(
    ("body", "pointer", "sentence"),
    [
        ({"target_ppm": 0.995}, "/target_ppm", "valid integer"),
        ({"target_ppm": "0.995"}, "/target_ppm", "valid integer"),
        ({"target_ppm": True}, "/target_ppm", "valid integer"),
        ({"target_ppm": 1_000_000}, "/target_ppm", "less than 1000000"),
        ({"target_ppm": 0}, "/target_ppm", "greater than 0"),
        ({"target_ppm": None}, "/target_ppm", "valid integer"),
        ({}, "/target_ppm", "required"),
        ({"target_ppm": 900_000, "target": "0.9"}, "/target", "nexpected"),
        ({"target_ppm": 900_000, "latency_cap_ms": 2**53 + 1}, "/latency_cap_ms", "less than or equal to"),
        ({"target_ppm": 900_000, "latency_cap_ms": -1}, "/latency_cap_ms", "greater than or equal to 0"),
        ({"target_ppm": 900_000, "latency_cap_ms": 1.5}, "/latency_cap_ms", "integer"),
        ({"target_ppm": 900_000, "on_conflict": "both"}, "/on_conflict", "'miss_target'"),
        ({"target_ppm": 900_000, "horizon": 1}, "/horizon", "nexpected"),
    ],
    ids=str,
)
def test_a_bad_slo_is_refused_with_a_clear_sentence(
    controller: Controller, body: dict[str, Any], pointer: str, sentence: str
) -> None:
    answer = controller.put("/slo", body)
    assert answer.status_code == 422
    (error,) = answer.json()["errors"]
    assert error["pointer"] == pointer
    assert sentence in error["detail"]
    assert controller.get("/slo").status_code == 404


@pytest.mark.parametrize("what", ["slo", "policy"])
def test_if_match_lets_only_the_current_version_be_replaced(controller: Controller, what: str) -> None:
    bodies: list[Any] = [TARGET, {"target_ppm": 800_000}, {"target_ppm": 700_000}]
    if what == "policy":
        bodies = [{"min_bound_ms": number} for number in (1, 2, 3)]
    absent = controller.put(f"/{what}", bodies[0], headers={"If-Match": '"1"'})
    assert (absent.status_code, absent.json()["type"]) == (412, "urn:tidemark:problem:precondition-failed")
    assert controller.get().status_code == 404
    assert controller.put(f"/{what}", bodies[0]).headers["etag"] == '"1"'
    assert controller.put(f"/{what}", bodies[1], headers={"If-Match": '"1"'}).headers["etag"] == '"2"'
    assert controller.put(f"/{what}", bodies[2], headers={"If-Match": '"1"'}).status_code == 412
    assert controller.put(f"/{what}", bodies[2], headers={"If-Match": '"7", "2"'}).headers["etag"] == '"3"'
    assert controller.put(f"/{what}", bodies[2]).headers["etag"] == '"3"'
    assert controller.get(f"/{what}").headers["etag"] == '"3"'


@pytest.mark.parametrize("mode", ["Off", "OnRestart", "Restart", "Live"])
def test_a_stream_that_has_acknowledged_nothing_takes_every_mode(controller: Controller, mode: str) -> None:
    answer = controller.put("/policy", at_once(mode))
    assert (answer.status_code, answer.json()["mode"]) == (200, mode)
    assert controller.get("/bound").json()["mode"] == mode


def test_a_mode_that_there_is_not_is_refused_and_says_which_there_are(controller: Controller) -> None:
    answer = controller.put("/policy", at_once("Auto"))
    assert answer.status_code == 422
    assert answer.json()["errors"] == [
        {"pointer": "/mode", "detail": "Input should be 'Off', 'OnRestart', 'Restart' or 'Live'"}
    ]


def test_an_empty_range_of_bounds_is_refused_and_the_default_policy_only_watches(
    controller: Controller,
) -> None:
    assert controller.put("/policy", {"min_bound_ms": 9, "max_bound_ms": 8}).status_code == 422
    controller.report(REPORTS[0])
    assert controller.get("/policy").json() == {
        "mode": "Off",
        "min_bound_ms": 0,
        "max_bound_ms": None,
        "directions": ["Widen", "Narrow"],
        "margin_ppm": 0,
        "cooldown_ms": 3_600_000,
        "max_narrowings_a_day": None,
        "max_narrowing_ppm": 500_000,
        "evidence_ms": 3_600_000,
        "evidence_windows": 100,
        "freeze_windows": [],
        "paused": False,
        "on_no_data": "hold",
        "approval": "first",
        "late": None,
        "generation": 0,
        "updated_us": None,
    }


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


# -- status --------------------------------------------------------------------------------------------------------


def test_without_an_slo_nothing_is_recommended_and_that_is_said(controller: Controller) -> None:
    controller.report_all(REPORTS)
    assert controller.tick() == Tick(0, 0, 0)
    status = controller.status()
    assert (status["recommended"], status["slo"]) == (None, None)
    assert conditions(controller) == {"NoSlo"}


def test_too_little_evidence_is_said_and_not_guessed(controller: Controller) -> None:
    controller.put("/slo", {"target_ppm": 999_000})
    controller.report_all(REPORTS[:4])
    controller.tick()
    status = controller.status()
    assert status["recommended"]["bound_ms"] is None
    assert status["recommended"]["generation"] is None
    assert "NotEnoughEvidence" in conditions(controller)
    assert "100 of the 2,995 rows" in status["recommended"]["steps"][0]["reason"]


def test_a_gap_in_batch_ids_is_unknown_and_never_complete(controller: Controller) -> None:
    everything = query_reports(exponential_batches(20, 10, 0.01))
    controller.report_all(everything)
    assert controller.status()["completeness"]["exact"] is True
    controller.report_all(
        [replace(report, query_id="gappy") for report in everything if report.batch_id not in {7, 8, 12}]
    )
    status = controller.status()
    assert status["coverage"][0] == {
        "query_id": "gappy",
        "first": 0,
        "last": 19,
        "missing_batches": 3,
        "missing": [{"first": 7, "last": 8}, {"first": 12, "last": 12}],
    }
    assert (status["completeness"]["exact"], status["completeness"]["missing_batches"]) == (False, 3)
    assert "CoverageGap" in conditions(controller)


def test_under_a_contradicted_declaration_nothing_is_judged_nor_recommended_until_it_is_put_right(
    controller: Controller,
) -> None:
    """The keys, and with them fates and needs, would be another operator's."""
    why = "the call declares a tumbling window of 10 s, but the query has a tumbling window of 5 min"
    reports = [replace(report, query_id="contradicted") for report in REPORTS]
    wrong = [replace(report, contradiction=why) for report in reports[:10]]
    controller.put("/slo", {"target_ppm": 900_000})
    controller.report_all(wrong)
    controller.tick()
    status = controller.status()
    found = {condition["type"]: condition["detail"] for condition in status["conditions"]}
    assert found["OperatorContradicted"].startswith(why)
    assert status["completeness"]["rows"] == 0
    assert status["completeness"]["unjudged_rows"] == sum(report.rows for report in wrong)
    assert (status["evidence"]["rows"], status["recommended"]["bound_ms"]) == (0, None)

    controller.report_all(reports[10:])
    assert "OperatorContradicted" not in conditions(controller)
    assert controller.status()["completeness"]["rows"] > 0


def test_rows_that_were_not_counted_are_between_least_and_most(controller: Controller) -> None:
    short = [
        replace(report, counts=GranuleCounts.of(()), rows=50) if report.batch_id == 5 else report
        for report in REPORTS[:10]
    ]
    controller.report_all(short)
    body = controller.status()["completeness"]
    assert (body["unjudged_rows"], body["exact"]) == (50, False)
    assert body["min_ppm"] == (body["rows"] - body["late_max"]) * 1_000_000 // 500
    assert body["max_ppm"] == (500 - body["late_min"]) * 1_000_000 // 500
    assert "RowsNotCounted" in conditions(controller)


def test_completeness_is_provisional_until_the_watermark_passes_the_last_window(
    controller: Controller,
) -> None:
    controller.report_all(REPORTS)
    assert controller.status()["completeness"]["provisional"] is True
    controller.report(
        replace(
            query_reports([[]])[0],
            batch_id=40,
            started_us=START_US + 40_000_000,
            watermark_ms=START_US // 1_000 + 100_000,
        )
    )
    assert controller.status()["completeness"]["provisional"] is False


def test_a_cap_that_completeness_breaks_is_a_conflict_and_the_bound_in_use_is_held(
    controller: Controller,
) -> None:
    controller.put("/slo", {**TARGET, "latency_cap_ms": 1})
    controller.report_all(REPORTS)
    controller.tick()
    assert controller.status()["recommended"]["bound_ms"] is None
    assert "ConstraintsConflict" in conditions(controller)
    controller.put("/slo", {**TARGET, "latency_cap_ms": 1, "on_conflict": "exceed_latency_cap"})
    assert controller.status()["recommended"]["bound_ms"] > 20_000
    assert "ConstraintsConflict" in conditions(controller)


@pytest.mark.slow
def test_a_margin_that_crosses_the_cap_is_a_conflict_that_says_so(controller: Controller) -> None:
    """The rows' own bound is within the cap; with the margin on top it is above, and the SLO sets no on_conflict."""
    controller.report_all(query_reports(exponential_batches(300, 8, slow=3)))
    controller.put("/slo", {"target_ppm": 900_000})
    controller.tick()
    asked_ms = controller.status()["recommended"]["bound_ms"]
    (point,) = controller.get("/curve", params={"bound_ms": asked_ms}).json()["points"]
    controller.put("/slo", {"target_ppm": 900_000, "latency_cap_ms": point["latency_wall_ms"] + 1})
    assert "ConstraintsConflict" not in conditions(controller)

    controller.put("/policy", {"margin_ppm": 1_000_000})

    status = controller.status()
    assert status["recommended"]["bound_ms"] is None
    assert "NotEnoughEvidence" not in conditions(controller)
    (body,) = [one["detail"] for one in status["conditions"] if one["type"] == "ConstraintsConflict"]
    assert "the SLO sets no on_conflict" in body


def test_a_chain_that_an_earlier_release_wrote_is_read(controller: Controller) -> None:
    controller.put("/slo", TARGET)
    controller.report_all(REPORTS)
    controller.tick()
    with controller.service.database.write() as session:
        row = session.scalars(select(RecommendationRow)).one()
        row.steps = json.dumps([["quantile", 7, "why"], ["latency cap", None, "above the cap"]])
        row.bound_ms, row.conflict = None, True
    status = controller.status()
    assert [step["reason"] for step in status["recommended"]["steps"]] == ["why", "above the cap"]
    assert [one["detail"] for one in status["conditions"] if one["type"] == "ConstraintsConflict"] == [
        "above the cap"
    ]


def test_the_effective_bound_is_what_the_monotone_watermark_allows(controller: Controller) -> None:
    controller.report_all(REPORTS)
    status = controller.status()
    assert status["in_use_bound_ms"] == status["effective_bound_ms"] == 5_000
    # A restart with a wider bound: the watermark stays where it was until the base has moved on by the difference.
    wider = replace(
        REPORTS[-1], batch_id=40, started_us=START_US + 40_000_000, bound_ms=25_000, run_id="second"
    )
    controller.report(wider)
    status = controller.status()
    assert status["in_use_bound_ms"] == 25_000
    assert 5_000 <= status["effective_bound_ms"] < 10_000


def test_before_the_first_watermark_nothing_is_effective(controller: Controller) -> None:
    controller.report(REPORTS[0])
    assert controller.status()["effective_bound_ms"] is None


# -- curve and partitions ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("operator", [tumbling("10 seconds"), row_level()], ids=["windows", "rows"])
def test_the_curve_is_never_more_hopeful_than_the_exact_one_and_close_to_it(
    controller: Controller, operator: Any
) -> None:
    reports = query_reports(BATCHES, operator)
    controller.report_all(reports)
    answer = controller.get("/curve", params={"bound_ms": [0, 5_000, 20_000, 40_000]}).json()
    assert answer["basis"]["relative_error_ppm"] == 5_000
    exact = Curve.of_replay(replay_reports(reports), operator)
    early = 100
    for point in answer["points"]:
        truth = exact.at(point["bound_ms"] * 1_000)
        closer = exact.at(round(point["bound_ms"] * 1_000 * 0.98) - 2_000)
        assert point["rows"] == truth.rows - early
        assert truth.late <= point["late"] <= closer.late
        assert (point["latency_unknown"] == "NoWindows") == (operator == row_level())
        assert (point["latency_wall_ms"] is None) == (point["latency_unknown"] is not None)
        assert (point["latency_at_least_ms"] is None) == (point["latency_unknown"] != "WindowsOpen")


def test_the_latencies_of_the_curve_are_those_of_the_windows_that_the_horizon_can_tell_of(
    controller: Controller,
) -> None:
    # One row a second on time: the window [0, 10) is emitted by the first batch whose base has reached its end + bound.
    on_time = [[("0", START_US + n * 1_000_000)] for n in range(60)]
    controller.report_all(query_reports(on_time, bound_ms=0))
    zero, three = controller.get("/curve", params={"bound_ms": [0, 3_000]}).json()["points"]
    # The base reaches the end in batch 10, batch 11 emits with it, and ends 100 ms after its start.
    assert (zero["latency_base_ms"], zero["latency_wall_ms"]) == (0, 1_100)
    assert (three["latency_base_ms"], three["latency_wall_ms"]) == (3_000, 4_100)


def test_windows_that_had_ended_before_the_query_began_are_no_latency_of_any_bound(
    controller: Controller,
) -> None:
    """A replay of last year's rows: its windows close a year after their end, whatever the bound."""
    year_us = 365 * 86_400_000_000
    reports = query_reports([[("0", START_US + n * 1_000_000)] for n in range(60)], bound_ms=0)
    controller.put("/slo", TARGET)
    controller.report_all([replace(report, started_us=report.started_us + year_us) for report in reports])
    controller.clock.now_us = START_US + year_us + 60_000_000
    controller.tick()

    (point,) = controller.get("/curve", params={"bound_ms": 0}).json()["points"]
    transition = controller.status()["transition"]

    assert (point["latency_wall_ms"], point["latency_at_least_ms"]) == (None, None)
    assert point["latency_unknown"] == "NoWindows"
    assert "latency" not in (transition or {"text": ""})["text"]


def test_a_latency_of_windows_that_are_still_open_is_said_to_be_no_more_than_a_floor(
    controller: Controller,
) -> None:
    """A minute of rows under a bound of ten: no window has closed yet."""
    controller.report_all(query_reports([[("0", START_US + n * 1_000_000)] for n in range(60)], bound_ms=0))

    (point,) = controller.get("/curve", params={"bound_ms": 600_000}).json()["points"]
    preview = controller.get("/preview", params={"bound_ms": 600_000}).json()

    assert (point["windows_emitted"], point["latency_wall_ms"]) == (0, None)
    assert point["latency_at_least_ms"] < 60_000
    for name in ("latency_wall_ms", "latency_at_least_ms", "latency_unknown"):
        assert preview[name] == point[name]
    assert "windows would come at least " in preview["text"]
    assert "would still be open" in preview["text"]


def test_without_bounds_the_curve_has_a_ladder_around_the_needs(controller: Controller) -> None:
    controller.report_all(REPORTS)
    points = controller.get("/curve").json()["points"]
    bounds = [point["bound_ms"] for point in points]
    assert bounds == sorted(set(bounds))
    assert {0, 5_000} <= set(bounds)
    assert (points[-1]["late"], points[-1]["completeness_ppm"]) == (0, 1_000_000)


@pytest.mark.parametrize("bound", ["-1", "1.5", "x", str(2**70)])
def test_a_bad_bound_is_a_problem_that_names_the_parameter(controller: Controller, bound: str) -> None:
    controller.report(REPORTS[0])
    answer = controller.get("/curve", params={"bound_ms": bound})
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["pointer"].startswith("bound_ms")


def test_a_slow_partition_stands_out(controller: Controller) -> None:
    controller.put("/slo", TARGET)
    controller.report_all(REPORTS)
    page = controller.get("/partitions").json()
    assert page["share_ppm"] == 900_000
    parts = {part["partition"]: part for part in page["partitions"]}
    assert set(parts) == {"0", "1", "2", "3"}
    assert parts["3"]["need_ms"] > 4 * max(parts[name]["need_ms"] for name in "012")
    assert parts["3"]["behind_ms"] > 25_000
    assert sum(part["rows"] for part in parts.values()) == 1_200
    assert parts["0"]["last_event_time_us"] <= max(
        time for rows in BATCHES for name, time in rows if name == "0"
    )


def test_lists_are_paged_by_opaque_cursors(controller: Controller) -> None:
    controller.report_all(REPORTS[:1])
    for job in ("z", "a", "m/"[:1]):
        controller.http.put(f"/v1/jobs/{job}/streams/s/slo", json=TARGET)
    names: list[str] = []
    cursor: str | None = None
    while True:
        page = controller.http.get(
            "/v1/fleet", params={"limit": 3, **({"cursor": cursor} if cursor else {})}
        ).json()
        names += [item["job"] for item in page["streams"]]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert names == ["a", "job", "m", "z"]
    first = controller.get("/partitions", params={"limit": 2}).json()
    rest = controller.get("/partitions", params={"limit": 2, "cursor": first["next_cursor"]}).json()
    assert [part["partition"] for part in first["partitions"] + rest["partitions"]] == ["0", "1", "2", "3"]
    assert rest["next_cursor"] is None


@pytest.mark.parametrize("cursor", ["x", "!!!", "WyJhIl0", "eyJhIjoxfQ", "é"])
def test_a_cursor_that_is_not_ours_is_refused(controller: Controller, cursor: str) -> None:
    answer = controller.http.get("/v1/fleet", params={"cursor": cursor})
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["pointer"] == "cursor"


@pytest.mark.parametrize("path", ["", "/slo", "/policy", "/curve", "/partitions"])
def test_an_unknown_stream_is_404_where_there_is_nothing_to_say(controller: Controller, path: str) -> None:
    answer = controller.get(path)
    assert (answer.status_code, answer.json()["type"]) == (404, "urn:tidemark:problem:stream-not-found")
    assert answer.json()["instance"] == STREAM + path
