"""Rollouts over the real store, under any events in any order: what is published, legal and remembered."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from sqlalchemy import select, text

from tidemark.controller.base.db.tables import EventRow, FailedBoundRow, PublishedRow, RolloutRow
from tidemark.models.rollout.states import OPEN, TRANSITIONS

from support.controller_app import Controller
from support.policies import at_once
from support.rolled_job import RolledJob

pytestmark = pytest.mark.slow

REASON = "INC-1"
TARGETS = (800_000, 900_000, 950_000)
POLICIES: tuple[dict[str, Any], ...] = (
    {"mode": "Off"},
    {"mode": "OnRestart"},
    at_once(),
    at_once("Restart", cooldown_ms=0),
    at_once("Restart", cooldown_ms=0, approval="narrow"),
    at_once(cooldown_ms=0, approval="all"),
    at_once(approval="first", evidence_windows=10),
    at_once(min_bound_ms=9_000, max_bound_ms=25_000),
    at_once("Restart", max_bound_ms=40_000, on_no_data="max", max_narrowings_a_day=1),
    at_once(on_no_data="own", margin_ppm=100_000, max_narrowing_ppm=300_000),
    at_once(paused=True),
    at_once(directions=["Widen"]),
)


class Rollouts(RuleBasedStateMachine):
    """One stream; its job applies what is published, or does not."""

    controller: Controller

    def __init__(self) -> None:
        super().__init__()
        self.job = RolledJob(self.controller, bound_ms=60_000, job=f"job-{uuid4().hex}")
        self.generation = 0
        self.job.put("slo", {"target_ppm": 900_000, "horizon_ms": 600_000})
        self.job.put("policy", at_once())
        self.job.run(8, 30.0, rows=20, tick=False)

    # -- what happens ----------------------------------------------------------------------------------------------

    @rule(batches=st.integers(1, 8), delay_s=st.sampled_from([5.0, 30.0, 80.0]), tick=st.booleans())
    def rows_come(self, batches: int, delay_s: float, tick: bool) -> None:
        self.job.run(batches, delay_s, rows=20, tick=tick)

    @rule()
    def the_job_starts_again(self) -> None:
        self.job.restart()

    @rule(seconds=st.sampled_from([60, 3_600, 90_000, 8 * 86_400, 15 * 86_400]))
    def time_goes_by(self, seconds: int) -> None:
        self.job.wait(seconds)

    @rule()
    def a_tick_is_taken(self) -> None:
        self.controller.tick()

    @rule(target_ppm=st.sampled_from(TARGETS))
    def the_slo_is_set(self, target_ppm: int) -> None:
        self.job.put("slo", {"target_ppm": target_ppm, "horizon_ms": 600_000})

    @rule(policy=st.sampled_from(POLICIES))
    def the_policy_is_set(self, policy: dict[str, Any]) -> None:
        self.job.put("policy", policy)

    @rule(act=st.sampled_from([":pause", ":resume"]))
    def it_is_paused_or_resumed(self, act: str) -> None:
        assert self.job.act(act, REASON).status_code == 200

    @rule(to=st.sampled_from(["Off", "Ceiling"]))
    def it_is_pinned(self, to: str) -> None:
        held = self.controller.http.get(self.job.pin_url).headers.get("etag")
        replaces = {} if held is None else {"If-Match": held}
        body = {"to": to, "reason": REASON}
        answer = self.controller.http.put(self.job.pin_url, json=body, headers=replaces)
        assert answer.status_code == 200

    @rule()
    def it_is_unpinned(self) -> None:
        assert self.controller.http.delete(self.job.pin_url).status_code in {200, 404}

    @precondition(lambda self: self.job.rollouts())
    @rule(act=st.sampled_from(["approve", "discard", "rollback"]), which=st.integers(0, 2))
    def a_person_acts(self, act: str, which: int) -> None:
        rollouts = self.job.rollouts()
        one = rollouts[min(which, len(rollouts) - 1)]
        before = self.job.published()
        answer = self.job.act(f"/rollouts/{one['id']}:{act}", REASON)
        assert answer.status_code in {200, 409}, answer.text
        if answer.status_code == 409:
            assert self.job.published() == before
        else:
            again = self.job.act(f"/rollouts/{one['id']}:{act}", REASON)
            assert (again.status_code, again.json()) == (200, answer.json())

    # -- what holds all the time -----------------------------------------------------------------------------------

    @invariant()
    def what_the_job_finds_published_is_the_newest_generation_and_no_generation_goes_back(self) -> None:
        body = self.job.published()
        assert body["generation"] >= self.generation
        self.generation = body["generation"]
        newest = self.published()[-1]
        assert (body["generation"], body["bound_ms"]) == (newest.generation, newest.bound_ms)

    @invariant()
    def at_most_one_rollout_is_open_and_it_is_the_newest(self) -> None:
        rollouts = self.job.rollouts()
        assert [one["id"] for one in rollouts if one["state"] in OPEN] in (
            [],
            [one["id"] for one in rollouts[:1]],
        )

    @invariant()
    def every_rollout_went_a_legal_way(self) -> None:
        ways: dict[int, list[str]] = {}
        with self.controller.service.database.read() as session:
            events = session.scalars(
                select(EventRow)
                .where(EventRow.stream_id == self.stream_id, EventRow.rollout_id.is_not(None))
                .order_by(EventRow.id)
            ).all()
            rows = session.scalars(select(RolloutRow).where(RolloutRow.stream_id == self.stream_id)).all()
            final = {row.id: row.state for row in rows}
        for event in events:
            if event.kind not in {"RolloutHeld", "RolloutApproved", "RolloutMissed", "RolloutRecovered"}:
                assert event.after is not None
                way = ways.setdefault(event.rollout_id or 0, [])
                after = json.loads(event.after)["state"]
                if event.before is not None:
                    assert json.loads(event.before)["state"] == way[-1]
                    assert after in TRANSITIONS[way[-1]]  # type: ignore[index]  # a state
                way.append(after)
        assert {number: way[-1] for number, way in ways.items()} == final

    @invariant()
    def every_generation_has_its_cause(self) -> None:
        pinned_before, before = None, None
        rollouts = {one["id"]: one for one in self.job.rollouts()}
        for row in self.published():
            if row.rollout_id is not None:
                assert row.pin is None
                assert rollouts[row.rollout_id]["to_bound_ms"] == row.bound_ms
            if row.rolled_back_id is not None:
                assert row.pin is None
                assert rollouts[row.rolled_back_id]["state"] in {"RolledBack", "Expired"}
            assert (before, pinned_before) != ((row.mode, row.bound_ms), row.pin)
            before, pinned_before = (row.mode, row.bound_ms), row.pin

    @invariant()
    def what_failed_is_not_published_again_before_its_time(self) -> None:
        with self.controller.service.database.read() as session:
            failed = session.scalars(
                select(FailedBoundRow).where(FailedBoundRow.stream_id == self.stream_id)
            ).all()
            rows = session.scalars(
                select(RolloutRow).where(
                    RolloutRow.stream_id == self.stream_id,
                    RolloutRow.published_us.is_not(None),
                    RolloutRow.cause == "Decision",
                )
            ).all()
            failed_us = {
                failure.id: session.get_one(RolloutRow, failure.rollout_id).changed_us for failure in failed
            }
        for failure in failed:
            for row in rows:
                same = (row.direction, row.slo_generation) == (failure.direction, failure.slo_generation)
                if (
                    same
                    and row.policy_generation == failure.policy_generation
                    and row.id > failure.rollout_id
                ):
                    assert row.to_bound_ms is not None
                    assert failure.bound_ms is not None
                    further = (
                        row.to_bound_ms <= failure.bound_ms
                        if row.direction == "Narrow"
                        else row.to_bound_ms >= failure.bound_ms
                    )
                    first_us = self.first_published_us(row.id)
                    assert not further or not failed_us[failure.id] <= first_us < failure.until_us

    @property
    def stream_id(self) -> int:
        with self.controller.service.database.read() as session:
            found = session.execute(text("select id from streams where job = :job"), {"job": self.job.job})
            number: int = found.scalar_one()
            return number

    def published(self) -> list[PublishedRow]:
        with self.controller.service.database.read() as session:
            return list(
                session.scalars(
                    select(PublishedRow)
                    .where(PublishedRow.stream_id == self.stream_id)
                    .order_by(PublishedRow.generation)
                )
            )

    def first_published_us(self, rollout_id: int) -> int:
        """Return when a rollout was first published; publishing it again after a pin is not a new try."""
        with self.controller.service.database.read() as session:
            found = session.scalars(
                select(PublishedRow.published_us)
                .where(PublishedRow.rollout_id == rollout_id)
                .order_by(PublishedRow.generation)
            ).first()
            assert found is not None
            return found


@contextmanager
def machine_on(url: str) -> Iterator[type[Rollouts]]:
    with Controller(url, requests_per_second=0, reports_per_second=0) as running:
        yield type("RolloutsHere", (Rollouts,), {"controller": running})


def run(machine: type[Rollouts], examples: int, steps: int) -> None:
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            derandomize=True,
            suppress_health_check=list(HealthCheck),
        ),
    )


@pytest.mark.long
@pytest.mark.parametrize(("examples", "steps"), [(6, 20), pytest.param(60, 30, marks=pytest.mark.soak)])
def test_rollouts_keep_their_invariants_on_sqlite(examples: int, steps: int) -> None:
    with tempfile.TemporaryDirectory() as folder, machine_on(f"sqlite:///{Path(folder) / 'x.db'}") as machine:
        run(machine, examples=examples, steps=steps)


@pytest.mark.parametrize(("examples", "steps"), [(2, 20), pytest.param(20, 30, marks=pytest.mark.soak)])
def test_rollouts_keep_their_invariants_on_postgresql(
    new_postgres_url: str, examples: int, steps: int
) -> None:
    with machine_on(new_postgres_url) as machine:
        run(machine, examples=examples, steps=steps)
