"""Old rows of what was decided and published are deleted, and nothing that the present state follows from."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import select, update

from tidemark.controller.base.db.tables import (
    AcknowledgementRow,
    FailedBoundRow,
    QueryRow,
    ReportRow,
    RolloutRow,
    StreamRow,
)
from tidemark.controller.control.retention.upkeep import Upkeep
from tidemark.models.evidence.slots import Retention
from tidemark.models.protocol.messages import Acknowledgement, to_json_object

from support.controller_app import Controller
from support.databases import on_sqlite_alone
from support.policies import at_once
from support.rolled_job import RolledJob
from support.seeded import continued
from support.settled import HOUR, LOOSE, settled

pytestmark = pytest.mark.slow

DAY = 24 * HOUR


def old_job(controller: Controller) -> RolledJob:
    """Return a job with a veto, many generations, two queries and a failed bound, all forty days old."""
    job = settled(controller)
    acknowledge(job, "another query", None)
    job.put("policy", at_once(cooldown_ms=0, approval="all"))
    for target_ppm in (700_000, 750_000):
        job.put("slo", {"target_ppm": target_ppm})
    job.put("policy", at_once(cooldown_ms=0))
    job.put("slo", LOOSE)
    number = job.rollout()["id"]
    job.act(f"/rollouts/{number}:rollback", "INC-7")
    for bound_ms in range(20_000, 26_000, 1_000):
        job.put("policy", at_once(cooldown_ms=0, min_bound_ms=40_000 + bound_ms))
        acknowledge(job, "query", job.published()["generation"])
    job.put("policy", at_once(cooldown_ms=0))
    with controller.service.database.write() as session:
        (old,) = session.scalars(
            select(RolloutRow).where(RolloutRow.state == "Superseded").order_by(RolloutRow.id).limit(1)
        )
        old.state, old.vetoed = "Discarded", True
        (newest,) = session.scalars(select(ReportRow).order_by(ReportRow.id.desc()).limit(1))
        session.add(
            FailedBoundRow(
                stream_id=newest.stream_id,
                rollout_id=1,
                direction="Narrow",
                bound_ms=1,
                envelope=None,
                why="it missed its target",
                until_us=controller.clock(),
                slo_generation=1,
                policy_generation=1,
            )
        )
    job.wait(40 * DAY)
    job.restart()
    job.run(4, 30.0)
    upkeep, stream_id = upkeep_of(job)
    while upkeep.age(stream_id):
        pass
    return job


def acknowledge(job: RolledJob, query: str, generation: int | None) -> None:
    body = Acknowledgement(
        query_id=query,
        run_id=f"run {job.run_number}",
        bound_ms=job.bound_ms,
        generation=generation,
        source="job" if generation is None else "controller",
        mode="OnRestart",
        applied_us=job.at_us,
    )
    answer = job.controller.http.post(f"{job.path}/acks", json=to_json_object(body))
    assert answer.status_code == 201, answer.text


@pytest.fixture(params=["sqlite", "postgresql"])
def job(request: pytest.FixtureRequest) -> Iterator[RolledJob]:
    """One on each kind of database."""
    url = request.getfixturevalue("database_url" if request.param == "sqlite" else "postgres_url")
    with continued(url, old_job) as found:
        yield found


def listed(job: RolledJob, what: str, key: str | None = None) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = job.controller.http.get(f"{job.path}/{what}").json()[key or what]
    return found


def upkeep_of(job: RolledJob) -> tuple[Upkeep, int]:
    """Return the upkeep of a store that keeps what was decided for 32 days, and the id of its stream."""
    service = job.controller.service
    service.decider.leases.keep(now=True)
    with service.database.read() as session:
        stream_id = session.scalars(select(StreamRow.id)).one()
    return Upkeep(service.database, service.decider.leases, Retention(history_days=32)), stream_id


def forget(job: RolledJob) -> None:
    """Delete all that is old, and decide again."""
    upkeep, stream_id = upkeep_of(job)
    while upkeep.forget(stream_id):
        pass
    job.controller.service.decider.forget(stream_id)
    job.controller.tick()


def test_the_state_of_a_stream_is_the_same_without_its_old_rows(job: RolledJob) -> None:
    bounds, rollouts = listed(job, "bounds"), listed(job, "rollouts")
    before, published = job.status(), job.published()
    forget(job)
    after = job.status()
    assert after == before
    assert job.published() == published
    assert bounds[0]["generation"] == listed(job, "bounds")[0]["generation"]
    assert 1 < len(listed(job, "bounds")) < len(bounds)
    assert len(listed(job, "predictions")) <= len(listed(job, "bounds"))
    vetoed = [row["id"] for row in rollouts if row["vetoed"]]
    kept = {row["id"] for row in listed(job, "rollouts")}
    assert len(vetoed) == 2
    assert {*vetoed, rollouts[0]["id"]} <= kept
    assert len(kept) < len(rollouts)
    with job.controller.service.database.read() as session:
        assert session.scalars(select(FailedBoundRow.id)).all() == []


@on_sqlite_alone("job")
def test_the_last_acknowledgement_of_a_query_stays_as_long_as_the_query(job: RolledJob) -> None:
    acknowledgements = listed(job, "acks", "acknowledgements")
    with job.controller.service.database.write() as session:
        (stream_id,) = session.scalars(select(ReportRow.stream_id).distinct())
        session.add(
            QueryRow(
                stream_id=stream_id,
                query_id="another query",
                first_batch=0,
                last_batch=9,
                reports=8,
                deleted_batch=8,
                deleted_max_event_time_us=None,
            )
        )
    missing = job.status()["completeness"]["missing_batches"]
    forget(job)
    kept = listed(job, "acks", "acknowledgements")
    assert len(kept) < len(acknowledgements)
    assert kept[0] == acknowledgements[0]
    assert sorted(row["query_id"] for row in kept if row["generation"] is None) == ["another query"]
    with job.controller.service.database.write() as session:
        session.execute(update(QueryRow).where(QueryRow.query_id == "another query").values(deleted_batch=9))
    metrics = job.controller.http.get("/metrics").text
    forget(job)
    with job.controller.service.database.read() as session:
        assert session.scalars(select(QueryRow.query_id)).all() == ["query"]
        # What the job's own bound was is still known.
        assert session.scalars(
            select(AcknowledgementRow.query_id).where(AcknowledgementRow.generation.is_(None))
        ).all() == ["another query"]
    assert job.status()["completeness"]["missing_batches"] == missing
    counted = "tidemark_missing_batches"
    assert lines(metrics, counted) == lines(job.controller.http.get("/metrics").text, counted) != []


def lines(metrics: str, name: str) -> list[str]:
    return [line for line in metrics.splitlines() if line.startswith(name)]


def test_a_step_deletes_no_more_than_it_may_so_that_reports_come_between(
    job: RolledJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "tidemark.controller.control.retention.history.delete_some.__kwdefaults__", {"limit": 1}
    )
    before = len(listed(job, "bounds"))
    upkeep, stream_id = upkeep_of(job)
    held = before
    while upkeep.forget(stream_id):
        now = len(listed(job, "bounds"))
        assert held - now in {0, 1}
        held = now
    assert held < before


def test_upkeep_without_time_takes_a_step_in_each_tick_until_nothing_is_left(controller: Controller) -> None:
    old_job(controller)
    service, now_us = controller.service, controller.clock()
    upkeep = Upkeep(service.database, service.decider.leases, Retention())
    taken = [upkeep.tick(now_us, max_seconds=0) for _ in range(100)]
    assert max(taken) == 1
    assert sum(taken) > 2
    assert Upkeep(service.database, service.decider.leases, Retention()).tick(now_us) == 0
