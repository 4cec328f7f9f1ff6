"""Predictions end to end: said when a bound is published, kept, and scored against the ledger under that bound."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tidemark.models.base.defaults import PREDICTION_MIN_ROWS
from tidemark.models.base.operators import row_level
from tidemark.models.protocol.messages import Acknowledgement, Report

from support.controller_app import STREAM, Controller
from support.policies import at_once
from support.reports import START_US, exponential_batches, query_reports, restarted_reports
from support.soak import with_soak
from support.streams import Row

pytestmark = pytest.mark.slow

ROWS = 120
BATCHES = exponential_batches(150, ROWS)
LEARNT = query_reports(BATCHES[:40], bound_ms=1_000, state_rows=500, state_bytes=64_000)
POLICY = at_once()


@pytest.fixture(params=with_soak(["sqlite", "postgresql"], {"postgresql"}))
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of an empty database of each kind that is there."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'tidemark.db'}"
    found: str = request.getfixturevalue("new_postgres_url")
    return found


def predictions(controller: Controller, **params: Any) -> list[dict[str, Any]]:
    answer = controller.get("/predictions", params=params)
    assert answer.status_code == 200, answer.text
    found: list[dict[str, Any]] = answer.json()["predictions"]
    return found


def of(controller: Controller, body: dict[str, Any]) -> dict[str, Any]:
    """Return the prediction of the bound in an answer."""
    (found,) = [item for item in predictions(controller) if item["generation"] == body["generation"]]
    return found


def publish(
    controller: Controller, reports: list[Report], target_ppm: int = 990_000, **slo: Any
) -> dict[str, Any]:
    """Report, decide, and return the answer that a job has."""
    controller.put("/slo", {"target_ppm": target_ppm, **slo})
    controller.put("/policy", POLICY)
    controller.report_all(reports)
    controller.tick()
    body: dict[str, Any] = controller.get("/bound").json()
    assert body["bound_ms"] is not None, body
    return body


def run_with(
    controller: Controller, body: dict[str, Any], batches: list[list[Row]], before: list[Report]
) -> list[Report]:
    """Start the job again with that answer, on ``batches``."""
    controller.acknowledge(
        Acknowledgement(
            query_id="query",
            run_id=f"generation {body['generation']}",
            bound_ms=body["bound_ms"],
            generation=body["generation"],
            source="controller",
            mode="OnRestart",
            applied_us=before[-1].started_us,
        )
    )
    reports = restarted_reports(
        before, batches, bound_ms=body["bound_ms"], generation=body["generation"], state_rows=500
    )
    controller.report_all(reports)
    controller.tick()
    return reports


def test_a_published_bound_is_predicted_and_scored_by_the_rows_that_met_it_in_effect(
    controller: Controller,
) -> None:
    body = publish(controller, LEARNT)
    (made,) = predictions(controller)
    status = controller.status()
    assert (made["generation"], made["bound_ms"], made["from_bound_ms"]) == (
        body["generation"],
        body["bound_ms"],
        1_000,
    )
    assert made["realised"]["completeness_ppm"] is None
    assert made["made_us"] == controller.clock.now_us
    shown = status["transition"]
    assert shown["kind"] == "widen"
    assert {name: shown[name] for name in shown.keys() & made.keys()} == {
        name: made[name] for name in shown.keys() & made.keys()
    }
    # At the clock's pace the watermark stands still for the difference, less what the last batch brought.
    wider_ms = body["bound_ms"] - 1_000
    assert wider_ms - 1_500 <= shown["stands_still_ms"] <= wider_ms + 1_500

    reports = run_with(controller, body, BATCHES[40:], LEARNT)
    scored = of(controller, body)
    restored_ms = LEARNT[-1].watermark_ms
    moved = next(report for report in reports if report.watermark_ms > restored_ms)
    judged = [report for report in reports if (report.late_watermark_ms or 0) > restored_ms]
    realised = scored["realised"]
    assert realised["became_effective_us"] == moved.started_us
    assert abs(scored["effective_us"] - moved.started_us) <= 2_000_000
    assert realised["rows"] == len(judged) * ROWS >= PREDICTION_MIN_ROWS
    assert realised["late_min"] == realised["late_max"]
    late = realised["late_max"]
    assert realised["completeness_ppm"] == 1_000_000 - late * 1_000_000 // realised["rows"]
    predicted_ppm = 1_000_000 - scored["late"] * 1_000_000 // scored["rows"]
    assert realised["error_ppm"] == realised["completeness_ppm"] - predicted_ppm
    assert realised["scored_us"] == controller.clock.now_us
    # What was said stays; only what came of it is added.
    assert {**scored, "realised": None} == {**made, "realised": None}


def test_on_stationary_streams_the_median_error_of_predicted_completeness_is_at_most_a_tenth_of_a_point(
    tmp_path: Path,
) -> None:
    errors: dict[int, list[float]] = {}
    for target_ppm in (990_000, 950_000):
        for seed in range(2):
            batches = exponential_batches(220, 300, seed=1_000 + seed)
            learnt = query_reports(batches[:100])
            with Controller(f"sqlite:///{tmp_path / f'{target_ppm} {seed}.db'}") as controller:
                body = publish(controller, learnt, target_ppm)
                run_with(controller, body, batches[100:], learnt)
                scored = of(controller, body)
            assert scored["min_ppm"] <= scored["completeness_ppm"] <= scored["max_ppm"]
            errors.setdefault(target_ppm, []).append(scored["realised"]["error_ppm"] / 10_000)
    print(f"errors of predicted completeness in points: {errors}")
    assert median(abs(error) for of_target in errors.values() for error in of_target) <= 0.1


def test_a_prediction_is_not_scored_before_enough_rows_met_the_bound_in_effect(
    controller: Controller,
) -> None:
    body = publish(controller, LEARNT)
    run_with(controller, body, BATCHES[40:60], LEARNT)
    pending = of(controller, body)
    assert 0 < pending["realised"]["rows"] < PREDICTION_MIN_ROWS
    assert pending["realised"]["completeness_ppm"] is pending["realised"]["error_ppm"] is None
    assert pending["realised"]["scored_us"] is None


def test_reports_that_come_late_or_out_of_order_score_as_all_of_them_do_in_order(tmp_path: Path) -> None:
    outcomes = []
    for order in ([slice(0, 100)], [slice(30, 60), slice(0, 20), slice(60, 100), slice(20, 30)]):
        with Controller(f"sqlite:///{tmp_path / f'{len(order)}.db'}") as controller:
            body = publish(controller, LEARNT)
            reports = restarted_reports(
                LEARNT, BATCHES[40:140], bound_ms=body["bound_ms"], generation=body["generation"]
            )
            for part in order:
                controller.report_all(reports[part])
                controller.tick()
            outcomes.append(of(controller, body)["realised"] | {"scored_us": None})
    assert outcomes[0] == outcomes[1]
    assert outcomes[0]["rows"] >= PREDICTION_MIN_ROWS


def test_rows_judged_later_than_a_horizon_after_a_bound_took_effect_score_nothing(
    controller: Controller,
) -> None:
    body = publish(controller, LEARNT, horizon_ms=60_000)
    reports = restarted_reports(
        LEARNT, BATCHES[40:140], bound_ms=body["bound_ms"], generation=body["generation"]
    )
    for part in (slice(0, 50), slice(50, 80), slice(80, 100)):
        controller.report_all(reports[part])
        controller.tick()
    realised = of(controller, body)["realised"]
    judged_us = [
        report.started_us
        for report in reports
        if (report.late_watermark_ms or 0) > (LEARNT[-1].watermark_ms or 0)
    ]
    until_us = realised["became_effective_us"] + 60_000_000
    assert judged_us[-1] > until_us
    assert realised["rows"] == ROWS * sum(at_us <= until_us for at_us in judged_us)


def test_rows_that_met_another_bound_score_nothing(controller: Controller) -> None:
    body = publish(controller, LEARNT)
    # The job starts again with its own bound: no generation, so nothing is known of the one that was published.
    controller.report_all(restarted_reports(LEARNT, BATCHES[40:], bound_ms=1_000, generation=None))
    controller.tick()
    assert predictions(controller)[-1]["generation"] == body["generation"]
    assert {item["realised"]["rows"] for item in predictions(controller)} == {0}


def test_a_job_that_runs_a_generation_with_another_bound_scores_nothing(controller: Controller) -> None:
    body = publish(controller, LEARNT)
    run_with(controller, {**body, "bound_ms": body["bound_ms"] + 1}, BATCHES[40:], LEARNT)
    assert of(controller, body)["realised"]["rows"] == 0


def test_a_job_that_runs_a_generation_without_a_prediction_scores_nothing(controller: Controller) -> None:
    body = publish(controller, LEARNT)
    run_with(controller, {**body, "generation": body["generation"] + 1}, BATCHES[40:60], LEARNT)
    assert of(controller, body)["realised"]["rows"] == 0


def test_a_job_that_starts_from_a_new_checkpoint_is_scored_too(controller: Controller) -> None:
    body = publish(controller, LEARNT)
    fresh = query_reports(
        BATCHES[40:], bound_ms=body["bound_ms"], generation=body["generation"], query_id="another"
    )
    controller.report_all(replace(report, started_us=report.started_us + 41_000_000) for report in fresh)
    controller.tick()
    judged = [report for report in fresh if report.late_watermark_ms]
    assert of(controller, body)["realised"]["rows"] == len(judged) * ROWS


def test_predictions_come_newest_first_page_by_page(controller: Controller) -> None:
    publish(controller, LEARNT)
    for least in (20_000, 30_000, 40_000):
        controller.put("/policy", {**POLICY, "min_bound_ms": least})
    found = predictions(controller)
    assert [item["bound_ms"] for item in found[:3]] == [40_000, 30_000, 20_000]
    assert [item["generation"] for item in found] == sorted(
        (item["generation"] for item in found), reverse=True
    )
    first = controller.get("/predictions", params={"limit": 2}).json()
    assert first["min_rows"] == PREDICTION_MIN_ROWS
    rest = controller.get("/predictions", params={"limit": 9, "cursor": first["next_cursor"]}).json()
    assert first["predictions"] + rest["predictions"] == found
    assert rest["next_cursor"] is None


@pytest.mark.parametrize("cursor", ["x", "WyJhIl0", "WyI5OTk5OTk5OTk5OTk5OTk5OTk5OTkiXQ", "WyItMSJd"])
def test_a_cursor_that_is_not_ours_is_refused(controller: Controller, cursor: str) -> None:
    controller.report(LEARNT[0])
    answer = controller.get("/predictions", params={"cursor": cursor})
    assert (answer.status_code, answer.json()["errors"][0]["pointer"]) == (422, "cursor")


def test_an_unknown_stream_has_no_predictions_and_one_that_is_only_watched_neither(
    controller: Controller,
) -> None:
    answer = controller.get("/predictions")
    assert (answer.status_code, answer.json()["instance"]) == (404, STREAM + "/predictions")
    controller.put("/slo", {"target_ppm": 990_000})
    controller.report_all(LEARNT)
    controller.tick()
    assert predictions(controller) == []
    # The answer still says what a change would do.
    assert controller.status()["transition"]["bound_ms"] == controller.status()["recommended"]["bound_ms"]


def test_without_a_recommended_bound_there_is_no_transition(controller: Controller) -> None:
    controller.put("/slo", {"target_ppm": 999_999})
    controller.report_all(LEARNT)
    controller.tick()
    assert controller.status()["transition"] is None


def test_a_narrowing_says_how_many_windows_close_at_once(controller: Controller) -> None:
    """A bound of 60 s over windows of 10 s: the ledger knows the windows between the two watermarks."""
    wide = query_reports(exponential_batches(160, 20), bound_ms=60_000)
    publish(controller, wide, 900_000)
    body = controller.status()["transition"]
    watermark_us, base_us = wide[-1].watermark_ms * 1_000, START_US + 159 * 1_000_000
    closing = range(watermark_us // 10_000_000 + 1, (base_us - body["bound_ms"] * 1_000) // 10_000_000 + 1)
    assert (body["kind"], body["stands_still_ms"]) == ("narrow", 0)
    assert body["windows_closing"] == len(closing) >= 4
    assert body["rows_closing"] > 150 * len(closing)
    assert f"{len(closing)} windows with {body['rows_closing']:,} rows so far close at once" in body["text"]


def test_a_row_level_stream_is_scored_by_the_middle_of_the_ledgers_interval(controller: Controller) -> None:
    learnt = query_reports(BATCHES[:40], row_level(), bound_ms=1_000, granule_us=100_000)
    body = publish(controller, learnt)
    run_with(controller, body, BATCHES[40:], learnt)
    scored = of(controller, body)
    realised = scored["realised"]
    assert (scored["windows_closing"], scored["latency_wall_ms"]) == (None, None)
    twice = realised["late_min"] + realised["late_max"]
    assert realised["completeness_ppm"] == 1_000_000 - twice * 1_000_000 // (2 * realised["rows"])


def test_the_metrics_show_prediction_and_outcome(controller: Controller) -> None:
    def metrics() -> dict[str, float]:
        text = controller.http.get("/metrics").text
        return {
            sample.name: sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
        }

    body = publish(controller, LEARNT)
    assert "tidemark_completeness_realised_ratio" not in metrics()
    # Else a wider bound is published, whose prediction is shown then.
    paused = controller.http.post(f"{STREAM}:pause", json={"reason": "hands off"})
    assert paused.status_code == 200, paused.text
    run_with(controller, body, BATCHES[40:], LEARNT)
    scored = of(controller, body)
    found = metrics()
    assert found["tidemark_completeness_predicted_ratio"] == 1 - scored["late"] / scored["rows"]
    realised = scored["realised"]
    assert found["tidemark_completeness_realised_ratio"] == realised["completeness_ppm"] / 1e6


# -- guard rails, through the service ------------------------------------------------------------------------------


def step(controller: Controller, kind: str) -> str:
    steps = controller.status()["recommended"]["steps"]
    reason: str = next(step["reason"] for step in steps if step["kind"] == kind)
    return reason


def detail(controller: Controller, kind: str) -> str | None:
    found = {condition["type"]: condition["detail"] for condition in controller.status()["conditions"]}
    return found.get(kind)


WIDE = query_reports(BATCHES[:60], bound_ms=60_000)


def test_a_silent_stream_is_held_and_said_and_narrowed_when_it_is_back(controller: Controller) -> None:
    controller.put("/policy", at_once("Off"))
    controller.report_all(WIDE[:-1])
    assert detail(controller, "NoRecentReport") is None
    controller.clock.now_us += 11_000_000
    controller.put("/slo", {"target_ppm": 990_000})
    assert controller.status()["recommended"]["bound_ms"] == 60_000
    assert step(controller, "NoData") == (
        "no report for 11 s when this was decided, where 1 s between batches is typical: "
        "the bound in use, 60 s, is not narrowed"
    )
    body = detail(controller, "NoRecentReport")
    assert body is not None
    assert body.endswith("is the job running? If it ended on purpose, pause the stream")
    controller.report(WIDE[-1])
    controller.tick()
    assert controller.status()["recommended"]["bound_ms"] < 20_000
    assert detail(controller, "NoRecentReport") is None


def test_what_a_person_rolls_out_has_the_prediction_that_is_kept_of_it(controller: Controller) -> None:
    """One prediction: a rollout without any must not stand beside one that is listed and scored."""
    controller.report_all(WIDE)
    controller.put("/slo", {"target_ppm": 990_000})
    controller.tick()
    controller.put("/policy", POLICY)

    (rollout,) = controller.get("/rollouts").json()["rollouts"]
    (prediction,) = controller.get("/predictions").json()["predictions"]

    assert rollout["generation"] == prediction["generation"]
    assert rollout["predicted"]["rows"] > 0
    for name in ("rows", "late", "min_ppm", "max_ppm", "latency_wall_ms", "state_rows"):
        assert rollout["predicted"][name] == prediction[name]


def test_silence_of_a_paused_stream_is_reported_with_the_pause_and_is_no_alarm(
    controller: Controller,
) -> None:
    controller.report_all(WIDE)
    controller.put("/slo", {"target_ppm": 990_000})
    controller.http.post(STREAM + ":pause", json={"reason": "ended on purpose"})
    controller.clock.now_us += 11_000_000
    controller.snapshot()

    assert detail(controller, "NoRecentReport") is None
    assert detail(controller, "Paused") == (
        "nothing new is rolled: ended on purpose; no report for 11 s, where 1 s between batches is typical"
    )
    (stream,) = controller.http.get("/v1/fleet").json()["streams"]
    assert (stream["worst"]["type"], stream["alerts"]) == ("Paused", [])
    (job,) = controller.http.get("/v1/jobs").json()["jobs"]
    assert job["worst"]["type"] == "Paused"


def test_a_partition_that_falls_silent_holds_every_narrowing_and_is_said(controller: Controller) -> None:
    controller.put("/slo", {"target_ppm": 990_000})
    three = [[row for row in batch if row[0] != "3"] for batch in BATCHES[60:75]]
    controller.report_all(WIDE)
    controller.report_all(restarted_reports(WIDE, three, bound_ms=60_000, generation=None))
    controller.tick()
    assert controller.status()["recommended"]["bound_ms"] == 60_000
    assert "1 partition that used to report is silent, and may come late" in step(
        controller, "SilentPartitions"
    )
    assert "1 partition that used to report is silent;" in (detail(controller, "PartitionsSilent") or "")


def test_a_replay_at_twice_the_clock_narrows_nothing(controller: Controller) -> None:
    controller.put("/slo", {"target_ppm": 990_000})
    controller.report_all(query_reports(BATCHES[:60], bound_ms=60_000, interval_us=500_000))
    controller.tick()
    assert controller.status()["recommended"]["bound_ms"] == 60_000
    assert "at 2.0" in step(controller, "CatchingUp")


def test_what_was_asked_for_within_five_minutes_holds_a_narrowing_and_another_slo_lets_go_of_it(
    controller: Controller,
) -> None:
    """A burst of late rows leaves the horizon of one minute; the bound follows five minutes after it was asked for."""
    late = [
        [
            (name, time - 40_000_000 if n < 20 and index % 2 else time)
            for index, (name, time) in enumerate(batch)
        ]
        for n, batch in enumerate(exponential_batches(500, 60))
    ]
    reports = query_reports(late, bound_ms=90_000)
    asked: list[tuple[int, int]] = []
    slo = {"target_ppm": 900_000, "horizon_ms": 60_000}
    controller.put("/slo", slo)
    controller.put("/policy", at_once("Off"))
    for first in range(0, 480, 30):
        controller.report_all(reports[first : first + 30])
        controller.tick()
        recommended = controller.status()["recommended"]
        own = next(step["bound_ms"] for step in recommended["steps"] if step["kind"] == "RoundUp")
        asked.append((own, recommended["bound_ms"]))
    for n, (_, bound_ms) in enumerate(asked):
        # Ten ticks of 30 s are the five minutes.
        assert bound_ms == max(own for own, _ in asked[max(n - 10, 0) : n + 1])
    assert asked[6][1] > asked[6][0]
    controller.put("/slo", {**slo, "confidence_ppm": 940_000})
    assert "nothing wider was required" in step(controller, "NarrowLate")


@pytest.mark.parametrize(
    ("on_conflict", "body"),
    [
        (None, "the SLO does not say which gives way: the bound in use is held"),
        ("exceed_latency_cap", "which the SLO allows"),
        ("miss_target", "the target is missed, as the SLO says"),
    ],
)
def test_where_no_bound_fits_the_chain_and_the_condition_say_how_it_is_resolved(
    controller: Controller, on_conflict: str | None, body: str
) -> None:
    controller.put("/slo", {"target_ppm": 990_000, "latency_cap_ms": 6_000, "on_conflict": on_conflict})
    controller.report_all(LEARNT)
    controller.tick()
    condition = detail(controller, "ConstraintsConflict")
    assert condition == step(controller, "LatencyCap")
    assert body in condition
    assert "above the cap of 6 s" in condition
