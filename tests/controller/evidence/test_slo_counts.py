"""What is counted against an SLO: rows or windows for its error budget, and the worst window for its floor."""

from __future__ import annotations

import pytest

from support.controller_app import Controller
from support.policies import at_once
from support.rolled_job import RolledJob

pytestmark = pytest.mark.slow


def test_the_budget_counts_rows_over_the_slos_window(controller: Controller) -> None:
    job = RolledJob(controller, bound_ms=5_000)
    job.put("slo", {"target_ppm": 900_000, "window_ms": 60_000})
    job.run(40, 30.0, tick=False)
    budget = job.status()["budget"]
    assert budget["counted"] < 40 * 60
    assert budget["allowed"] == budget["counted"] // 10
    assert budget["bad_min"] == budget["bad_max"] > budget["allowed"]
    assert budget["remaining_ppm"] < 0
    assert budget["provisional"] is True
    assert budget["min_ppm"] == (budget["counted"] - budget["bad_max"]) * 1_000_000 // budget["counted"]


def test_under_timeslices_the_budget_counts_windows_and_the_bound_is_felt_for(controller: Controller) -> None:
    job = RolledJob(controller, bound_ms=10_000)
    job.put("slo", {"target_ppm": 900_000, "objective": "timeslices", "good_windows_ppm": 900_000})
    job.put("policy", at_once())
    job.run(40, 30.0, tick=False)
    controller.tick()
    status = job.status()
    budget = status["budget"]
    assert (budget["objective"], budget["bad_min"]) == ("timeslices", budget["bad_max"])
    assert 0 < budget["counted"] <= 40 * 5 // 10 + 1
    assert budget["bad_min"] > budget["allowed"]
    (body,) = [step for step in status["recommended"]["steps"] if step["kind"] == "Timeslices"]
    assert (
        "windows closed under the bound in use did, and at least 90 % of the windows must reach 0.9"
        in body["reason"]
    )
    assert status["recommended"]["bound_ms"] >= 12_500


def test_the_worst_window_below_its_floor_asks_for_more(controller: Controller) -> None:
    job = RolledJob(controller, bound_ms=10_000)
    job.put("slo", {"target_ppm": 500_000, "worst_window_ppm": 990_000})
    job.run(40, 30.0, tick=False)
    controller.tick()
    (body,) = [step for step in job.status()["recommended"]["steps"] if step["kind"] == "WorstWindow"]
    assert body["bound_ms"] == 12_500
    assert body["reason"].startswith("the worst window under the bound in use admitted ")
