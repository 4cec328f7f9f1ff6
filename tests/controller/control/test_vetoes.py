"""What a person rolled back or discarded stays so, whatever is written, until a person lifts that."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from support.controller_app import Controller
from support.databases import on_sqlite_alone
from support.policies import at_once
from support.rolled_job import RolledJob
from support.seeded import continued
from support.settled import HOUR, LOOSE, STRICT, settled
from support.soak import with_soak

pytestmark = pytest.mark.slow

YEAR = 365 * 24 * HOUR


def rolled_back(controller: Controller) -> RolledJob:
    """Return a job whose narrowing a person rolled back."""
    job = settled(controller)
    job.put("policy", at_once(cooldown_ms=0))
    job.put("slo", LOOSE)
    number = job.rollout()["id"]
    for _ in range(2):
        answer = job.act(f"/rollouts/{number}:rollback", "INC-7")
        assert (answer.json()["state"], answer.json()["vetoed"]) == ("RolledBack", True)
    conditions = {each["type"]: each["detail"] for each in job.status()["conditions"]}
    assert ": rolled back: INC-7 (2026-" in conditions["RolledBack"], "with the time of what is past"
    job.run(2, 30.0)
    return job


@pytest.fixture(params=with_soak(["sqlite", "postgresql"], {"postgresql"}))
def job(request: pytest.FixtureRequest) -> Iterator[RolledJob]:
    """One on each database that is there."""
    url = request.getfixturevalue("database_url" if request.param == "sqlite" else "postgres_url")
    with continued(url, rolled_back) as found:
        yield found


def vetoed(job: RolledJob) -> dict[str, Any]:
    (found,) = job.controller.http.get(f"{job.path}/rollouts", params={"vetoed": True}).json()["rollouts"]
    return found  # type: ignore[no-any-return]  # an object


@on_sqlite_alone("job")
def test_no_write_publishes_again_what_a_person_rolled_back(job: RolledJob) -> None:
    """Not a change of the SLO or of the policy, not Off and back, not the end of a pin, not a year."""
    restored_ms = job.published()["bound_ms"]
    one = vetoed(job)

    def holds() -> bool:
        job.run(2, 30.0)
        held = job.rollout()
        assert (held["state"], held["held_by"]) == ("Recommended", "Vetoed"), held["reason"]
        assert held["to_bound_ms"] <= one["to_bound_ms"]
        assert held["reason"] == (
            f"held: rollout {one['id']} was rolled back: INC-7; it is not tried again before a person lifts "
            f"this veto (rollout {one['id']})"
        )
        return job.published()["bound_ms"] == restored_ms  # type: ignore[no-any-return]  # a truth value

    assert holds()
    for target_ppm in (790_000, 800_000):
        job.put("slo", {"target_ppm": target_ppm})
        assert holds()
    for policy in (
        at_once(cooldown_ms=0, max_narrowings_a_day=9),
        at_once("Restart"),
        at_once(cooldown_ms=0),
    ):
        job.put("policy", policy)
        assert holds()
    for act in (":pause", ":resume"):
        job.act(act)
    assert holds()
    job.controller.http.put(job.pin_url, json={"to": "Off", "reason": "INC-8"})
    job.controller.http.delete(job.pin_url)
    assert holds()
    job.wait(YEAR)
    job.run(160, 30.0, tick=False)
    assert holds()


@on_sqlite_alone("job")
def test_with_mode_off_and_back_the_bound_is_not_published_either(job: RolledJob) -> None:
    one = vetoed(job)
    job.put("policy", at_once("Off"))
    job.run(2, 30.0)
    job.put("policy", at_once(cooldown_ms=0))
    job.run(2, 30.0)
    assert job.rollout()["held_by"] == "Vetoed"
    assert job.published()["bound_ms"] is None or job.published()["bound_ms"] > one["to_bound_ms"]


def test_a_veto_is_lifted_by_an_act_alone_and_then_the_bound_is_published(job: RolledJob) -> None:
    one = vetoed(job)
    assert one["may"] == ["lift"]
    held = job.rollout()
    tried = job.controller.http.post(
        f"{job.path}/rollouts/{one['id']}:lift", params={"dryRun": "All"}, json={"reason": "only a look"}
    ).json()
    assert not tried["vetoed"]
    assert vetoed(job) == one
    for _ in range(2):
        answer = job.act(f"/rollouts/{one['id']}:lift", "the dashboard is mended")
        assert (answer.status_code, answer.json()["vetoed"], answer.json()["may"]) == (200, False, [])
    assert (job.rollout()["id"], job.rollout()["state"]) == (held["id"], "Published")
    (event,) = job.events("VetoLifted")
    assert (event["reason"], event["evidence"]["rollout"]) == ("the dashboard is mended", one["id"])


def test_only_a_rollout_that_a_person_ended_has_a_veto_to_lift(job: RolledJob) -> None:
    first = job.rollouts()[-1]
    answer = job.act(f"/rollouts/{first['id']}:lift")
    assert (answer.status_code, answer.json()["type"]) == (409, "urn:tidemark:problem:rollout-state")


def test_a_rollout_that_was_approved_and_then_rolled_back_is_not_approved_again(job: RolledJob) -> None:
    job.put("policy", at_once(approval="narrow", cooldown_ms=0))
    job.act(f"/rollouts/{vetoed(job)['id']}:lift")
    waiting = job.rollout()
    assert waiting["state"] == "AwaitingApproval", waiting["reason"]
    assert job.act(f"/rollouts/{waiting['id']}:approve").json()["state"] == "Published"
    assert job.act(f"/rollouts/{waiting['id']}:rollback").json()["state"] == "RolledBack"
    answer = job.act(f"/rollouts/{waiting['id']}:approve")
    assert (answer.status_code, answer.json()["detail"]) == (
        409,
        f"rollout {waiting['id']} is rolled back, so it cannot be approved; its veto can be lifted",
    )


def test_an_envelope_that_a_person_rolled_back_is_not_published_by_the_next_write(
    database_url: str,
) -> None:
    with Controller(database_url) as controller:
        job = RolledJob(controller, bound_ms=120_000, live=True)
        job.put("slo", STRICT)
        job.put("policy", at_once("Live"))
        job.run(40, 30.0, tick=False)
        controller.tick()
        before = job.published()["envelope"]
        job.put("slo", LOOSE)
        narrowed = job.rollout()
        assert (narrowed["cause"], job.published()["envelope"]) != ("Decision", before)
        job.act(f"/rollouts/{narrowed['id']}:rollback", "INC-9")
        assert job.published()["envelope"] == before
        for write in (at_once("Live", max_narrowings_a_day=9), at_once("Live")):
            job.put("policy", write)
            assert job.published()["envelope"] == before
        job.act(f"/rollouts/{narrowed['id']}:lift")
        job.put("policy", at_once("Live", max_narrowings_a_day=8))
        assert job.published()["envelope"]["target_ppm"] == LOOSE["target_ppm"]
