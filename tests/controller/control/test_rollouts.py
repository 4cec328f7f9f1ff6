"""Rollouts end to end: the gate, what becomes of a bound that was published, a person's say, and what is remembered."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import select

from tidemark.controller.base.db.tables import PublishedRow
from tidemark.controller.specs.streams import add_event, lock_stream
from tidemark.models.base.defaults import ACKNOWLEDGE_MS, FAILED_MS, LISTENING_MS

from support.controller_app import Controller
from support.databases import on_sqlite_alone
from support.policies import at_once
from support.rolled_job import RolledJob
from support.seeded import continued
from support.settled import HOUR, LOOSE, STRICT, settled
from support.soak import with_soak
from support.streams import SECOND

pytestmark = pytest.mark.slow

STRICTER = {"target_ppm": 970_000}
UNDER_WAY = {"Published", "Acknowledged", "Effective"}


@pytest.fixture
def job(database_url: str) -> Iterator[RolledJob]:
    """A settled job on SQLite."""
    with continued(database_url, settled) as found:
        yield found


@pytest.fixture(params=with_soak(["sqlite", "postgresql"], {"postgresql"}))
def either_job(request: pytest.FixtureRequest) -> Iterator[RolledJob]:
    """A settled job on each database that is there."""
    url = request.getfixturevalue("database_url" if request.param == "sqlite" else "postgres_url")
    with continued(url, settled) as found:
        yield found


def states(job: RolledJob) -> list[str]:
    return [rollout["state"] for rollout in job.rollouts()]


def conditions(job: RolledJob) -> dict[str, str]:
    return {condition["type"]: condition["detail"] for condition in job.status()["conditions"]}


# -- the way of a bound --------------------------------------------------------------------------------------------


def test_a_first_bound_is_published_acknowledged_effective_and_verified(controller: Controller) -> None:
    job = RolledJob(controller, bound_ms=120_000)
    job.put("slo", STRICT)
    job.put("policy", at_once())
    job.run(40, 30.0, tick=False)
    controller.tick()
    one = job.rollout()
    assert (one["state"], one["first"], one["direction"], one["from_bound_ms"]) == (
        "Published",
        True,
        "Narrow",
        None,
    )
    assert one["to_bound_ms"] == job.published()["bound_ms"] < 30_000
    assert one["generation"] == job.published()["generation"]
    assert (one["predicted"]["rows"], one["needed_rows"]) == (38 * 60, 3_966)
    assert "Rolling" in conditions(job)
    job.restart()
    controller.tick()
    assert job.rollout()["state"] == "Acknowledged"
    job.run(3, 30.0)
    body = job.rollout()
    assert body["state"] == "Effective"
    assert body["reason"] == (
        "in effect; rows at risk: 0, needed 3,966; event time: 5.59 s, needed 3 min 40 s"
    )
    job.run(90, 30.0, tick=False)
    controller.tick()
    done = job.rollout()
    assert (done["state"], done["may"]) == ("Verified", ["rollback"])
    assert done["at_risk"]["rows"] >= 3_966
    assert done["event_ms"] >= done["needed_event_ms"] == 220_000
    assert done["published_us"] <= done["acknowledged_us"] <= done["ended_us"] == controller.clock.now_us
    assert conditions(job) == {}
    detail = controller.http.get(f"{job.path}/rollouts/{done['id']}").json()
    assert [event["kind"] for event in detail["history"]] == [
        "RolloutRecommended",
        "RolloutPublished",
        "RolloutAcknowledged",
        "RolloutEffective",
        "RolloutVerified",
    ]


@pytest.mark.long
@on_sqlite_alone("either_job")
def test_a_worse_bound_is_rolled_back_said_and_not_tried_again(either_job: RolledJob) -> None:
    """Planted: after a narrowing was published for delays up to 30 s, the delays grow to 100 s."""
    before_ms = either_job.published()["bound_ms"]
    # Else it is widened before that is sure.
    either_job.put("policy", at_once(directions=["Narrow"]))
    either_job.put("slo", LOOSE)
    worse = either_job.rollout()
    assert (worse["state"], worse["direction"], worse["from_bound_ms"]) == ("Published", "Narrow", before_ms)
    either_job.restart()
    either_job.run(14, 100.0)
    (undone,) = [one for one in either_job.rollouts() if one["id"] == worse["id"]]
    assert undone["state"] == "RolledBack"
    assert "fewer than predicted" in undone["reason"]
    (event,) = either_job.events("RolloutRolledBack")
    assert event["reason"] == undone["reason"]
    assert event["evidence"]["rollout"] == worse["id"]
    assert event["evidence"]["rows"] == undone["judged"]["rows"] > 0
    assert either_job.published()["bound_ms"] == before_ms
    assert either_job.published()["reason"].startswith("rollback: ")

    # What the rows ask for later is as narrow again, and it is held.
    either_job.restart()
    either_job.run(80, 10.0, tick=False)
    either_job.controller.tick()
    again = either_job.rollout()
    assert (again["state"], again["held_by"]) == ("Recommended", "FailedBefore")
    assert again["to_bound_ms"] <= worse["to_bound_ms"]
    assert "it is not tried again before" in conditions(either_job)["RolloutHeld"]
    assert either_job.published()["bound_ms"] == before_ms
    # Its time is over, and the cooldown too: then it is tried again.
    either_job.wait(max(FAILED_MS // 1_000, HOUR))
    either_job.run(3, 10.0)
    assert either_job.rollout()["state"] == "Published"


def test_a_narrowing_that_failed_is_tried_again_when_the_slo_changes_and_not_when_it_is_paused_or_labelled(
    job: RolledJob,
) -> None:
    job.put("policy", at_once(cooldown_ms=0, directions=["Narrow"]))
    job.put("slo", LOOSE)
    job.restart()
    job.run(14, 100.0)
    assert "RolledBack" in states(job)
    job.restart()
    job.run(80, 10.0, tick=False)
    job.controller.tick()
    assert job.rollout()["held_by"] == "FailedBefore"
    job.act(":pause")
    job.act(":resume")
    job.put("policy", at_once(cooldown_ms=0, directions=["Narrow"], labels={"team": "web"}))
    job.run(2, 10.0)
    assert job.rollout()["held_by"] == "FailedBefore"
    job.put("slo", {"target_ppm": 810_000})
    assert job.rollout()["state"] == "Published"


def test_a_widening_takes_the_place_of_a_narrowing_that_is_not_verified_yet(job: RolledJob) -> None:
    job.put("slo", LOOSE)
    narrow = job.rollout()
    job.restart()
    job.run(1, 30.0)
    job.put("policy", at_once(margin_ppm=4_000_000))
    newest, before = job.rollouts()[:2]
    assert (before["id"], before["state"]) == (narrow["id"], "Superseded")
    assert (newest["direction"], newest["state"]) == ("Widen", "Published")
    assert newest["to_bound_ms"] > before["from_bound_ms"]
    assert job.act(f"/rollouts/{before['id']}:approve").json()["detail"] == (
        f"rollout {before['id']} is superseded, so it cannot be approved; the newest one is rollout {newest['id']}, "
        "which is published"
    )


def test_a_widening_within_what_stood_before_a_narrowing_waits_for_its_verdict(
    job: RolledJob,
) -> None:
    job.put("slo", LOOSE)
    narrow = job.rollout()
    job.restart()
    job.run(1, 30.0)
    job.put("policy", at_once(margin_ppm=150_000))
    assert narrow["to_bound_ms"] < job.status()["recommended"]["bound_ms"] < narrow["from_bound_ms"]
    assert (job.rollout()["id"], job.rollout()["state"]) == (narrow["id"], "Acknowledged")
    job.run(40, 30.0)
    assert [one["state"] for one in job.rollouts()[:2]] == ["Published", "Verified"]


# -- the gate ------------------------------------------------------------------------------------------------------


@on_sqlite_alone("either_job")
def test_a_narrowing_waits_for_approval_and_is_published_when_it_is_approved(either_job: RolledJob) -> None:
    either_job.put("policy", at_once(approval="narrow"))
    before = either_job.published()
    either_job.put("slo", LOOSE)
    waiting = either_job.rollout()
    assert (waiting["state"], waiting["may"]) == ("AwaitingApproval", ["approve", "discard"])
    assert either_job.published() == before
    either_job.run(2, 30.0)
    assert either_job.rollout()["id"] == waiting["id"]
    for _ in range(2):
        answer = either_job.act(f"/rollouts/{waiting['id']}:approve", "looked at the curve")
        assert (answer.status_code, answer.json()["state"]) == (200, "Published")
        assert answer.json()["approved"]["reason"] == "looked at the curve"
    assert either_job.published()["bound_ms"] == waiting["to_bound_ms"] < before["bound_ms"]
    assert either_job.published()["generation"] == before["generation"] + 1


def test_what_a_person_discards_is_not_published_before_that_is_lifted(job: RolledJob) -> None:
    job.put("policy", at_once(approval="narrow"))
    before = job.published()
    job.put("slo", LOOSE)
    one = job.rollout()
    for _ in range(2):
        answer = job.act(f"/rollouts/{one['id']}:discard", "not before the holidays")
        assert (answer.status_code, answer.json()["state"]) == (200, "Discarded")
    job.run(2, 30.0)
    again = job.rollout()
    assert (again["state"], again["held_by"]) == ("Recommended", "Vetoed")
    assert "not before the holidays" in again["reason"]
    assert job.published() == before


def test_what_cannot_be_done_in_a_state_is_refused_and_says_what_can(job: RolledJob) -> None:
    one = job.rollout()
    for act, done in (("approve", "approved"), ("discard", "discarded")):
        answer = job.act(f"/rollouts/{one['id']}:{act}")
        assert (answer.status_code, answer.json()["type"]) == (409, "urn:tidemark:problem:rollout-state")
        assert answer.json()["detail"] == (
            f"rollout {one['id']} is verified, so it cannot be {done}; it can be rolled back"
        )
    assert job.act("/rollouts/999:rollback").json()["type"] == "urn:tidemark:problem:rollout-not-found"
    assert job.act(f"/rollouts/{one['id']}:rollback", " ").status_code == 422
    job.put("slo", LOOSE)
    answer = job.act(f"/rollouts/{one['id']}:rollback")
    assert answer.status_code == 409
    assert answer.json()["detail"].startswith(f"rollout {one['id']} cannot be rolled back: generation ")


def test_a_freeze_holds_narrowing_and_lets_widening_pass(job: RolledJob) -> None:
    days = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"]
    job.put("policy", at_once(freeze_windows=[{"days": days}]))
    job.put("slo", LOOSE)
    held = job.rollout()
    assert (held["state"], held["held_by"]) == ("Recommended", "Frozen")
    job.put("slo", STRICT)
    job.run(40, 90.0, tick=False)
    job.controller.tick()
    assert (job.rollout()["state"], job.rollout()["direction"]) == ("Published", "Widen")
    assert job.rollouts()[1]["state"] == "Superseded"


@on_sqlite_alone("either_job")
def test_paused_holds_everything_until_it_is_resumed_and_says_why(either_job: RolledJob) -> None:
    either_job.put("policy", at_once(cooldown_ms=0))
    version = either_job.controller.http.get(either_job.path + "/policy").json()
    answer = either_job.act(":pause", "INC-3: hands off")
    assert answer.json() == {
        **version,
        "paused": True,
        "generation": 3,
        "updated_us": either_job.controller.clock.now_us,
    }
    assert answer.headers["etag"].startswith('"3-')
    assert either_job.act(":pause", "again").json() == answer.json()
    either_job.put("slo", LOOSE)
    assert either_job.rollout()["held_by"] == "Paused"
    assert conditions(either_job)["Paused"] == "nothing new is rolled: INC-3: hands off"
    resumed = either_job.act(":resume", "INC-3 is over")
    assert (resumed.json()["paused"], resumed.json()["cooldown_ms"]) == (False, 0)
    assert either_job.rollout()["state"] == "Published"
    assert [event["reason"] for event in either_job.events("Paused")] == ["INC-3: hands off"]
    assert [event["reason"] for event in either_job.events("Resumed")] == ["INC-3 is over"]
    assert (
        either_job.controller.http.post("/v1/jobs/x/streams/y:pause", json={"reason": "?"}).status_code == 404
    )


def test_the_cooldown_lies_between_two_narrowings(job: RolledJob) -> None:
    job.put("slo", {"target_ppm": 850_000})
    job.restart()
    job.run(60, 30.0, tick=False)
    job.controller.tick()
    assert job.rollout()["state"] == "Verified"
    narrowed_us = job.rollout()["published_us"]
    job.put("slo", {"target_ppm": 700_000})
    held = job.rollout()
    assert (held["state"], held["held_by"]) == ("Recommended", "Cooldown")
    job.controller.clock.now_us = narrowed_us + HOUR * SECOND
    job.at_us = job.controller.clock.now_us
    job.run(1, 30.0)
    assert job.rollout()["state"] == "Published"


def test_a_job_that_stopped_acknowledging_is_not_rolled(controller: Controller) -> None:
    """In Restart: it reports on, with its old bound, and acknowledges nothing."""
    job = settled(controller, "Restart")
    job.put("policy", at_once("Restart", cooldown_ms=0))
    before = job.published()
    job.put("slo", LOOSE)
    asked = job.rollout()
    assert asked["state"] == "Published"
    job.wait(ACKNOWLEDGE_MS // 1_000)
    job.run(2, 30.0)
    assert states(job)[1] == "Expired"
    assert job.published()["bound_ms"] == before["bound_ms"]
    held = job.rollout()
    assert (held["state"], held["held_by"]) == ("Recommended", "NotListening")
    assert "has not acknowledged" in held["reason"]
    job.restart(mode="Restart")
    job.run(1, 30.0)
    assert job.rollout()["state"] == "Published"


def test_a_job_that_is_silent_is_not_rolled(job: RolledJob) -> None:
    job.wait(LISTENING_MS // 1_000 + 60)
    job.put("slo", STRICTER)
    job.put("policy", at_once(margin_ppm=500_000))
    assert job.rollout()["held_by"] == "NotListening"
    job.run(1, 30.0)
    assert job.rollout()["state"] == "Published"


def test_in_onrestart_a_bound_waits_for_the_next_start(job: RolledJob) -> None:
    job.put("slo", LOOSE)
    job.wait(10 * 24 * HOUR)
    job.controller.tick()
    assert job.rollout()["state"] == "Published"
    job.wait(5 * 24 * HOUR)
    job.controller.tick()
    assert states(job)[0] == "Expired"


def test_an_approved_bound_that_waits_for_the_next_start_is_not_withdrawn_while_the_job_is_stopped(
    job: RolledJob,
) -> None:
    """In the silence the bound in use is only held, which says nothing against what is published."""
    job.put("policy", at_once(approval="narrow"))
    job.put("slo", LOOSE)
    job.act(f"/rollouts/{job.rollout()['id']}:approve")
    approved = job.rollout()
    assert (approved["state"], approved["direction"]) == ("Published", "Narrow")
    job.wait(600)
    # Anything that has the stream decided again.
    job.put("policy", at_once(approval="narrow", labels={"team": "shop"}))
    assert "no report for" in job.status()["recommended"]["because"]
    found = job.rollout()
    assert (found["id"], found["state"]) == (approved["id"], "Published")
    assert job.published()["bound_ms"] == approved["to_bound_ms"]


def test_a_published_bound_that_lets_too_many_rows_be_lost_is_withdrawn_while_the_job_is_stopped(
    job: RolledJob,
) -> None:
    job.put("slo", LOOSE)
    published = job.rollout()
    job.wait(600)
    job.put("slo", {"target_ppm": 900_000})
    assert "no report for" in job.status()["recommended"]["because"]
    assert job.rollout()["id"] != published["id"]
    assert job.published()["bound_ms"] > published["to_bound_ms"]


@pytest.mark.long
def test_a_fleet_is_narrowed_a_share_at_a_time(tmp_path: Path) -> None:
    with Controller(f"sqlite:///{tmp_path / 'fleet.db'}", rollout_share_ppm=500_000) as controller:
        jobs = [RolledJob(controller, bound_ms=60_000, job=f"job-{n:02}", seed=n) for n in range(4)]
        for job in jobs:
            job.put("slo", STRICT)
            job.put("policy", at_once(cooldown_ms=0))
            job.run(40, 30.0, tick=False)
        controller.tick()
        while any(states(job)[0] != "Verified" for job in jobs):
            for job in (job for job in jobs if states(job)[0] != "Verified"):
                job.restart()
                job.run(60, 30.0, tick=False)
            controller.clock.now_us = max(job.at_us for job in jobs)
            controller.tick()

        for job in jobs:
            # All of them report now: what fell silent is not narrowed.
            job.at_us = controller.clock.now_us
            job.run(2, 30.0, tick=False)
            job.put("slo", LOOSE)
        narrowed: set[str] = set()
        rounds = 0
        while len(narrowed) < len(jobs):
            rounds += 1
            under_way = [
                job
                for job in jobs
                if job.rollout()["state"] in UNDER_WAY and job.rollout()["direction"] == "Narrow"
            ]
            held = [job for job in jobs if job.rollout()["held_by"] == "FleetShare"]
            assert len(under_way) <= 2
            assert not held or len(under_way) == 2
            fleet = controller.http.get("/v1/rollouts", params={"state": sorted(UNDER_WAY)}).json()[
                "rollouts"
            ]
            assert {job.job for job in under_way} <= {one["job"] for one in fleet}
            for job in under_way:
                job.restart()
                job.run(60, 30.0, tick=False)
            controller.clock.now_us = max(job.at_us for job in jobs)
            controller.tick()
            narrowed |= {job.job for job in under_way}
            assert rounds < 12
        assert rounds >= 2


# -- other publications --------------------------------------------------------------------------------------------


def test_a_limit_that_is_set_holds_at_once_and_ends_the_rollout_under_way(job: RolledJob) -> None:
    job.put("slo", LOOSE)
    under_way = job.rollout()
    job.put("policy", at_once(min_bound_ms=50_000))
    assert job.published()["bound_ms"] == 50_000
    (ended,) = [one for one in job.rollouts() if one["id"] == under_way["id"]]
    assert (ended["state"], ended["reason"]) == ("Superseded", "the published bound was changed by request")
    assert job.rollout()["id"] == under_way["id"]


def test_mode_off_ends_an_open_rollout_and_another_mode_keeps_it(job: RolledJob) -> None:
    job.put("slo", LOOSE)
    under_way = job.rollout()
    job.put("policy", at_once("Restart"))
    kept = job.rollout()
    assert (kept["id"], kept["state"], kept["mode"]) == (under_way["id"], "Published", "Restart")
    assert kept["generation"] == under_way["generation"] == job.published()["generation"] - 1
    job.put("policy", at_once("Off"))
    assert (job.rollout()["state"], job.rollout()["reason"]) == ("Superseded", "the mode is Off")
    assert job.act(f"/rollouts/{under_way['id']}:discard").json()["detail"] == (
        f"rollout {under_way['id']} is superseded, so it cannot be discarded; the next one begins when another "
        "bound is recommended"
    )


@on_sqlite_alone("either_job")
def test_a_pin_holds_a_rollout_where_it_is_and_it_goes_on_afterwards(either_job: RolledJob) -> None:
    either_job.put("slo", LOOSE)
    under_way = either_job.rollout()
    either_job.controller.http.put(either_job.pin_url, json={"to": "Off", "reason": "INC-5"})
    assert either_job.published()["bound_ms"] is None
    either_job.wait(30 * 24 * HOUR)
    either_job.controller.tick()
    held = either_job.rollout()
    assert (held["state"], held["held_by"]) == ("Published", "Pinned")
    assert "INC-5" in held["reason"]
    either_job.controller.http.delete(either_job.pin_url)
    assert either_job.published()["bound_ms"] == under_way["to_bound_ms"]
    either_job.controller.tick()
    going_on = either_job.rollout()
    assert (going_on["id"], going_on["state"]) == (under_way["id"], "Published")
    # Its number stays that under which it was published first, and what is published leads to it.
    assert going_on["generation"] == under_way["generation"] < either_job.published()["generation"]


@pytest.mark.parametrize(("what", "bound_ms"), [("max", 100_000), ("own", None)])
def test_a_job_whose_reports_stopped_finds_what_the_policy_says(
    job: RolledJob, what: str, bound_ms: int | None
) -> None:
    job.put("policy", at_once(on_no_data=what, max_bound_ms=100_000))
    before = job.published()
    job.controller.tick()
    assert job.published() == before
    job.wait(10 * 60)
    job.controller.tick()
    body = job.rollout()
    assert (body["state"], body["cause"]) == ("Published", "NoData")
    assert job.published()["bound_ms"] == bound_ms
    generation = job.published()["generation"]
    job.wait(30 * 24 * HOUR)
    job.controller.tick()
    assert (job.rollout()["id"], job.published()["generation"]) == (body["id"], generation)
    # It comes back with the bound that it ran with; what the rows require is published again.
    job.run(3, 30.0)
    assert (job.rollout()["cause"], job.published()["bound_ms"] is not None) == ("Decision", True)
    assert job.published()["bound_ms"] < 40_000


def test_every_published_bound_belongs_to_a_rollout_a_pin_or_a_write(job: RolledJob) -> None:
    job.put("policy", at_once(cooldown_ms=0))
    job.put("slo", LOOSE)
    job.controller.http.put(job.pin_url, json={"to": "Off", "reason": "INC-5"})
    job.controller.http.delete(job.pin_url)
    job.act(f"/rollouts/{job.rollout()['id']}:rollback")
    job.put("policy", at_once(min_bound_ms=50_000))
    with job.controller.service.database.read() as session:
        rows = session.scalars(select(PublishedRow).order_by(PublishedRow.generation)).all()
        body = [(row.pin, row.rollout_id, row.rolled_back_id) for row in rows]
    assert body == [
        (None, None, None),
        (None, 1, None),
        (None, 2, None),
        ("Off", None, None),
        (None, 2, None),
        (None, 1, 2),
        (None, None, None),
    ]


# -- the events --------------------------------------------------------------------------------------------------


def test_identical_events_that_follow_on_each_other_are_counted(job: RolledJob) -> None:
    for minute, reason in enumerate(("late by 1 s", "late by 2 s", "late by 3 s")):
        with job.controller.service.database.write() as session:
            row = lock_stream(session, "job", "stream")
            add_event(session, row.id, minute * 60, kind="Flapped", reason=reason, reason_class="Late")
    (event,) = job.events("Flapped")
    assert (event["count"], event["at_us"], event["last_us"], event["reason"]) == (3, 0, 120, "late by 1 s")


def test_events_and_rollouts_come_newest_first_page_by_page(either_job: RolledJob) -> None:
    either_job.put("policy", at_once(cooldown_ms=0))
    either_job.put("slo", LOOSE)
    either_job.put("slo", STRICT)
    for path, name in (
        (either_job.path + "/events", "events"),
        ("/v1/events", "events"),
        ("/v1/rollouts", "rollouts"),
    ):
        whole = either_job.controller.http.get(path).json()[name]
        assert [item["id"] for item in whole] == sorted((item["id"] for item in whole), reverse=True)
        found, cursor = [], None
        while True:
            params = {"limit": 2, **({"cursor": cursor} if cursor else {})}
            page = either_job.controller.http.get(path, params=params).json()
            found += page[name]
            cursor = page["next_cursor"]
            if cursor is None:
                break
        assert found == whole
