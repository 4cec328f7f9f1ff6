"""The gate before a rollout is published, and approval."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, get_args

import pytest

from tidemark.models.base.defaults import APPROVE_MS, LISTENING_MS
from tidemark.models.rollout.evidence import EvidenceSpan
from tidemark.models.rollout.gate import DAY_US
from tidemark.models.rollout.machine import restores_previous, revise
from tidemark.models.rollout.states import Failure
from tidemark.models.specs.slo import Direction, FreezeWindow, Policy

from support.rollouts import APPROVED, HOUR_US, NOW_US, facts, moved, policy, rollout


def test_a_rollout_that_no_gate_holds_is_published() -> None:
    assert moved(rollout(), facts()).state == "Published"


@pytest.mark.parametrize(
    ("gate", "changes"),
    [
        ("Pinned", {"pinned": "by the pin on the whole fleet: INC-1"}),
        ("Paused", {"policy": policy(paused=True)}),
        ("NotListening", {"last_contact_us": None}),
        ("NotListening", {"last_contact_us": NOW_US - LISTENING_MS * 1_000 - 1}),
        ("NotListening", {"unanswered_us": NOW_US - LISTENING_MS * 1_000 - 1}),
        (
            "FailedBefore",
            {"failures": (Failure("Narrow", 20_000, NOW_US + 1, "it lost rows", 7),)},
        ),
        ("Vetoed", {"failures": (Failure("Narrow", 20_000, None, "rollout 7 was rolled back: INC-7", 7),)}),
        ("Evidence", {"evidence": EvidenceSpan(covered_us=1, needed_us=2, reached_us=NOW_US)}),
        ("Frozen", {"policy": policy(freeze_windows=(FreezeWindow(days=("Thu",)),))}),
        ("Cooldown", {"narrowed_us": (NOW_US - HOUR_US + 1,)}),
        (
            "RateLimit",
            {
                "policy": policy(cooldown_ms=0, max_narrowings_a_day=2),
                "narrowed_us": (NOW_US - DAY_US + 1, NOW_US),
            },
        ),
        ("FleetShare", {"fleet_narrowing": 3, "fleet_max": 3}),
    ],
)
def test_each_gate_holds_a_narrowing_and_says_so(gate: str, changes: dict[str, Any]) -> None:
    move = moved(rollout(), facts(**changes))
    assert (move.state, move.gate) == ("Recommended", gate)
    assert move.reason.startswith("held")


@pytest.mark.parametrize(
    "changes",
    [
        {"evidence": EvidenceSpan(covered_us=1, needed_us=2, reached_us=NOW_US)},
        {"policy": policy(freeze_windows=(FreezeWindow(days=("Thu",)),))},
        {"narrowed_us": (NOW_US,)},
        {"policy": policy(max_narrowings_a_day=1), "narrowed_us": (NOW_US - 2 * HOUR_US,)},
        {"fleet_narrowing": 9, "fleet_max": 1},
        {"policy": policy(approval="narrow")},
        {"failures": (Failure("Narrow", 90_000, NOW_US + 1, "it lost rows", 7),)},
    ],
)
def test_gates_that_slow_narrowing_never_hold_a_widening(changes: dict[str, Any]) -> None:
    assert moved(rollout(direction="Widen"), facts(**changes)).state == "Published"


def test_a_first_bound_after_a_rollback_waits_like_any_other_narrowing() -> None:
    """Where the one before was never taken up or went back, nothing is published, and it was narrowed all the same."""
    first = rollout(first=True)
    assert moved(first, facts(narrowed_us=(NOW_US,))).gate == "Cooldown"
    rated = policy(cooldown_ms=0, max_narrowings_a_day=1)
    assert moved(first, facts(policy=rated, narrowed_us=(NOW_US,))).gate == "RateLimit"


@pytest.mark.parametrize(
    "changes",
    [
        {"policy": policy(paused=True)},
        {"last_contact_us": None},
        {"narrowed_us": (NOW_US,)},
        {"failures": (Failure("Narrow", 20_000, None, "rollout 7 was rolled back: INC-7", 7),)},
    ],
)
def test_what_a_person_sets_passes_every_gate_but_the_pin(changes: dict[str, Any]) -> None:
    assert moved(rollout(cause="Operator"), facts(**changes)).state == "Published"
    assert moved(rollout(cause="Operator"), facts(**changes, pinned="by INC-1")).gate == "Pinned"


def test_a_job_may_take_as_long_as_listening_lasts_to_acknowledge_what_was_published() -> None:
    for ago_us, gate in ((1, None), (LISTENING_MS * 1_000, None), (LISTENING_MS * 1_000 + 1, "NotListening")):
        assert moved(rollout(), facts(unanswered_us=NOW_US - ago_us)).gate == gate


def test_the_evidence_gate_says_what_is_there_what_is_needed_and_when_it_is_reached() -> None:
    known = facts(
        evidence=EvidenceSpan(
            covered_us=300_000_000, needed_us=HOUR_US, reached_us=NOW_US + 3_300_000_000, why=" (360 windows)"
        )
    )
    assert moved(rollout(), known).reason == (
        "held: narrowing by itself needs 1 h of evidence (360 windows), and what comes seldomer than every 32.77 s is "
        "not covered by 5 min of evidence; enough at the earliest 2026-01-01 00:55:00 UTC, unless a person approves it"
    )
    enough = facts(evidence=EvidenceSpan(covered_us=HOUR_US, needed_us=HOUR_US, reached_us=NOW_US))
    assert moved(rollout(), enough).state == "Published"


def test_a_person_may_narrow_on_evidence_that_does_not_cover_enough_and_nobody_else() -> None:
    short = facts(evidence=EvidenceSpan(covered_us=300_000_000, needed_us=HOUR_US, reached_us=None))
    held = moved(rollout(), short)
    assert (held.state, held.gate) == ("Recommended", "Evidence")
    assert held.reason.endswith("; the horizon is shorter, so that a person has to approve it")
    assert moved(rollout(approved=APPROVED), short).state == "Published"


@pytest.mark.parametrize(
    ("direction", "to_ms", "failed_ms", "held"),
    [
        ("Narrow", 20_000, 20_000, True),
        ("Narrow", 19_999, 20_000, True),
        ("Narrow", 20_001, 20_000, False),
        ("Widen", 20_000, 20_000, True),
        ("Widen", 20_001, 20_000, True),
        ("Widen", 19_999, 20_000, False),
    ],
)
def test_a_bound_that_failed_and_bounds_beyond_it_are_held_for_a_while(
    direction: Direction, to_ms: int, failed_ms: int, held: bool
) -> None:
    failure = Failure(direction, failed_ms, NOW_US + 5, "it failed", 7)
    one, known = rollout(direction=direction, to_bound_ms=to_ms), facts(failures=(failure,))
    assert (moved(one, known, NOW_US + 4).gate == "FailedBefore") == held
    assert moved(one, known, NOW_US + 5).state == "Published"


def test_a_veto_of_what_is_published_without_data_holds_that_too() -> None:
    """Else what a person took back would be published again at the next tick."""
    own = Failure("Widen", None, None, "rollout 7 was rolled back: INC-7", 7)
    one = rollout(cause="NoData", direction="Widen", to_bound_ms=None)
    assert moved(one, facts(failures=(own,))).gate == "Vetoed"
    assert (
        moved(rollout(cause="NoData", direction="Widen", to_bound_ms=9), facts(failures=(own,))).gate is None
    )


def test_after_a_veto_a_person_approves_the_next_best_bound_in_its_direction() -> None:
    """The bound recommended next is rarely the same to the millisecond."""
    known = facts(failures=(Failure("Narrow", 20_000, None, "rollout 7 was rolled back: INC-7", 7),))
    move = moved(rollout(to_bound_ms=20_001), known)
    assert (move.state, move.gate) == ("AwaitingApproval", "Approval")
    assert move.reason == "a person has to approve it: rollout 7 was rolled back: INC-7"
    assert moved(rollout(to_bound_ms=20_001, approved=APPROVED), known).state == "Published"
    assert moved(rollout(to_bound_ms=20_001, direction="Widen"), known).state == "Published"


def test_the_cooldown_and_the_rate_limit_end_at_the_stated_time() -> None:
    known = facts(narrowed_us=(NOW_US,))
    assert moved(rollout(), known, NOW_US + HOUR_US - 1).reason == (
        "held: narrowed 2026-01-01 00:00:00 UTC; the cooldown of 1 h ends 2026-01-01 01:00:00 UTC"
    )
    assert moved(rollout(), known, NOW_US + HOUR_US).state == "Published"
    known = facts(
        policy=policy(cooldown_ms=0, max_narrowings_a_day=1),
        narrowed_us=(NOW_US,),
        last_contact_us=NOW_US + DAY_US,
    )
    assert moved(rollout(), known, NOW_US + DAY_US - 1).gate == "RateLimit"
    assert moved(rollout(), known, NOW_US + DAY_US).state == "Published"


def test_the_rate_limit_ends_when_so_few_narrowings_are_left_that_one_more_is_allowed() -> None:
    """After more narrowings than are allowed now, the oldest of them is not the one to wait for."""
    narrowed_us = (NOW_US - 20 * HOUR_US, NOW_US - 10 * HOUR_US, NOW_US - 5 * HOUR_US)
    known = facts(
        policy=policy(cooldown_ms=0, max_narrowings_a_day=2),
        narrowed_us=narrowed_us,
        last_contact_us=NOW_US + DAY_US,
    )
    held, end_us = moved(rollout(), known), NOW_US - 10 * HOUR_US + DAY_US
    assert held.reason == ("held: narrowed 3 times in 24 hours, 2 are allowed; until 2026-01-01 14:00:00 UTC")
    assert moved(rollout(), known, end_us - 1).gate == "RateLimit"
    assert moved(rollout(), known, end_us).state == "Published"


def test_approval_comes_last_and_an_approved_rollout_still_passes_every_gate() -> None:
    asks = policy(approval="all")
    waiting = moved(rollout(), facts(policy=asks))
    assert (waiting.state, waiting.gate) == ("AwaitingApproval", "Approval")
    paused = facts(policy=replace(asks, paused=True))
    assert moved(rollout(), paused).state == "Recommended"
    assert moved(rollout("AwaitingApproval"), paused).state == "AwaitingApproval"
    assert moved(rollout("AwaitingApproval", approved=APPROVED), paused).gate == "Paused"
    assert moved(rollout("AwaitingApproval", approved=APPROVED), facts(policy=asks)).state == "Published"
    assert moved(rollout("AwaitingApproval"), facts()).state == "Published"


def test_the_first_rollout_of_a_stream_waits_for_a_person_and_later_ones_do_not() -> None:
    first = Policy(mode="OnRestart")
    assert first.approval == "first"
    for direction in get_args(Direction):
        one = rollout(direction=direction)
        assert moved(one, facts(policy=first)).state == "AwaitingApproval"
        assert moved(one, facts(policy=first, published_before=True)).state == "Published"


def test_a_rollout_that_nobody_approves_expires_and_publishes_nothing() -> None:
    one, known = rollout("AwaitingApproval"), facts(policy=policy(approval="all"))
    late_us = NOW_US + APPROVE_MS * 1_000
    assert moved(one, known, late_us).state == "AwaitingApproval"
    move = moved(one, known, late_us + 1)
    assert move.state == "Expired"
    assert not restores_previous("AwaitingApproval", move, one)


def test_a_rollout_that_a_person_approved_does_not_expire_while_a_gate_holds_it() -> None:
    one, late_us = rollout("AwaitingApproval", approved=APPROVED), NOW_US + APPROVE_MS * 1_000 + 1
    held = facts(policy=policy(approval="all", paused=True), last_contact_us=late_us)
    assert moved(one, held, late_us).gate == "Paused"
    assert moved(one, replace(held, policy=policy(approval="all")), late_us).state == "Published"


def test_a_proposal_that_waits_for_approval_stays_while_it_is_wide_enough() -> None:
    asked = rollout("AwaitingApproval", to_bound_ms=20_000)
    assert revise(asked, 15_000, "Narrow") == "keep"
    assert revise(asked, 20_000, "Narrow") == "keep"
    assert revise(asked, 20_001, "Narrow") == "replace"
    assert revise(asked, 90_000, "Widen") == "replace"
    assert revise(asked, 15_000, "Widen") == "replace"
    assert revise(rollout("Recommended"), 15_000, "Narrow") == "update"
    assert revise(rollout("Recommended", approved=APPROVED), 15_000, "Narrow") == "keep"
