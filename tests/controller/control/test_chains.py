"""What a bound decides behind a stream's own operator: shown with each bound, and what it forbids."""

from __future__ import annotations

from typing import Any

import pytest

from tidemark.models.protocol.downstream import Downstream
from tidemark.models.protocol.messages import Acknowledgement, to_json_object

from support.controller_app import Controller
from support.policies import at_once
from support.reports import START_US
from support.rolled_job import RolledJob

pytestmark = pytest.mark.slow

SLO = {"target_ppm": 990_000}
BEHIND_A_JOIN = Downstream(retention_ms=6_001, horizon_ms=0, horizon_moves=True)
UNSAFE = Downstream(retention_ms=0, unsafe=True)


def started(controller: Controller, downstream: Downstream | None, own_ms: int, **policy: Any) -> RolledJob:
    """Return a job that has acknowledged its chain, and 200 batches of it with rows up to 30 s late."""
    job = RolledJob(controller, bound_ms=own_ms)
    job.downstream = downstream
    job.put("slo", SLO)
    job.put("policy", at_once(**policy))
    job.restart()
    job.run(200, 30.0, tick=False)
    controller.tick()
    return job


def steps(answer: dict[str, Any]) -> dict[str, str]:
    return {step["kind"]: step["reason"] for step in answer["recommended"]["steps"]}


def test_a_recommendation_its_rollout_a_dry_run_and_a_preview_say_when_windows_behind_a_join_close(
    controller: Controller,
) -> None:
    job = started(controller, BEHIND_A_JOIN, 120_000)
    bound_ms = job.published()["bound_ms"]
    said = (
        f"windows close at bound + 6.001 s behind the join: {(bound_ms + 6_001) / 1_000:g} s; "
        f"an event is known for {2 * bound_ms / 1_000:g} s"
    )
    dry = controller.http.put(
        f"{job.path}/slo?dryRun=All", json={"target_ppm": 980_000}, headers={"If-Match": "*"}
    ).json()
    preview = controller.http.get(f"{job.path}/preview?bound_ms=30000").json()

    assert steps(job.status())["Downstream"] == said
    assert job.published()["reason"].endswith(said)
    assert said in job.events("RolloutRecommended")[0]["reason"]
    assert "windows close at bound + 6.001 s behind the join" in steps(dry)["Downstream"]
    assert (
        "windows close at bound + 6.001 s behind the join: 36.001 s; an event is known for 60 s"
        in preview["text"]
    )


def test_a_bound_whose_windows_behind_a_join_come_after_the_cap_is_beyond_the_cap(
    controller: Controller,
) -> None:
    job = started(controller, BEHIND_A_JOIN, 120_000)
    bound_ms = job.published()["bound_ms"]
    preview = f"{job.path}/preview?bound_ms={bound_ms}"
    alone_ms = controller.http.get(preview).json()["latency_wall_ms"]
    job.put("slo", {**SLO, "latency_cap_ms": alone_ms + 5_000})

    assert "above the cap" in steps(job.status())["LatencyCap"]
    assert controller.http.get(preview).json()["meets_latency_cap"] is False
    job.put("slo", {**SLO, "latency_cap_ms": alone_ms + 7_000})
    assert "above the cap" not in steps(job.status())["LatencyCap"]
    assert controller.http.get(preview).json()["meets_latency_cap"] is True


def test_an_unsafe_chain_is_neither_narrowed_nor_run_in_live_before_the_job_confirms_it(
    controller: Controller,
) -> None:
    """A maximum of the policy does not narrow it either: the job would not start with it."""
    job = started(controller, UNSAFE, 120_000)
    refused = controller.http.put(f"{job.path}/policy", json=at_once("Live"), headers={"If-Match": "*"})
    job.put("policy", at_once(max_bound_ms=50_000))
    job.run(1, 30.0)

    assert (refused.status_code, refused.json()["type"]) == (409, "urn:tidemark:problem:live-refused")
    assert "spark.tidemark.own.event.time.confirmed=true" in refused.json()["detail"]
    assert "gives its rows an event time of their own" in steps(job.status())["OwnEventTime"]
    assert steps(job.status())["OwnEventTime"].endswith("the bound in use, 2 min, is not narrowed")
    assert job.status()["recommended"]["bound_ms"] == 120_000
    assert job.rollouts() == []
    assert job.published()["bound_ms"] is None

    job.downstream = Downstream(retention_ms=0)
    job.put("policy", at_once())
    job.restart()
    job.run(1, 30.0)
    assert job.published()["bound_ms"] < 60_000


@pytest.mark.parametrize(("downstream", "kept"), [(UNSAFE, True), (None, False)], ids=["unsafe", "none"])
@pytest.mark.parametrize("ended", ["rolled back", "no reports"])
def test_what_gives_other_jobs_their_own_narrower_bound_leaves_an_unsafe_chain_its_wider_one(
    controller: Controller, downstream: Downstream | None, ended: str, *, kept: bool
) -> None:
    job = started(controller, downstream, 5_000, on_no_data="own")
    wider_ms = job.published()["bound_ms"]
    assert wider_ms > 10_000
    job.restart()
    job.run(2, 30.0)
    if ended == "rolled back":
        assert job.act(f"/rollouts/{job.rollout()['id']}:rollback").status_code == 200
    else:
        job.wait(3_600)
        controller.tick()

    assert job.published()["bound_ms"] == (wider_ms if kept else None)


def test_the_chain_of_the_run_that_applied_its_bound_last_counts(controller: Controller) -> None:
    """Also where an older acknowledgement comes after it."""
    job = started(controller, BEHIND_A_JOIN, 120_000)

    def acknowledge(applied_us: int, downstream: Downstream | None) -> None:
        body = Acknowledgement(
            query_id="query",
            run_id=f"at {applied_us}",
            bound_ms=120_000,
            generation=None,
            source="job",
            mode="OnRestart",
            applied_us=applied_us,
            downstream=downstream,
        )
        assert controller.http.post(f"{job.path}/acks", json=to_json_object(body)).status_code == 201
        job.run(1, 30.0)

    acknowledge(START_US - 1, Downstream(retention_ms=1))
    assert "6.001 s" in steps(job.status())["Downstream"]
    acknowledge(START_US + 1, None)
    assert "Downstream" not in steps(job.status())
