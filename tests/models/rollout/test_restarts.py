"""How many jobs restart at once, and which of them first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemark.models.protocol.messages import Mode
from tidemark.models.rollout.machine import restores_previous
from tidemark.models.rollout.restarts import (
    FLEET,
    FleetLimits,
    RestartingJob,
    RestartLine,
    limited,
    restarts_job,
)
from tidemark.models.rollout.states import CANDIDATE, Move, State

from support.rollouts import rollout

FLEET_LIMITS = FleetLimits(narrowing_ppm=0, restarting_ppm=100_000, restart_label="source")
PUBLISHED = Move("Published", "published: nothing holds it")
ROLLED_BACK = Move("RolledBack", "98 % were admitted", failure="Completeness")


def line(
    restarting: Sequence[RestartingJob], waiting: Sequence[RestartingJob], share_ppm: int, **jobs: int
) -> RestartLine:
    return RestartLine(
        limits=replace(FLEET_LIMITS, restarting_ppm=share_ppm),
        jobs={FLEET: jobs.pop("fleet"), **jobs},
        restarting=restarting,
        waiting=waiting,
    )


@given(
    jobs=st.dictionaries(
        st.text("abcdef", min_size=1),
        st.tuples(st.integers(0, 20), st.sampled_from(["x", "y", None])),
        min_size=1,
    ),
    share_ppm=st.integers(0, 1_000_000),
    data=st.data(),
)
def test_those_that_lose_most_restart_first_and_never_more_than_the_share_of_fleet_and_group(
    jobs: Mapping[str, tuple[int, str | None]], share_ppm: int, data: st.DataObject
) -> None:
    waiting = [RestartingJob(name, lost, label) for name, (lost, label) in jobs.items()]
    sizes = Counter(group for job in waiting for group in job.groups)
    restarting: list[RestartingJob] = []
    while waiting:
        now = line(restarting, waiting, share_ppm, fleet=sizes[FLEET], x=sizes["x"], y=sizes["y"])
        free = [job for job in waiting if now.why_waiting(job, waits=True) is None]
        assert free or restarting, "somebody can always go on"
        together = Counter(group for job in [*restarting, *free] for group in job.groups)
        for group, number in together.items():
            assert number <= max(sizes[group] * share_ppm // 1_000_000, 1), "all that may go on fit at once"
        # One decision follows the other, each with what the one before has begun.
        if free:
            job = data.draw(st.sampled_from(free))
            more = [
                other for other in waiting if other.lost_rows > job.lost_rows and other.label == job.label
            ]
            waiting.remove(job)
            restarting.append(job)
            taken = Counter(group for job in restarting for group in job.groups)
            for group in job.groups:
                assert taken[group] <= max(sizes[group] * share_ppm // 1_000_000, 1)
            assert set(more) <= set(free), "nobody of its group that loses more is left waiting"
        else:
            restarting.remove(data.draw(st.sampled_from(restarting)))


def test_a_group_that_is_full_does_not_hold_jobs_of_other_groups() -> None:
    worst = [RestartingJob(f"a{n}", 100 + n, "a") for n in range(5)]
    other = RestartingJob("b", 1, "b")
    now = line([worst[4]], worst[:4], 200_000, fleet=10, a=5, b=5)
    assert now.why_waiting(other, waits=True) is None
    assert now.why_waiting(worst[3], waits=True) == (
        "held: at most 1 of the 5 jobs with source=a that are in mode Restart may restart at once, "
        "those that lose most rows first"
    )


def test_a_job_waits_once_so_that_it_is_compared_with_others_that_begin_to_wait() -> None:
    own = RestartingJob("a", 5)
    now = line([], [], 100_000, fleet=20)
    assert now.why_waiting(own, waits=False) == (
        "held: at most 2 of the 20 jobs of the fleet that are in mode Restart may restart at once, "
        "those that lose most rows first"
    )
    assert now.why_waiting(own, waits=True) is None
    assert line([], [], 0, fleet=1).why_waiting(own, waits=False) is None


def test_a_job_that_restarts_already_takes_a_newer_bound_too() -> None:
    own, other = RestartingJob("a", 5), RestartingJob("b", 9)
    assert line([own, other], [], 0, fleet=20).why_waiting(own, waits=False) is None


def test_a_job_of_several_streams_takes_one_place() -> None:
    streams = [RestartingJob("a", 9), RestartingJob("a", 8), RestartingJob("a", 7)]
    assert line([], streams, 100_000, fleet=20).why_waiting(RestartingJob("b", 1), waits=True) is None


def test_before_its_turn_a_rollout_is_held_as_by_a_gate() -> None:
    for state in CANDIDATE:
        assert limited(rollout(state), PUBLISHED, "held") == Move("Recommended", "held", "Restarts")
        assert limited(rollout(state), PUBLISHED, None) == PUBLISHED


@pytest.mark.parametrize("state", ["Effective", "Verified"])
def test_a_rollback_waits_for_its_turn_and_says_what_it_is_for(state: State) -> None:
    one = rollout(state, mode="Restart")
    assert restarts_job(one, ROLLED_BACK)
    assert limited(one, ROLLED_BACK, "held") == Move(
        state, "98 % were admitted; held", "Restarts", "Completeness"
    )
    assert limited(one, ROLLED_BACK, None) == ROLLED_BACK


@pytest.mark.parametrize("mode", get_args(Mode))
def test_only_in_mode_restart_a_rollout_restarts_its_job(mode: Mode) -> None:
    for state in CANDIDATE:
        assert restarts_job(rollout(state, mode=mode), PUBLISHED) == (mode == "Restart")


@pytest.mark.parametrize(
    ("changes", "move"),
    [
        ({"state": "Published"}, PUBLISHED),
        ({"state": "Published"}, Move("Expired", "the job did not acknowledge it within 1 h")),
        ({"state": "Effective", "direction": "Widen"}, Move("Expired", "it could not be verified")),
        ({"state": "Recommended", "cause": "NoData"}, PUBLISHED),
        ({"state": "Recommended"}, Move("Recommended", "held", "Paused")),
    ],
)
def test_what_restarts_no_job_is_not_limited(changes: dict[str, Any], move: Move) -> None:
    assert not restarts_job(rollout(mode="Restart", **changes), move)


def test_whatever_publishes_the_previous_bound_to_a_job_that_left_it_restarts_it() -> None:
    for state in ("Acknowledged", "Effective", "Verified"):
        for move in (ROLLED_BACK, Move("Expired", "it could not be verified")):
            one = rollout(state, mode="Restart")
            assert restarts_job(one, move) == restores_previous(one.state, move, one)
