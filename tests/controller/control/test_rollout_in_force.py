"""Which rollout is in force is a fact of its own: it outlives every number under which its bound is published again."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tidemark.models.protocol.messages import Acknowledgement, to_json_object

from support.controller_app import Controller
from support.policies import at_once
from support.rolled_job import RolledJob

pytestmark = pytest.mark.slow


def verified(controller: Controller, bound_ms: int = 60_000) -> RolledJob:
    """Return a job whose first bound, for a target of 0.95 and delays up to 30 s, is verified."""
    job = RolledJob(controller, bound_ms=bound_ms)
    job.put("slo", {"target_ppm": 950_000})
    job.put("policy", at_once())
    verify(job, 30.0)
    return job


def verify(job: RolledJob, delay_s: float) -> None:
    """Roll out what delays require, and verify it."""
    job.run(40, delay_s, tick=False)
    job.controller.tick()
    job.restart()
    job.run(90, delay_s, tick=False)
    job.controller.tick()
    assert job.rollout()["state"] == "Verified", job.rollout()["reason"]


def pin(job: RolledJob) -> None:
    assert job.controller.http.put(job.pin_url, json={"to": "Off", "reason": "INC-5"}).status_code == 200


def unpin(job: RolledJob) -> None:
    assert job.controller.http.delete(job.pin_url).status_code == 200


def pin_and_unpin(job: RolledJob) -> None:
    pin(job)
    unpin(job)


def pin_over_a_restart(job: RolledJob) -> None:
    pin(job)
    job.restart()
    job.run(5, 30.0)
    unpin(job)


def change_the_mode(job: RolledJob) -> None:
    job.put("policy", at_once("Restart"))


def change_to_live_and_back(job: RolledJob) -> None:
    with_ceiling = Acknowledgement(
        query_id="query",
        run_id="run 9",
        bound_ms=job.bound_ms,
        generation=job.generation,
        source="controller",
        mode="OnRestart",
        applied_us=job.at_us,
        ceiling_ms=600_000,
    )
    answer = job.controller.http.post(job.path + "/acks", json=to_json_object(with_ceiling))
    assert answer.status_code == 201, answer.text
    job.put("policy", at_once("Live"))
    job.put("policy", at_once())


def pause_and_label(job: RolledJob) -> None:
    job.put("policy", at_once(paused=True, labels={"team": "shop"}))


AGAIN = pytest.mark.parametrize(
    "publish_again",
    [pin_and_unpin, pin_over_a_restart, change_the_mode, change_to_live_and_back, pause_and_label],
)


@AGAIN
def test_a_verified_bound_that_is_published_again_is_watched_on(
    controller: Controller, publish_again: Callable[[RolledJob], None]
) -> None:
    job = verified(controller)
    narrowed = job.rollout()
    publish_again(job)
    job.restart()
    assert job.bound_ms == narrowed["to_bound_ms"]
    job.run(60, 50.0, tick=False)
    controller.tick()
    (undone,) = [one for one in job.rollouts() if one["id"] == narrowed["id"]]
    assert undone["state"] == "RolledBack", undone["reason"]
    assert "TargetMissed" in {condition["type"] for condition in job.status()["conditions"]}
    assert job.published()["bound_ms"] is None
    # Whoever pins the job then does not make the miss undone.
    pin_and_unpin(job)
    assert "TargetMissed" in {condition["type"] for condition in job.status()["conditions"]}


@AGAIN
def test_a_rollout_whose_bound_is_published_again_can_be_rolled_back(
    controller: Controller, publish_again: Callable[[RolledJob], None]
) -> None:
    job = verified(controller)
    number = job.rollout()["id"]
    publish_again(job)
    answer = job.act(f"/rollouts/{number}:rollback")
    assert (answer.status_code, answer.json().get("state")) == (200, "RolledBack"), answer.text
    assert job.published()["bound_ms"] is None


@pytest.mark.parametrize("restarts", [True, False])
def test_what_runs_while_a_pin_holds_does_not_count_for_the_rollout(
    controller: Controller, restarts: bool
) -> None:
    job = verified(controller)
    # Else a wider bound would take its place.
    job.put("policy", at_once(paused=True))
    pin(job)
    if restarts:
        job.restart()
    job.run(60, 50.0, tick=False)
    unpin(job)
    controller.tick()
    (stays,) = [one for one in job.rollouts() if one["state"] == "Verified"]
    before = stays["at_risk"]["rows"]
    job.restart()
    job.run(5, 30.0)
    (after,) = [one for one in job.rollouts() if one["id"] == stays["id"]]
    assert (after["state"], after["at_risk"]["rows"] > before) == ("Verified", True)


def test_a_rollout_under_way_goes_on_after_a_pin_with_what_was_counted_before_it(
    controller: Controller,
) -> None:
    job = RolledJob(controller)
    job.put("slo", {"target_ppm": 950_000})
    job.put("policy", at_once())
    job.run(40, 30.0, tick=False)
    controller.tick()
    job.restart()
    job.run(20, 30.0)
    before = job.rollout()
    assert before["state"] == "Effective"
    pin_and_unpin(job)
    job.restart()
    job.run(5, 30.0)
    after = job.rollout()
    assert (after["id"], after["generation"]) == (before["id"], before["generation"])
    assert after["judged"]["rows"] > before["judged"]["rows"] > 0
    assert after["at_risk"]["rows"] > before["at_risk"]["rows"]


def test_when_a_rollout_is_rolled_back_the_one_before_it_is_in_force_again_and_watched(
    controller: Controller,
) -> None:
    job = verified(controller, bound_ms=120_000)
    first = job.rollout()
    job.put("slo", {"target_ppm": 600_000})
    job.put("policy", at_once(cooldown_ms=0))
    controller.tick()
    second = job.rollout()
    assert second["to_bound_ms"] < first["to_bound_ms"] == second["from_bound_ms"]
    assert job.act(f"/rollouts/{first['id']}:rollback").status_code == 409
    assert job.act(f"/rollouts/{second['id']}:rollback").status_code == 200
    assert job.published()["bound_ms"] == first["to_bound_ms"]
    pin_and_unpin(job)
    assert job.act(f"/rollouts/{first['id']}:rollback").status_code == 200
    assert job.published()["bound_ms"] is None
