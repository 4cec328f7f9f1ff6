"""A slow source that many jobs in mode Restart share does not restart them all together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from tidemark.controller.control.decide.pace import PAUSE_SECONDS
from tidemark.models.base.defaults import LISTENING_MS

from support.controller_app import Controller
from support.policies import at_once
from support.rolled_job import RolledJob
from support.streams import SECOND

pytestmark = pytest.mark.slow

SLO = {"target_ppm": 900_000}


def _losing_jobs(
    controller: Controller, number: int, mode: str = "Restart", *, step: int = 1, **policy: Any
) -> list[RolledJob]:
    """Return jobs that lose rows by a bound of a second, the later ones more, and that nothing has been decided of.

    Each has ``step`` rows more in a batch than the one before.
    """
    jobs = [RolledJob(controller, bound_ms=1_000, job=f"job-{n:03}", seed=n) for n in range(number)]
    for n, job in enumerate(jobs):
        job.interval_us = 20 * SECOND
        job.put("slo", SLO)
        labels = {"labels": {"source": f"kafka-{n % 2}"}} if policy else {}
        job.put("policy", at_once(mode, **labels))
        # Enough batches that rows are judged; how many are lost grows with the rows of a batch.
        job.run(5, 90.0, rows=40 + n * step, tick=False)
    return jobs


def _next_tick(controller: Controller) -> None:
    controller.clock.now_us += round((PAUSE_SECONDS + 1) * SECOND)
    controller.tick()


def _restarting(controller: Controller) -> list[str]:
    page = controller.http.get("/v1/rollouts", params={"state": "Published", "limit": 500}).json()
    return [rollout["job"] for rollout in page["rollouts"]]


def _restart_in_turn(controller: Controller, jobs: Sequence[RolledJob], number: int) -> list[list[str]]:
    """Let each job restart as soon as it may until so many have; return which did at once."""
    rounds: list[list[str]] = []
    while sum(map(len, rounds)) < number:
        rounds.append(_restarting(controller))
        for job in jobs:
            if job.job in rounds[-1]:
                job.restart(mode="Restart")
        _next_tick(controller)
        assert len(rounds) <= 2 * number, "nothing goes on"
    return rounds


@pytest.mark.long
@pytest.mark.parametrize("fleet", [50, pytest.param(200, marks=pytest.mark.soak)])
def test_of_many_jobs_a_tenth_restarts_at_once_those_that_lose_most_first(tmp_path: Path, fleet: int) -> None:
    tenth = fleet // 10
    with Controller(f"sqlite:///{tmp_path / 'fleet.db'}") as controller:
        jobs = _losing_jobs(controller, fleet, step=200 // fleet)
        controller.tick()
        waits = jobs[0].rollout()
        assert (waits["state"], waits["direction"], waits["held_by"]) == ("Recommended", "Widen", "Restarts")
        assert waits["reason"] == (
            f"held: at most {tenth} of the {fleet} jobs of the fleet that are in mode Restart may restart at once, "
            "those that lose most rows first"
        )
        _next_tick(controller)
        rounds = _restart_in_turn(controller, jobs, 3 * tenth)
    assert max(map(len, rounds)) == tenth
    first = [int(job.removeprefix("job-")) for at_once in rounds for job in at_once]
    assert len(set(first)) == 3 * tenth
    # The rows that neighbours lose differ by chance.
    assert min(first[:tenth]) > 0.75 * fleet
    assert min(first) > 0.55 * fleet


@pytest.mark.long
def test_of_the_jobs_that_share_a_label_only_a_share_restarts_at_once(tmp_path: Path) -> None:
    with Controller(
        f"sqlite:///{tmp_path / 'fleet.db'}", restart_share_ppm=300_000, restart_label="source"
    ) as controller:
        jobs = _losing_jobs(controller, 8, labels=True)
        controller.tick()
        _next_tick(controller)
        restarting = _restarting(controller)
        # Three tenths of 8 are 2, and of the 4 of each source 1.
        assert sorted(int(job[-1]) % 2 for job in restarting) == [0, 1]
        held = [job.rollout()["reason"] for job in jobs if job.job not in restarting]
        assert any("of the 4 jobs with source=kafka-" in reason for reason in held)
        rounds = _restart_in_turn(controller, jobs, 8)
        assert sorted(job for at_once in rounds for job in at_once) == [job.job for job in jobs]
        for at_once in rounds:
            assert len({int(job[-1]) % 2 for job in at_once}) == len(at_once)


@pytest.mark.long
@pytest.mark.parametrize("mode", ["OnRestart", "Live"])
def test_without_restarts_nothing_is_limited(controller: Controller, mode: str) -> None:
    jobs = _losing_jobs(controller, 12, mode)
    controller.tick()
    held = {job.rollout()["held_by"] for job in jobs if job.rollouts()}
    assert "Restarts" not in held
    if mode == "OnRestart":
        assert len(_restarting(controller)) == 12


def _small_fleet(controller: Controller) -> tuple[RolledJob, RolledJob]:
    """Return two jobs of which one may restart at a time; both wait, and the second loses more."""
    less, more = _losing_jobs(controller, 2, step=40)
    controller.tick()
    assert {job.rollout()["held_by"] for job in (less, more)} == {"Restarts"}
    return less, more


def _pin(controller: Controller, job: RolledJob) -> None:
    controller.http.put(job.pin_url, json={"to": "Off", "reason": "INC-1"})


def _forget_slo(controller: Controller, job: RolledJob) -> None:
    assert controller.http.delete(job.path + "/slo", headers={"If-Match": "*"}).is_success


def _set_off(controller: Controller, job: RolledJob) -> None:
    job.put("policy", at_once("Off"))


@pytest.mark.parametrize("ends", [_pin, _forget_slo, _set_off])
def test_what_waits_and_cannot_go_on_keeps_no_place(
    controller: Controller, ends: Callable[[Controller, RolledJob], None]
) -> None:
    less, more = _small_fleet(controller)
    ends(controller, more)
    _next_tick(controller)
    _next_tick(controller)
    assert less.rollout()["state"] == "Published"


def test_a_silent_job_that_waits_keeps_no_place(controller: Controller) -> None:
    less, more = _small_fleet(controller)
    controller.clock.now_us += 2 * LISTENING_MS * 1_000
    less.at_us = controller.clock.now_us
    less.run(2, 90.0, rows=40, tick=False)
    _next_tick(controller)
    _next_tick(controller)
    assert less.rollout()["state"] == "Published"
    assert more.rollout()["held_by"] != "Restarts"


def test_a_newer_bound_for_a_job_that_restarts_already_waits_for_no_turn(controller: Controller) -> None:
    less, more = _small_fleet(controller)
    _next_tick(controller)
    assert more.rollout()["state"] == "Published"
    more.run(5, 900.0, rows=60, tick=False)
    _next_tick(controller)
    states = [rollout["state"] for rollout in more.rollouts()]
    assert states[:2] == ["Published", "Superseded"]
    assert less.rollout()["held_by"] == "Restarts"


@pytest.mark.long
def test_a_rollout_that_was_verified_in_another_mode_is_rolled_back_in_the_mode_of_now(
    controller: Controller,
) -> None:
    job = RolledJob(controller, bound_ms=60_000)
    job.run(40, 8.0)
    job.put("slo", {"target_ppm": 990_000})
    job.put("policy", at_once("Restart", cooldown_ms=36_000_000, directions=["Narrow"]))
    job.run(10, 8.0)
    job.restart(mode="Restart")
    job.run(300, 8.0)
    assert "Verified" in [rollout["state"] for rollout in job.rollouts()]
    job.put("policy", at_once("OnRestart", cooldown_ms=36_000_000, directions=["Narrow"]))
    job.restart()
    job.run(250, 60.0)
    assert [rollout["state"] for rollout in job.rollouts() if rollout["id"] == 1] == ["RolledBack"]
