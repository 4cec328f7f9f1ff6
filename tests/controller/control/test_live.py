"""Modes Restart and Live: what is rejected, what a live job gets, and what is kept and shown of it."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from typing import Any

import pytest
from click.testing import CliRunner

from tidemark.controller.control.rollout.publish import answer_for, envelope_for, pinned_answer
from tidemark.controller.tools.cli import app
from tidemark.models.protocol.downstream import Downstream
from tidemark.models.protocol.messages import (
    Acknowledgement,
    AppendDelay,
    Envelope,
    LiveState,
    Mode,
    Report,
    to_json_object,
)
from tidemark.models.specs.pin import FLEET, StoredPin
from tidemark.models.specs.slo import Policy, Slo

from support.controller_app import Controller
from support.policies import at_once
from support.reports import START_US, exponential_batches, query_reports
from support.served import served
from support.streams import SECOND

BATCHES = exponential_batches(24, 50, slow=3)
REPORTS = query_reports(BATCHES)
TARGET = {"target_ppm": 900_000}
STATE = LiveState(
    ceiling_ms=60_000,
    control_ms=START_US // 1_000,
    reason="rows that are missing are waited for",
    behind=("3",),
    idle=("0", "2"),
    ceiling_used_ppm=500_000,
    last_contact_us=START_US,
)


def acknowledged(ceiling_ms: int | None, **changes: Any) -> Acknowledgement:
    fields: dict[str, Any] = {
        "query_id": "query",
        "run_id": "run",
        "bound_ms": 5_000,
        "generation": None,
        "source": "job",
        "mode": "Off",
        "applied_us": START_US,
        "ceiling_ms": ceiling_ms,
    }
    return Acknowledgement(**{**fields, **changes})


def conditions(controller: Controller) -> dict[str, str]:
    return {condition["type"]: condition["detail"] for condition in controller.status()["conditions"]}


def bound(controller: Controller) -> dict[str, Any]:
    answer: dict[str, Any] = controller.get("/bound").json()
    return answer


def with_future(report: Report, partition: str, rows: int) -> Report:
    """The report with ``rows`` of a partition future-dated."""
    counts = report.counts
    future = tuple(rows if name == partition else 0 for name in counts.partitions)
    return replace(report, counts=replace(counts, future_rows=future))


# -- modes ---------------------------------------------------------------------------------------------------------


def test_live_is_rejected_while_the_job_has_no_ceiling_and_nothing_changes(
    controller: Controller,
) -> None:
    controller.acknowledge(acknowledged(None))
    answer = controller.put("/policy", at_once("Live"))
    assert (answer.status_code, answer.json()["type"]) == (409, "urn:tidemark:problem:live-refused")
    (error,) = answer.json()["errors"]
    assert error["pointer"] == "/mode"
    assert error["detail"].startswith("the job cannot be steered")
    assert controller.get("/policy").json()["generation"] == 0
    assert bound(controller)["mode"] == "Off"


def test_live_is_rejected_while_the_ceiling_is_below_the_bound_and_the_slowest_partition(
    either: Controller,
) -> None:
    """Partition 3 is some 30 s behind and the bound in use is 5 s: 20 s leave no room, 60 s do."""
    either.report_all(REPORTS)
    either.acknowledge(acknowledged(20_000))
    answer = either.put("/policy", at_once("Live"))
    assert answer.status_code == 409
    body = answer.json()["detail"]
    assert body.startswith("/mode: the job's ceiling, 20 s, is below 3")
    assert "5 s of bound and" in body
    assert "by which partition '3' is behind; give its call a ceiling of at least 3" in body
    either.acknowledge(acknowledged(60_000, applied_us=START_US + 1))
    assert either.put("/policy", at_once("Live")).status_code == 200


@pytest.mark.slow
def test_a_partition_that_has_long_been_silent_takes_no_room_under_the_ceiling(
    controller: Controller,
) -> None:
    gone = [
        [row for row in batch if row[0] != "3" or n < 8]
        for n, batch in enumerate(exponential_batches(70, 20, slow=3))
    ]
    controller.report_all(query_reports(gone))
    controller.acknowledge(acknowledged(30_000))
    assert controller.put("/policy", at_once("Live")).status_code == 200


def test_idle_time_is_no_distance(controller: Controller) -> None:
    """A partition that is seen every tenth batch, always on time, is never behind, however long it pauses."""
    batches = [
        [("often", START_US + n * SECOND)] + ([("seldom", START_US + n * SECOND)] if n % 10 == 0 else [])
        for n in range(30)
    ]
    controller.report_all(query_reports(batches))
    found = {part["partition"]: part for part in controller.get("/partitions").json()["partitions"]}
    assert (found["seldom"]["behind_ms"], found["seldom"]["skew_ms"]) == (9_000, 0)


def test_a_future_dated_row_makes_no_partition_late(controller: Controller) -> None:
    batches = [[("0", START_US + n * SECOND), ("1", START_US + n * SECOND)] for n in range(12)]
    batches[6].append(("1", START_US + 86_400 * SECOND))
    controller.report_all(query_reports(batches))
    controller.acknowledge(acknowledged(10_000))
    assert controller.put("/policy", at_once("Live")).status_code == 200


def test_live_is_accepted_before_the_first_acknowledgement_and_a_missing_ceiling_is_a_condition(
    controller: Controller,
) -> None:
    assert controller.put("/policy", at_once("Live")).status_code == 200
    assert "LiveWithoutCeiling" not in conditions(controller)
    controller.acknowledge(acknowledged(None))
    assert conditions(controller)["LiveWithoutCeiling"].startswith("the job cannot be steered")
    controller.acknowledge(acknowledged(60_000, run_id="second", applied_us=START_US + 1))
    assert "LiveWithoutCeiling" not in conditions(controller)


def test_a_ceiling_that_partitions_outgrow_is_a_condition(controller: Controller) -> None:
    controller.acknowledge(acknowledged(20_000))
    controller.put("/policy", at_once("Live"))
    assert "SkewBeyondCeiling" not in conditions(controller)
    controller.report_all(REPORTS)
    assert "partition '3' is behind" in conditions(controller)["SkewBeyondCeiling"]


def test_restart_gets_an_answer_as_onrestart_does(controller: Controller) -> None:
    """A wider one: each change takes a restart, so it is to last. First the mode is published with the bound so far."""
    controller.put("/slo", TARGET)
    controller.report_all(REPORTS)
    body = []
    for mode in ("OnRestart", "Restart"):
        controller.put("/policy", at_once(mode))
        body.append(bound(controller))
    assert body[1]["bound_ms"] > body[0]["bound_ms"] > 20_000
    assert [answer["envelope"] for answer in body] == [None, None]
    assert body[1]["generation"] == body[0]["generation"] + 2


# -- the envelope --------------------------------------------------------------------------------------------------


def test_a_live_job_gets_its_envelope_and_the_recommended_bound(either: Controller) -> None:
    either.put("/slo", {**TARGET, "latency_cap_ms": 90_000})
    either.put("/policy", at_once("Live", max_bound_ms=50_000))
    either.report_all(REPORTS)
    either.tick()
    body = bound(either)
    assert (body["mode"], body["pin"]) == ("Live", None)
    assert body["bound_ms"] == either.status()["recommended"]["bound_ms"]
    assert body["envelope"] == either.status()["published"]["envelope"]
    assert body["envelope"] == {
        "target_ppm": 900_000,
        "latency_cap_ms": 90_000,
        "min_bound_ms": None,
        "max_bound_ms": 50_000,
    }


def test_without_an_slo_the_envelope_has_no_target_and_partitions_keep_to_the_bound(
    controller: Controller,
) -> None:
    controller.put("/policy", at_once("Live", min_bound_ms=1_000))
    body = bound(controller)
    assert body["envelope"] == {
        "target_ppm": None,
        "latency_cap_ms": None,
        "min_bound_ms": 1_000,
        "max_bound_ms": None,
    }
    assert body["bound_ms"] is None


@pytest.mark.parametrize(
    ("on_conflict", "cap_ms"), [(None, 9), ("miss_target", 9), ("exceed_latency_cap", None)]
)
def test_a_cap_that_may_be_exceeded_does_not_limit_the_fast_policy(
    on_conflict: Any, cap_ms: int | None
) -> None:
    slo = Slo(target_ppm=990_000, latency_cap_ms=9, on_conflict=on_conflict)
    answer = answer_for(Policy(mode="Live"), 7, "because", envelope_for(Policy(mode="Live"), slo))
    assert answer.envelope == Envelope(target_ppm=990_000, latency_cap_ms=cap_ms)


@pytest.mark.parametrize(("cap_ms", "left_ms"), [(10_000, 3_999), (6_000, 0), (None, None)])
def test_behind_a_join_the_fast_policy_gets_the_cap_less_the_joins_retention(
    cap_ms: int | None, left_ms: int | None
) -> None:
    slo = Slo(target_ppm=990_000, latency_cap_ms=cap_ms)
    envelope = envelope_for(Policy(mode="Live"), slo, Downstream(retention_ms=6_001))
    assert envelope is not None
    assert envelope.latency_cap_ms == left_ms


def test_every_change_of_the_envelope_is_a_new_generation_and_nothing_else_is(controller: Controller) -> None:
    controller.put("/policy", at_once("Live"))
    steps: list[tuple[str, dict[str, Any], int]] = [
        ("/slo", TARGET, 1),
        ("/slo", {**TARGET, "horizon_ms": 60_000}, 0),
        ("/slo", {**TARGET, "latency_cap_ms": 60_000}, 1),
        ("/policy", at_once("Live", min_bound_ms=5), 1),
        ("/policy", at_once("Live", min_bound_ms=5), 0),
        ("/policy", at_once(min_bound_ms=5), 1),
        ("/slo", TARGET, 0),
    ]
    for path, body, more in steps:
        before = controller.get("/bound")
        assert controller.put(path, body).status_code == 200
        after = controller.get("/bound")
        assert after.json()["generation"] - before.json()["generation"] == more, (path, body)
        assert (after.headers["etag"] != before.headers["etag"]) == bool(more)


@pytest.mark.parametrize("mode", ["Off", "OnRestart", "Restart", "Live"])
@pytest.mark.parametrize("to", ["Off", "Ceiling"])
@pytest.mark.parametrize("ceiling_ms", [None, 60_000])
def test_only_live_has_an_envelope_and_only_a_ceiling_gives_a_pinned_job_a_bound(
    mode: Mode, to: Any, ceiling_ms: int | None
) -> None:
    policy = Policy(mode=mode)
    pin = StoredPin.on(FLEET, to, "why", 0)
    answer = pinned_answer(policy, pin, ceiling_ms, envelope_for(policy, None))
    assert (answer.envelope is not None) == (mode == "Live")
    assert answer.pin == to
    assert answer.bound_ms == (ceiling_ms if to == "Ceiling" and mode != "Off" else None)


# -- what is kept of it --------------------------------------------------------------------------------------------


def test_what_the_fast_policy_did_is_shown_as_of_the_newest_batch(either: Controller) -> None:
    delay = AppendDelay(rows=40, min_us=-1_500, mean_us=20_999, max_us=3_000_000, by_broker=True)
    either.report_all([*REPORTS[:-1], replace(REPORTS[-1], live=STATE, append_delay=delay)])
    status = either.status()
    assert status["live"] == {
        "control_ms": START_US // 1_000,
        "ceiling_ms": 60_000,
        "ceiling_used_ppm": 500_000,
        "behind": ["3"],
        "behind_partitions": 1,
        "idle": ["0", "2"],
        "idle_partitions": 2,
        "reason": "rows that are missing are waited for",
        "failure": None,
        "last_contact_us": START_US,
        "pin": None,
    }
    with served(either.app) as url:
        said = CliRunner().invoke(app, ["status", "job", "stream", "--url", url]).stdout
    assert f"{STATE.reason}; 2 partitions idle; 1 partition behind" in said
    assert status["append_delay"] == {
        "rows": 40,
        "min_us": delay.min_us,
        "mean_us": delay.mean_us,
        "max_us": delay.max_us,
        "by_broker": True,
    }


def test_an_older_report_that_comes_late_does_not_change_the_live_state(controller: Controller) -> None:
    controller.report(replace(REPORTS[-1], live=STATE))
    controller.report(replace(REPORTS[-2], live=replace(STATE, reason="earlier")))
    assert controller.status()["live"]["reason"] == STATE.reason


def test_a_job_that_no_longer_runs_live_shows_no_live_state(controller: Controller) -> None:
    controller.report(replace(REPORTS[-2], live=STATE))
    controller.report(REPORTS[-1])
    assert controller.status()["live"] is None


def test_long_lists_of_partitions_are_counted_and_cut(controller: Controller) -> None:
    names = tuple(f"{n:04}" for n in range(1_000))
    controller.report(replace(REPORTS[0], live=replace(STATE, idle=names, reason="x" * 10_000)))
    body = controller.status()["live"]
    assert (body["idle_partitions"], len(body["idle"]), len(body["reason"])) == (1_000, 100, 1_000)


@pytest.mark.parametrize(("used_ppm", "near"), [(799_999, False), (800_000, True), (1_200_000, True)])
def test_a_watermark_that_trails_by_most_of_the_ceiling_is_a_condition(
    controller: Controller, used_ppm: int, near: bool
) -> None:
    controller.report(replace(REPORTS[0], live=replace(STATE, ceiling_used_ppm=used_ppm)))
    assert ("CeilingNear" in conditions(controller)) is near


def test_where_live_fails_a_condition_and_one_event_name_the_error_and_no_larger_ceiling_is_advised(
    either: Controller,
) -> None:
    """Until it decides again; when it fails once more, that counts once more."""
    why = "the live policy failed and learns anew, so the bound decides: ValueError: shapes"
    failed = replace(STATE, failure=why, reason=f"{why}; 5 s behind partition 3", ceiling_used_ppm=1_000_000)
    states = [STATE, failed, replace(failed, failure=why + " of another batch"), STATE, failed]
    either.put("/slo", TARGET)
    for report, live in zip(REPORTS, states, strict=False):
        either.report(replace(report, live=live))
    status = either.status()

    assert status["live"]["failure"] == why
    assert status["summary"] == why
    assert conditions(either)["LiveFailed"] == why
    assert "CeilingNear" not in conditions(either)
    events = [each for each in either.get("/events").json()["events"] if each["kind"] == "LiveFailed"]
    assert [(each["reason"], each["count"]) for each in events] == [(why, 2)]
    either.report(replace(REPORTS[5], live=STATE))
    assert "LiveFailed" not in conditions(either)


def test_future_dated_rows_are_counted_by_partition_and_a_condition_within_the_horizon(
    either: Controller,
) -> None:
    early = [with_future(report, "1", 2) for report in REPORTS[:2]]
    either.report_all([*early, *(with_future(report, "2", 1) for report in REPORTS[2:3]), *REPORTS[3:]])
    body = conditions(either)["FutureRows"]
    assert body.startswith("5 rows were future-dated and set back to the clock, in partitions '1', '2'")
    page = either.get("/partitions").json()["partitions"]
    assert {part["partition"]: part["future_rows"] for part in page} == {"0": 0, "1": 4, "2": 1, "3": 0}
    # A report of a day later leaves them behind; the totals stay.
    later = replace(
        query_reports([[("0", START_US + 90_000 * SECOND)]])[0],
        batch_id=40,
        started_us=START_US + 90_000 * SECOND,
    )
    either.clock.now_us += 90_000 * SECOND
    either.report(later)
    assert "FutureRows" not in conditions(either)
    assert either.get("/partitions").json()["partitions"][1]["future_rows"] == 4


def test_a_live_job_that_has_read_the_newest_answer_need_not_acknowledge_it(controller: Controller) -> None:
    controller.put("/slo", TARGET)
    controller.put("/policy", at_once("Live"))
    assert "BoundNotAcknowledged" in conditions(controller)
    controller.http.put("/v1/pin?job=job&stream=stream", json={"to": "Off", "reason": "INC-1"})
    assert "BoundNotAcknowledged" not in conditions(controller)
    (pinned,) = [one["detail"] for one in controller.status()["conditions"] if one["type"] == "Pinned"]
    assert pinned.endswith("is published; the job has acknowledged none")
    controller.http.delete("/v1/pin?job=job&stream=stream")
    body = bound(controller)["generation"]
    controller.acknowledge(acknowledged(60_000, generation=body, mode="Live"))
    assert "BoundNotAcknowledged" not in conditions(controller)
    controller.clock.now_us += SECOND
    controller.put("/slo", {"target_ppm": 800_000})
    assert "BoundNotAcknowledged" in conditions(controller)
    controller.report(replace(REPORTS[0], live=replace(STATE, last_contact_us=controller.clock.now_us)))
    assert "BoundNotAcknowledged" not in conditions(controller)


def test_the_evidence_says_how_many_rows_the_target_needs(controller: Controller) -> None:
    controller.report(REPORTS[0])
    assert controller.status()["evidence"]["rows_needed"] is None
    controller.put("/slo", {"target_ppm": 990_000})
    assert controller.status()["evidence"]["rows_needed"] == 417


@pytest.mark.parametrize(
    ("change", "pointer"),
    [
        ({"live": {**asdict(STATE), "ceiling_ms": 2**62}}, "/live/ceiling_ms"),
        ({"live": {**asdict(STATE), "control_ms": -(2**62)}}, "/live/control_ms"),
        ({"live": {**asdict(STATE), "last_contact_us": 2**62}}, "/live/last_contact_us"),
        (
            {"append_delay": {"rows": 1, "min_us": 3, "mean_us": 2, "max_us": 4, "by_broker": False}},
            "/append_delay/mean_us",
        ),
        (
            {"counts": {**asdict(REPORTS[0].counts), "future_rows": [0, 99, 0, 0]}},
            "/counts/future_rows/1",
        ),
    ],
    ids=str,
)
def test_an_impossible_live_report_is_rejected(
    untouched: Controller, change: dict[str, Any], pointer: str
) -> None:
    body = {**to_json_object(REPORTS[0]), **change}
    answer = untouched.send("/reports", json.dumps(body).encode())
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["pointer"] == pointer
