"""An SLO on the joined output of two streams steers both of their bounds, and never narrows one on missing data."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import delete, select

from tidemark.controller.base.db.tables import ReportBodyRow, ReportRow
from tidemark.controller.control.decide.join_sides import state_of
from tidemark.controller.evidence.join_cache import JoinCache
from tidemark.controller.specs.joins import get_join
from tidemark.models.evidence.joint_needs import JointNeeds

from support.controller_app import Controller
from support.databases import on_sqlite_alone
from support.joined_job import JOIN, SIDES, JoinedJob
from support.policies import at_once
from support.seeded import continued
from support.soak import with_soak
from support.streams import SECOND

pytestmark = pytest.mark.slow

CLICKS, IMPRESSIONS = SIDES


def watched(controller: Controller) -> JoinedJob:
    """Return a job whose streams have SLOs of their own, and are only watched."""
    job = JoinedJob(controller)
    job.begin(mode="Off")
    job.run(80)
    return job


@pytest.fixture(params=with_soak(["sqlite", "postgresql"], {"postgresql"}))
def job(request: pytest.FixtureRequest) -> Iterator[JoinedJob]:
    """Return a watched job on each database."""
    url = request.getfixturevalue("database_url" if request.param == "sqlite" else "postgres_url")
    with continued(url, watched) as found:
        yield found


def needed_ms(join: dict[str, Any]) -> dict[str, int | None]:
    """Return what the joined output needs of each stream, by the answer to a request for the join."""
    return {side["stream"]: side["bound_ms"] for side in join["state"]["sides"]}


def steer(job: JoinedJob) -> None:
    """Let the controller act on both streams, and the job take up what it says."""
    for side in SIDES:
        job.put(job.path(side, "/policy"), at_once(cooldown_ms=0))
    job.restart()


# -- steering --------------------------------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize("job", ["sqlite", "postgresql"], indirect=True)
def test_a_join_steers_its_streams_to_the_joint_bounds_through_rollouts(job: JoinedJob) -> None:
    own_ms = {side: job.recommended_ms(side) for side in SIDES}
    needed = needed_ms(job.put(JOIN, {"streams": [*SIDES], "target_ppm": 990_000}, reason="INC-7"))

    assert {side: job.recommended_ms(side) for side in SIDES} == needed != own_ms
    assert job.steps(CLICKS)["Join"].startswith(
        f"the joined output of attribution needs {(needed[CLICKS] or 0) / 1000:g} s of clicks for 99 % of its pairs"
    )
    assert "Quantile" not in job.steps(CLICKS)
    for side in SIDES:
        (event,) = job.get(job.path(side, "/events") + "?kind=JoinSet")["events"]
        assert event["reason"] == "INC-7"
        assert "attribution" in event["after"]
    steer(job)
    assert job.bounds_ms == needed
    job.run(100)
    for side in SIDES:
        assert job.rollout(side)["state"] == "Verified", job.rollout(side)["reason"]
        assert job.rollout(side)["reason"].endswith("as predicted"), (
            "beside the other side, not by its needs alone"
        )
    state = job.get(JOIN)["state"]
    assert 0 < state["lost_max_ppm"] <= 10_000
    assert state["remaining_ppm"] == (10_000 - state["lost_max_ppm"]) * 100
    assert [side["in_use_bound_ms"] for side in state["sides"]] == list(needed.values())


@on_sqlite_alone("job")
def test_a_bound_that_loses_more_than_the_join_allows_is_rolled_back_though_its_own_slo_allows_it(
    job: JoinedJob,
) -> None:
    for side in SIDES:
        job.put(job.path(side, "/slo"), {"target_ppm": 500_000})
    job.join()
    steer(job)
    job.run(30, slower=2.5)
    rollouts = job.get(job.path(IMPRESSIONS, "/rollouts"))["rollouts"]

    assert rollouts[-1]["state"] == "RolledBack"
    assert "fewer than predicted" in rollouts[-1]["reason"]
    assert rollouts[-1]["reason"].endswith("the target, 0.99")


def test_a_deleted_join_returns_its_streams_to_their_own_slos(job: JoinedJob) -> None:
    own_ms = {side: job.recommended_ms(side) for side in SIDES}
    generation = job.get(job.path(CLICKS, "/slo"))["generation"]
    join = job.join()
    deleted = job.delete(JOIN, reason="no such output any more")

    assert {**deleted, "state": None} == {**join, "state": None}
    assert {side: job.recommended_ms(side) for side in SIDES} == own_ms
    assert "Join" not in job.steps(CLICKS)
    assert job.controller.http.get(JOIN).json()["type"].endswith("join-not-found")
    assert job.get(job.path(CLICKS, "/slo"))["generation"] == generation + 2, "what decides has changed twice"
    (event,) = job.get(job.path(CLICKS, "/events") + "?kind=JoinDeleted")["events"]
    assert event["reason"] == "no such output any more"
    assert job.controller.http.delete(job.path(CLICKS, "/slo"), headers={"If-Match": "*"}).status_code == 200


def test_a_stream_that_leaves_a_join_goes_by_its_own_slo(job: JoinedJob) -> None:
    job.put(job.path("views", "/slo"), {"target_ppm": 900_000})
    job.join()
    job.put(JOIN, {"streams": [IMPRESSIONS, "views"], "target_ppm": 990_000})

    assert "Join" not in job.steps(CLICKS)
    assert "views has not reported" in job.steps(IMPRESSIONS)["Join"]


@on_sqlite_alone("job")
def test_each_stream_says_when_its_join_lost_more_than_the_target_allows_for_sure(job: JoinedJob) -> None:
    def misses() -> dict[str, list[str]]:
        return {
            side: [
                each["detail"]
                for each in job.get(job.path(side))["conditions"]
                if each["type"] == "JoinMissesTarget"
            ]
            for side in SIDES
        }

    job.bounds_ms = dict.fromkeys(SIDES, 1_000)
    job.run(60, slower=3)
    state = job.join(999_000)["state"]
    allowed_ppm = state["lost_min_ppm"]
    assert 1_000 < allowed_ppm < state["lost_max_ppm"]
    text = (
        f"join attribution lost at least {allowed_ppm / 10_000:g} % of its pairs over 30 d; its target, 99.9 %, "
        "allows 0.1 %"
    )
    assert misses() == {side: [text] for side in SIDES}
    job.controller.snapshot()
    for stream in job.get("/v1/fleet")["streams"]:
        assert "JoinMissesTarget" in stream["alerts"], "a snapshot has it too"

    job.join(1_000_000 - allowed_ppm)
    assert misses() == {side: [] for side in SIDES}, "the minimum is just what the target allows"
    job.join(1_000_000 - allowed_ppm + 1)
    assert all(misses().values())
    job.delete(JOIN)
    assert misses() == {side: [] for side in SIDES}


# -- missing data ----------------------------------------------------------------------------------------------------


def test_a_silent_side_holds_the_others_and_what_it_missed_narrows_nothing_later(job: JoinedJob) -> None:
    job.join()
    steer(job)
    wide_ms = dict(job.bounds_ms)
    job.run(12, without=IMPRESSIONS)
    assert job.recommended_ms(CLICKS) is None
    assert job.steps(CLICKS) == {
        "Join": "the output of join attribution decides, and impressions has not reported the last 12 batches: "
        "the bound in use is held"
    }
    assert job.get(job.path(CLICKS, "/bound"))["bound_ms"] == wide_ms[CLICKS]
    assert needed_ms(job.get(JOIN)) == {CLICKS: None, IMPRESSIONS: None}

    job.join(900_000)
    job.run(20)
    assert job.get(JOIN)["state"]["missing_batches"] == 12
    for side in SIDES:
        assert (needed_ms(job.get(JOIN))[side] or 0) < wide_ms[side] == job.recommended_ms(side)
    assert job.steps(CLICKS)["OtherSides"].startswith(
        "12 batches of the join not reported by all sides: the bound"
    )

    job.join()
    job.run(60, slower=3)
    assert (job.recommended_ms(IMPRESSIONS) or 0) > wide_ms[IMPRESSIONS], "widening is allowed"


@on_sqlite_alone("job")
def test_streams_of_different_queries_are_held_and_a_new_checkpoint_begins_anew(job: JoinedJob) -> None:
    job.join()
    job.restart(query_id="renamed")
    job.run(1, without=IMPRESSIONS)
    reason = "clicks reports from query renamed and impressions reports from query query"
    assert reason in job.steps(CLICKS)["Join"]
    assert job.recommended_ms(CLICKS) is None
    assert job.get(JOIN)["state"]["query_id"] is None
    job.run(10)
    assert "not enough evidence: rows 360 of clicks, 360 of impressions" in job.steps(IMPRESSIONS)["Join"]
    job.run(30)
    assert job.recommended_ms(IMPRESSIONS) == needed_ms(job.get(JOIN))[IMPRESSIONS] is not None


@on_sqlite_alone("job")
def test_reports_that_are_aged_out_narrow_nothing(job: JoinedJob) -> None:
    service = job.controller.service
    with service.database.write() as session:
        old = select(ReportRow.id).where(ReportRow.batch_id.in_([3, 40]))
        session.execute(delete(ReportBodyRow).where(ReportBodyRow.report_id.in_(old)))
    # As after a restart.
    service.cache.joins = JoinCache()
    state = job.join()["state"]

    assert (state["batches"], state["missing_batches"]) == (78, 2)
    assert job.recommended_ms(IMPRESSIONS) == 60_000
    assert job.steps(IMPRESSIONS)["OtherSides"].endswith("the bound in use, 60 s, is not narrowed")


@on_sqlite_alone("job")
def test_a_side_is_not_narrowed_while_another_has_less_than_the_join_needs_of_it(job: JoinedJob) -> None:
    job.bounds_ms[IMPRESSIONS] = 5_000
    job.run(1)
    job.join()

    assert job.recommended_ms(CLICKS) == 60_000
    assert job.steps(CLICKS)["OtherSides"].startswith("impressions has 5 s, and the join needs")
    job.put(job.path(IMPRESSIONS, "/policy"), at_once())
    job.restart()
    job.run(1)
    assert job.recommended_ms(CLICKS) == needed_ms(job.get(JOIN))[CLICKS]


# -- evidence --------------------------------------------------------------------------------------------------------


@on_sqlite_alone("job")
def test_evidence_that_was_moved_on_is_that_which_is_counted_at_once(job: JoinedJob) -> None:
    """It goes on over a restart of the job."""
    service = job.controller.service
    job.join()
    for batches in (1, 2, 30, 1, 40):
        job.run(batches)
    job.restart()
    job.run(3)
    with service.database.read() as session:
        join = get_join(session, "job", "attribution")
        kept, anew = (state_of(session, join, joins).evidence for joins in (service.cache.joins, JoinCache()))

    one, other = JointNeeds.merged([kept.needs]), JointNeeds.merged([anew.needs])
    assert one.needs_ms.tolist() == other.needs_ms.tolist()
    assert one.rows.tolist() == other.rows.tolist()
    assert (kept.batches, kept.missing_batches) == (anew.batches, anew.missing_batches) == (157, 0)


def test_bounds_stay_while_they_meet_the_slo_in_every_process_and_after_a_restart(job: JoinedJob) -> None:
    """Two processes that chose on their own might decide about two sides by two choices."""
    needed = needed_ms(job.join())
    job.run(20)
    service = job.controller.service
    service.cache.joins = JoinCache()
    assert needed_ms(job.get(JOIN)) == needed
    with service.database.read() as session:
        join = get_join(session, "job", "attribution")
        anew = state_of(session, replace(join, choice=None), JoinCache()).sides[0].bounds
    assert anew is not None
    assert dict(zip(SIDES, anew.bounds_ms, strict=True)) != needed, "a choice without memory"
    job.put(JOIN, {"streams": [*SIDES], "target_ppm": 980_000})
    assert needed_ms(job.get(JOIN)) != needed, "they are of one SLO"


@on_sqlite_alone("job")
def test_batches_older_than_the_horizon_are_left_out_in_blocks(job: JoinedJob) -> None:
    job.join(horizon_ms=60_000)
    seen = []
    for _ in range(8):
        job.run(15)
        state = job.get(JOIN)["state"]
        seen.append(state["batches"])
        assert state["to_us"] - state["from_us"] == (state["batches"] - 1) * SECOND
        assert state["to_us"] == job.at_us - SECOND, "the newest batch always counts"
    assert min(seen) >= 60
    assert max(seen) < 60 + 50


# -- what is refused -------------------------------------------------------------------------------------------------


def test_what_cannot_be_joined_is_refused_with_the_way_out(job: JoinedJob) -> None:
    job.join()
    job.put(job.path("views", "/slo"), {"target_ppm": 900_000})
    job.put(job.path("views", "/policy"), {"mode": "Live"})
    job.put(job.path("bare", "/policy"), {"mode": "Off"})
    other = JOIN.replace("attribution", "other")
    for streams, status, said in (
        (["views", CLICKS], 409, "'clicks' is a side of join 'attribution' already"),
        (["views", "bare"], 409, "'bare' has no SLO; set one first"),
        (["views", "unheard"], 404, "nothing is known of stream 'unheard'"),
        (["views", "a/b"], 422, "/streams/1: a name cannot contain a slash"),
        (["views"], 422, "at least 2 entries, not 1"),
        (["views", "views"], 422, "each is named once"),
    ):
        refused = job.try_put(other, {"streams": streams, "target_ppm": 990_000})
        assert (refused.status_code, said in refused.json()["detail"]) == (status, True), refused.text
    live = job.try_put(JOIN, {"streams": [CLICKS, "views"], "target_ppm": 990_000})
    assert (live.status_code, "mode Live" in live.json()["detail"]) == (409, True)
    assert job.get(JOIN)["streams"] == [*SIDES], "nothing was written"


def test_what_a_join_needs_of_its_streams_stays_until_it_is_deleted(job: JoinedJob) -> None:
    job.join()
    http, path = job.controller.http, job.path(CLICKS)
    slo = http.delete(path + "/slo", headers={"If-Match": "*"})
    stream = http.delete(path, params={"reason": "gone", "dryRun": "All", "whileReporting": "true"})
    for refused in (slo, stream):
        assert refused.status_code == 409
        assert refused.json()["type"].endswith("stream-joined")
        assert "delete that join first" in refused.json()["detail"]
    live = job.try_put(path + "/policy", {"mode": "Live"})
    assert (live.status_code, "delete the join first" in live.json()["detail"]) == (409, True)
    job.put(path + "/slo", {"target_ppm": 800_000})
    assert "Join" in job.steps(CLICKS), "another SLO of its own leaves it a side of the join"


def test_a_join_is_replaced_only_by_who_has_read_it(job: JoinedJob) -> None:
    http, body = job.controller.http, {"streams": [*SIDES], "target_ppm": 990_000}
    other = {**body, "target_ppm": 980_000}
    assert http.put(JOIN, json=body, headers={"If-Match": '"1"'}).status_code == 412, "there is none"
    dry = http.put(JOIN, json=body, params={"dryRun": "All"})
    assert (dry.status_code, dry.json()["dry_run"]) == (200, True)
    assert http.get(JOIN).status_code == 404
    assert "Join" not in job.steps(CLICKS)

    made = http.put(JOIN, json={**body, "streams": [IMPRESSIONS, CLICKS]})
    assert needed_ms(made.json()) == needed_ms(dry.json()), "a dry run says what follows"
    assert http.put(JOIN, json=body).headers["ETag"] == made.headers["ETag"], "an equal one changes nothing"
    blind = http.put(JOIN, json=other)
    assert (blind.status_code, blind.headers["ETag"]) == (428, made.headers["ETag"])
    assert http.put(JOIN, json=other, headers={"If-Match": '"stale"'}).status_code == 412
    job.controller.clock.now_us += 1
    changed = http.put(JOIN, json=other, headers={"If-Match": made.headers["ETag"]})
    assert changed.json()["target_ppm"] == 980_000
    assert http.get(JOIN).headers["ETag"] == changed.headers["ETag"] != made.headers["ETag"]
    assert http.delete(JOIN).status_code == 428
    assert http.delete(JOIN, headers={"If-Match": made.headers["ETag"]}).status_code == 412
    assert http.delete(
        JOIN, headers={"If-Match": changed.headers["ETag"]}, params={"dryRun": "All"}
    ).is_success
    assert http.get(JOIN).status_code == 200
    assert http.delete(JOIN, headers={"If-Match": "*"}).status_code == 200
    job.controller.clock.now_us += 1
    assert http.put(JOIN, json=other).headers["ETag"] != changed.headers["ETag"], "it is another one"
