"""The budget over the SLO's window: slots that add up to it, its burn rates, and when nothing is left."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from support.controller_app import Controller
from support.rolled_job import RolledJob
from support.streams import SECOND

PPM = 1_000_000
HOUR_MS = 3_600_000


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def job(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RolledJob]:
    """Return a job that loses rows for some minutes and then none."""
    if request.param == "postgresql":
        url = request.getfixturevalue("module_postgres_url")
    else:
        url = f"sqlite:///{tmp_path_factory.mktemp('budget') / 't.db'}"
    with Controller(url) as controller:
        job = RolledJob(controller, bound_ms=2_000)
        for delay_s, batches in ((1.0, 40), (40.0, 40), (1.0, 100)):
            job.run(batches, delay_s, tick=False)
        yield job


def budget(job: RolledJob, **parameters: Any) -> dict[str, Any]:
    answer = job.controller.http.get(f"{job.path}/budget", params=parameters)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


@pytest.mark.parametrize("objective", ["occurrences", "timeslices"])
@pytest.mark.parametrize("points", [240, 4])
def test_the_slots_add_up_to_the_budget_of_the_status_and_end_with_what_is_left(
    job: RolledJob, objective: str, points: int
) -> None:
    slo = {"target_ppm": 900_000, "objective": objective, "window_ms": 6 * HOUR_MS}
    job.put("slo", {**slo, "good_windows_ppm": 800_000})
    found, status = budget(job, points=points), job.status()
    assert found["budget"] == status["budget"]
    slots = found["slots"]
    for name in ("counted", "bad_min", "bad_max"):
        assert sum(slot[name] or 0 for slot in slots) == status["budget"][name]
    assert status["budget"]["bad_max"] > 0
    assert slots[-1]["remaining_ppm"] == status["budget"]["remaining_ppm"]
    left = [slot["remaining_ppm"] for slot in slots]
    assert left == sorted(left, reverse=True), "nothing comes back within the window"


def test_a_slot_in_which_nothing_was_reported_is_a_gap_and_not_a_zero(job: RolledJob) -> None:
    job.put("slo", {"target_ppm": 900_000, "window_ms": 6 * HOUR_MS})
    first = budget(job)["slots"][0]
    assert (first["counted"], first["bad_max"]) == (None, None)
    assert first["remaining_ppm"] == PPM


def test_the_burn_rate_is_high_while_rows_are_lost_and_falls_afterwards(job: RolledJob) -> None:
    job.put("slo", {"target_ppm": 900_000, "window_ms": 6 * HOUR_MS})
    found = budget(job)
    rates = {rate["span_ms"]: rate["rate_ppm"] for rate in found["rates"]}
    assert list(rates) == [300_000, HOUR_MS, 6 * HOUR_MS], "spans shorter than the window, and the window"
    assert rates[300_000] < rates[HOUR_MS] > PPM
    assert found["exhausted_in_ms"] == 0, "overdrawn"


def test_a_budget_that_burns_too_fast_says_when_nothing_is_left(controller: Controller) -> None:
    job = RolledJob(controller, bound_ms=2_000)
    job.run(100, 1.0, tick=False)
    job.put("slo", {"target_ppm": 700_000, "window_ms": 6 * HOUR_MS})
    assert budget(job)["exhausted_in_ms"] is None, "it lasts"
    job.wait(2 * 3_600)
    job.run(20, 40.0, tick=False)
    found = budget(job)
    rate = next(one["rate_ppm"] for one in found["rates"] if one["span_ms"] == HOUR_MS)
    left = found["budget"]["remaining_ppm"]
    assert left > 0
    assert rate > PPM
    assert found["exhausted_in_ms"] == 6 * HOUR_MS * left // rate


def test_without_an_slo_or_without_reports_there_is_no_budget(controller: Controller) -> None:
    job = RolledJob(controller)
    job.put("slo", {"target_ppm": 900_000})
    assert (budget(job)["budget"], budget(job)["slots"]) == (None, [])
    other = RolledJob(controller, job="other")
    other.at_us += SECOND
    other.run(1, 1.0, tick=False)
    assert budget(other)["budget"] is None


@pytest.mark.parametrize("objective", ["occurrences", "timeslices"])
def test_rows_of_unknown_fate_may_have_been_lost(controller: Controller, objective: str) -> None:
    """Of windows each may have spoiled another one: it is in none of the ledger."""
    job = RolledJob(controller)
    job.put("slo", {"target_ppm": 900_000, "objective": objective, "good_windows_ppm": 800_000})
    job.run(40, 1.0, tick=False)
    for _ in range(3):
        job.report([("0", job.at_us)] * 60, uncounted=[("0", job.at_us)] * 2)
    found = budget(job)["budget"]
    assert (found["bad_min"], found["bad_max"]) == (0, 6)
