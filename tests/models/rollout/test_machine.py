"""The state machine of rollouts: its table, and the states from publishing to effect."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tidemark.models.base.defaults import ACKNOWLEDGE_MS, ACKNOWLEDGE_ON_RESTART_MS, VERIFY_MS
from tidemark.models.rollout.evidence import Judged
from tidemark.models.rollout.gate import DAY_US
from tidemark.models.rollout.machine import advance, restores_previous
from tidemark.models.rollout.states import TRANSITIONS, Move, State, allowed

from support.rollouts import NOW_US, STATES, facts, moved, policy, rollout

ENDED = {state for state, follows in TRANSITIONS.items() if not follows}


def test_every_state_is_in_the_table_and_can_be_reached() -> None:
    assert set(TRANSITIONS) == set(STATES)
    reached: set[State] = {
        "Recommended",
        "Published",
    }  # a write in Live begins with what is published already
    for _ in STATES:
        reached |= {after for before in reached for after in TRANSITIONS[before]}
    assert reached == set(STATES)


def test_final_states_stay_and_a_verified_rollout_can_only_be_rolled_back() -> None:
    assert {"RolledBack", "Superseded", "Expired", "Discarded"} == ENDED
    assert TRANSITIONS["Verified"] == {"RolledBack"}
    for state in (*ENDED, "Verified"):
        known = facts(pinned="by INC-1", judged=Judged(9_999, 9_999, 9_999))
        assert advance(rollout(state), known, NOW_US + VERIFY_MS * 10_000) is None
    acts = {state: allowed(state, vetoed=False) for state in STATES}
    assert {state: allowed_now for state, allowed_now in acts.items() if allowed_now} == {
        "Recommended": ("approve", "discard"),
        "AwaitingApproval": ("approve", "discard"),
        "Published": ("rollback",),
        "Acknowledged": ("rollback",),
        "Effective": ("rollback",),
        "Verified": ("rollback",),
    }


def test_a_rollout_goes_from_published_to_acknowledged_to_effective() -> None:
    assert moved(rollout("Published"), facts()).state == "Published"
    assert moved(rollout("Published"), facts(acknowledged_us=NOW_US)).state == "Acknowledged"
    assert moved(rollout("Acknowledged"), facts(acknowledged_us=NOW_US)).state == "Acknowledged"
    assert moved(rollout("Acknowledged"), facts(effective_us=NOW_US)).state == "Effective"


@pytest.mark.parametrize(
    ("mode", "limit_ms"),
    [("OnRestart", ACKNOWLEDGE_ON_RESTART_MS), ("Restart", ACKNOWLEDGE_MS), ("Live", ACKNOWLEDGE_MS)],
)
@pytest.mark.parametrize("direction", ["Widen", "Narrow"])
def test_a_rollout_that_is_not_acknowledged_expires_and_the_previous_bound_returns(
    mode: Any, limit_ms: int, direction: Any
) -> None:
    # It counts from when it was published last: under another mode the same bound is published again.
    one = rollout("Published", mode=mode, direction=direction, changed_us=NOW_US - DAY_US)
    assert moved(one, facts(), NOW_US + limit_ms * 1_000).state == "Published"
    move = moved(one, facts(), NOW_US + limit_ms * 1_000 + 1)
    assert move.state == "Expired"
    assert restores_previous("Published", move, one)
    assert not restores_previous("Published", move, replace(one, cause="Operator"))


def test_what_is_published_says_when_the_job_takes_it() -> None:
    reasons = [
        moved(rollout("Published", mode=mode), facts()).reason for mode in ("OnRestart", "Restart", "Live")
    ]
    assert reasons == ["published: the job takes it when it next starts", "published", "published"]


def test_what_is_published_while_no_data_comes_waits_for_the_job() -> None:
    one = rollout("Published", cause="NoData", direction="Widen")
    assert moved(one, facts(), NOW_US + 100 * DAY_US).state == "Published"
    candidate = rollout(cause="NoData", direction="Widen")
    assert moved(candidate, facts(last_contact_us=None)).state == "Published"
    assert moved(candidate, facts(last_contact_us=None, policy=policy(paused=True))).gate == "Paused"


def test_a_narrowing_that_cannot_be_verified_is_undone_and_a_widening_stays() -> None:
    late_us = NOW_US + VERIFY_MS * 1_000 + 1
    for state in ("Acknowledged", "Effective"):
        for direction, back in (("Narrow", True), ("Widen", False)):
            one = rollout(state, direction=direction, acknowledged_us=NOW_US)
            move = moved(one, facts(), late_us)
            assert move.state == "Expired"
            assert restores_previous(state, move, one) is back
            assert ("it stays" in move.reason) is not back


def test_what_is_known_of_a_bound_counts_though_its_time_to_be_verified_is_over() -> None:
    one = rollout("Effective", acknowledged_us=NOW_US)
    known = facts(judged=Judged(1_000, 5, 5), at_risk=Judged(1_000, 5, 5))
    assert moved(one, known, NOW_US + VERIFY_MS * 1_000 + 1).state == "Verified"


@pytest.mark.parametrize("state", ["Published", "Acknowledged", "Effective"])
def test_a_pin_stops_a_rollout_that_is_under_way(state: Any) -> None:
    known = facts(
        pinned="by the pin: INC-1",
        acknowledged_us=NOW_US,
        effective_us=NOW_US,
        judged=Judged(9_999, 9_999, 9_999),
    )
    move = moved(rollout(state), known, NOW_US + 100 * DAY_US)
    assert (move.state, move.gate) == (state, "Pinned")


@pytest.mark.parametrize("state", ["Acknowledged", "Effective", "Verified"])
def test_only_a_rollback_and_an_expiry_restore_the_previous_bound(state: Any) -> None:
    """A newer recommendation that takes its place publishes its own."""
    one = rollout(state)
    for ends in ENDED - {"RolledBack", "Expired"}:
        assert not restores_previous(state, Move(ends, "it ended"), one)
