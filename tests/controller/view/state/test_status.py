"""What a stream's status says of its evidence, its completeness and its conditions."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tidemark.controller.server.process.loop import Tick
from tidemark.models.protocol.granule_counts import GranuleCounts

from support.controller_app import STREAM, Controller
from support.joined_job import JOIN, SIDES, JoinedJob
from support.reports import START_US, exponential_batches, query_reports
from support.rolled_job import RolledJob

REPORTS = query_reports(exponential_batches(24, 50, slow=3))
TARGET = {"target_ppm": 900_000}


def conditions(controller: Controller) -> set[str]:
    return {condition["type"] for condition in controller.status()["conditions"]}


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
    assert status["recommended"]["steps"][0]["reason"] == (
        "not enough evidence: 100 rows; 4,188 rows are needed to certify 99.9 % at 95 % confidence at every look; "
        "counted over the horizon of 1 d, of which 3 s has been reported: more rows are to come"
    )
    assert status["evidence"]["rows_needed"] == 4_188


@pytest.mark.slow
def test_the_first_minutes_give_a_number_that_nothing_acts_on_until_there_is_evidence_of_hours(
    controller: Controller,
) -> None:
    job = RolledJob(controller)
    job.put("slo", {"target_ppm": 990_000})
    job.put("policy", {"mode": "OnRestart", "approval": "none", "max_narrowing_ppm": None})
    job.run(6, 40)
    few = job.status()
    assert few["recommended"]["bound_ms"] is None
    assert few["provisional_bound"]["max_bound_ms"] is None
    assert few["provisional_bound"]["max_known_in_ms"] > 0
    assert few["summary"] == few["provisional_bound"]["text"]
    controller.snapshot()
    (row,) = controller.http.get("/v1/fleet").json()["streams"]
    assert row["provisional_bound"] == few["provisional_bound"]

    job.run(90, 40, tick=False)
    controller.tick()
    more = job.status()
    found, recommended = more["provisional_bound"], more["recommended"]["bound_ms"]
    assert 0 < found["min_bound_ms"] <= found["bound_ms"] <= found["max_bound_ms"] == recommended
    assert found["seen_ms"] < found["narrows_from_ms"] == 36_000_000
    assert (more["rollout"]["held_by"], more["published"]["bound_ms"]) == ("Evidence", None)
    assert more["summary"] == found["text"]
    assert found["text"].startswith(f"{recommended / 1_000:g} s is recommended: the rows seen need ")

    job.interval_us *= 20
    job.run(400, 40, tick=False)
    controller.tick()
    assert job.status()["provisional_bound"] is None
    controller.snapshot()
    assert controller.http.get("/v1/fleet").json()["streams"][0]["provisional_bound"] is None


@pytest.mark.slow
def test_a_side_of_a_join_gets_the_estimate_of_the_join_until_bounds_are_chosen(
    controller: Controller,
) -> None:
    job = JoinedJob(controller)
    job.begin(evidence_ms=3_600_000)
    assert controller.http.put(JOIN, json={"streams": SIDES, "target_ppm": 990_000}).is_success
    job.run(10)
    join = controller.http.get(JOIN).json()["state"]
    found = [controller.http.get(job.path(side)).json()["provisional_bound"] for side in SIDES]
    assert found[0]["text"].startswith("provisionally 24.2 s of each side of join attribution: ")
    assert [one["bound_ms"] for one in found] == [join["provisional_bound_ms"]] * 2
    assert {(one["min_bound_ms"], one["max_bound_ms"]) for one in found} == {(None, None)}

    job.run(60)
    join = controller.http.get(JOIN).json()["state"]
    assert join["provisional_bound_ms"] is None
    assert join["common_bound_ms"] >= found[0]["bound_ms"]
    assert controller.http.get(job.path(SIDES[0])).json()["provisional_bound"] is None


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
    """The rows' own bound is within the cap; with the margin on top it is above, and the SLO resolves no conflict."""
    controller.report_all(query_reports(exponential_batches(300, 8, slow=3)))
    controller.put("/policy", {"mode": "OnRestart"})
    controller.put("/slo", {"target_ppm": 900_000})
    controller.tick()
    asked_ms = controller.status()["recommended"]["bound_ms"]
    (point,) = controller.get("/curve", params={"bound_ms": asked_ms}).json()["points"]
    controller.put("/slo", {"target_ppm": 900_000, "latency_cap_ms": point["latency_wall_ms"] + 1})
    assert "ConstraintsConflict" not in conditions(controller)

    controller.put("/policy", {"mode": "OnRestart", "margin_ppm": 1_000_000})

    status = controller.status()
    assert status["recommended"]["bound_ms"] is None
    assert "NotEnoughEvidence" not in conditions(controller)
    (body,) = [one["detail"] for one in status["conditions"] if one["type"] == "ConstraintsConflict"]
    assert "the SLO does not say which gives way" in body


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


@pytest.mark.parametrize("path", ["", "/slo", "/policy", "/curve", "/partitions"])
def test_an_unknown_stream_is_404_where_there_is_nothing_to_say(untouched: Controller, path: str) -> None:
    answer = untouched.get(path)
    assert (answer.status_code, answer.json()["type"]) == (404, "urn:tidemark:problem:stream-not-found")
    assert answer.json()["instance"] == STREAM + path
