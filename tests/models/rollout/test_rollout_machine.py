"""The pure state machine of rollouts: its table, its gate, and what becomes of a bound that is in effect."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidemark.models.defaults import (
    ACKNOWLEDGE_MS,
    ACKNOWLEDGE_ON_RESTART_MS,
    APPROVE_MS,
    LISTENING_MS,
    VERIFY_MS,
)
from tidemark.models.prediction import Judged
from tidemark.models.rollout.evidence import EvidenceSpan, covered_us, evidence_span
from tidemark.models.rollout.facts import NOTHING_JUDGED, Cause, Failure, Move, Rollout, RolloutFacts
from tidemark.models.rollout.freeze import frozen_until_us
from tidemark.models.rollout.gate import DAY_US, at_gate
from tidemark.models.rollout.machine import advance, allowed, restores_previous
from tidemark.models.rollout.proposal import direction_of, envelope_direction, revise
from tidemark.models.rollout.states import CANDIDATE, ENDED, OPEN, TRANSITIONS, UNDER_WAY, State
from tidemark.models.rollout.verification import needed_event_us, needed_rows
from tidemark.models.slo import Approval, Day, Direction, FreezeWindow, Policy, Slo
from tidemark.models.wire import Envelope

HOUR_US = 3_600_000_000
NOW_US = 1_767_225_600_000_000
"""Thursday 2026-01-01, 00:00 UTC."""
SLO = Slo(target_ppm=990_000)
STATES: tuple[State, ...] = get_args(State)


def rollout(state: State = "Recommended", **changes: Any) -> Rollout:
    fields: dict[str, Any] = {
        "state": state,
        "cause": "Decision",
        "direction": "Narrow",
        "first": False,
        "mode": "OnRestart",
        "to_bound_ms": 20_000,
        "changed_us": NOW_US,
        "needed_rows": 1_000,
        "min_ppm": 991_000,
    }
    if state not in CANDIDATE:
        fields["published_us"] = NOW_US
    return Rollout(**{**fields, **changes})


def facts(**changes: Any) -> RolloutFacts:
    known: dict[str, Any] = {"policy": policy(), "slo": SLO, "last_contact_us": NOW_US, **changes}
    # Unless told apart, all that was judged was at risk.
    return RolloutFacts(**{"at_risk": known.get("judged", NOTHING_JUDGED), **known})


def policy(**changes: Any) -> Policy:
    return Policy(**{"mode": "OnRestart", "approval": "none", **changes})


def moved(one: Rollout, known: RolloutFacts, now_us: int = NOW_US) -> Move:
    move = advance(one, known, now_us)
    assert move is not None
    return move


# -- the table -----------------------------------------------------------------------------------------------------


def test_every_state_is_in_the_table_and_can_be_reached() -> None:
    assert set(TRANSITIONS) == set(STATES)
    reached: set[State] = {
        "Recommended",
        "Published",
    }  # a write in Live begins with what is published already
    for _ in STATES:
        reached |= {after for before in reached for after in TRANSITIONS[before]}
    assert reached == set(STATES)


def test_what_has_ended_stays_and_what_is_verified_can_only_go_back() -> None:
    assert {"RolledBack", "Superseded", "Expired", "Discarded"} == ENDED
    assert TRANSITIONS["Verified"] == {"RolledBack"}
    for state in (*ENDED, "Verified"):
        known = facts(pinned="by INC-1", judged=Judged(9_999, 9_999, 9_999))
        assert advance(rollout(state), known, NOW_US + VERIFY_MS * 10_000) is None
    assert {state: allowed(state) for state in STATES if allowed(state)} == {
        "Recommended": ("approve", "discard"),
        "AwaitingApproval": ("approve", "discard"),
        "Published": ("rollback",),
        "Acknowledged": ("rollback",),
        "Effective": ("rollback",),
        "Verified": ("rollback",),
    }


# -- the gate ------------------------------------------------------------------------------------------------------


def test_a_rollout_that_nothing_holds_is_published() -> None:
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
            {
                "failures": (
                    Failure(direction="Narrow", bound_ms=20_000, until_us=NOW_US + 1, why="it lost rows"),
                )
            },
        ),
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
        {
            "failures": (
                Failure(direction="Narrow", bound_ms=90_000, until_us=NOW_US + 1, why="it lost rows"),
            )
        },
    ],
)
def test_what_is_there_to_slow_narrowing_never_holds_a_widening(changes: dict[str, Any]) -> None:
    assert moved(rollout(direction="Widen"), facts(**changes)).state == "Published"


def test_a_bound_that_is_told_for_the_first_time_again_waits_like_any_other_narrowing() -> None:
    """Where the one before was never taken up or went back, the job is told none, and it was narrowed all the same."""
    first = rollout(first=True)
    assert moved(first, facts(narrowed_us=(NOW_US,))).gate == "Cooldown"
    rated = policy(cooldown_ms=0, max_narrowings_a_day=1)
    assert moved(first, facts(policy=rated, narrowed_us=(NOW_US,))).gate == "RateLimit"


def test_the_evidence_gate_says_what_is_there_what_is_needed_and_when_it_is_reached() -> None:
    known = facts(
        evidence=EvidenceSpan(
            covered_us=300_000_000, needed_us=HOUR_US, reached_us=NOW_US + 3_300_000_000, why=" (360 windows)"
        )
    )
    assert moved(rollout(), known).reason == (
        "held: a first narrowing needs 1 h of evidence (360 windows), and reports cover 5 min; "
        "enough at the earliest 2026-01-01 00:55:00 UTC"
    )
    enough = facts(evidence=EvidenceSpan(covered_us=HOUR_US, needed_us=HOUR_US, reached_us=NOW_US))
    assert moved(rollout(), enough).state == "Published"


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
def test_what_failed_and_what_goes_further_is_held_until_its_time_is_over(
    direction: Direction, to_ms: int, failed_ms: int, held: bool
) -> None:
    failure = Failure(direction=direction, bound_ms=failed_ms, until_us=NOW_US + 5, why="it failed")
    one, known = rollout(direction=direction, to_bound_ms=to_ms), facts(failures=(failure,))
    assert (moved(one, known, NOW_US + 4).gate == "FailedBefore") == held
    assert moved(one, known, NOW_US + 5).state == "Published"


def test_the_dwell_and_the_rate_limit_end_when_they_say() -> None:
    known = facts(narrowed_us=(NOW_US,))
    assert "ends 2026-01-01 01:00:00 UTC" in moved(rollout(), known, NOW_US + HOUR_US - 1).reason
    assert moved(rollout(), known, NOW_US + HOUR_US).state == "Published"
    known = facts(
        policy=policy(cooldown_ms=0, max_narrowings_a_day=1),
        narrowed_us=(NOW_US,),
        last_contact_us=NOW_US + DAY_US,
    )
    assert moved(rollout(), known, NOW_US + DAY_US - 1).gate == "RateLimit"
    assert moved(rollout(), known, NOW_US + DAY_US).state == "Published"


# -- evidence ------------------------------------------------------------------------------------------------------

SECOND_US = 1_000_000


def watched(*parts: tuple[int, float], every_s: int = 1) -> tuple[Any, Any]:
    """Return when batches ran and their bases: for each part how many seconds it took and how fast event time went."""
    seen_us, base_us = [NOW_US], [NOW_US - HOUR_US]
    for seconds, pace in parts:
        for _ in range(seconds // every_s):
            seen_us.append(seen_us[-1] + every_s * SECOND_US)
            base_us.append(base_us[-1] + round(every_s * pace * SECOND_US))
    return np.array(seen_us, np.int64), np.array(base_us, np.int64)


def test_a_stream_that_keeps_up_covers_as_much_event_time_as_it_was_watched() -> None:
    assert covered_us(*watched((3_600, 1.0))) == HOUR_US
    assert covered_us(*watched((7_200, 1.0), every_s=300)) == 2 * HOUR_US


@pytest.mark.parametrize(
    ("parts", "max_s"),
    [
        (((120, 300.0),), 120),
        (((3_600, 0.1),), 360),
        # Ten hours replayed in two minutes, and then nothing for an hour.
        (((120, 300.0), (3_600, 0.0)), 180),
    ],
)
def test_a_replay_and_a_stall_cover_no_more_than_the_lesser_of_the_two_clocks(
    parts: tuple[tuple[int, float], ...], max_s: int
) -> None:
    assert covered_us(*watched(*parts)) <= max_s * SECOND_US


def test_a_pause_covers_nothing_and_neither_does_what_is_caught_up_after_it() -> None:
    seen_us, base_us = watched((600, 1.0), (600, 1.0))
    seen_us[601:] += HOUR_US
    base_us[601:] += HOUR_US
    assert 1_000 * SECOND_US < covered_us(seen_us, base_us) <= 1_200 * SECOND_US


def test_no_batch_and_one_batch_cover_nothing() -> None:
    seen_us, base_us = watched((0, 1.0))
    assert covered_us(seen_us[:0], base_us[:0]) == covered_us(seen_us, base_us) == 0


@pytest.mark.parametrize(
    ("changes", "span_s", "horizon_h", "needed_s", "why"),
    [
        ({}, 10, 24, 3_600, ""),
        ({}, 60, 24, 6_000, " (100 windows)"),
        ({}, 0, 24, 3_600, ""),
        ({"evidence_ms": 0}, 10, 24, 1_000, " (100 windows)"),
        ({}, 3_600, 24, 69_120, " (most of the horizon of 1 d)"),
    ],
)
def test_the_evidence_asked_for_is_the_greater_of_time_and_windows_within_the_horizon(
    changes: dict[str, int], span_s: int, horizon_h: int, needed_s: int, why: str
) -> None:
    seen_us, base_us = watched((300, 1.0))
    found = evidence_span(policy(**changes), span_s * SECOND_US, horizon_h * 3_600_000, seen_us, base_us)
    assert found == EvidenceSpan(
        covered_us=300 * SECOND_US,
        needed_us=needed_s * SECOND_US,
        reached_us=NOW_US + needed_s * SECOND_US,
        why=why,
    )


def test_evidence_can_be_switched_off() -> None:
    off = policy(evidence_ms=0, evidence_windows=0)
    assert evidence_span(off, SECOND_US, 1, *watched((1, 1.0))) is None


# -- approval ------------------------------------------------------------------------------------------------------


def test_approval_is_asked_for_last_and_what_is_approved_still_passes_every_gate() -> None:
    asks = policy(approval="all")
    waiting = moved(rollout(), facts(policy=asks))
    assert (waiting.state, waiting.gate) == ("AwaitingApproval", "Approval")
    paused = facts(policy=replace(asks, paused=True))
    assert moved(rollout(), paused).state == "Recommended"
    assert moved(rollout("AwaitingApproval"), paused).state == "AwaitingApproval"
    assert moved(rollout("AwaitingApproval", approved=True), paused).gate == "Paused"
    assert moved(rollout("AwaitingApproval", approved=True), facts(policy=asks)).state == "Published"
    assert moved(rollout("AwaitingApproval"), facts()).state == "Published"


def test_the_first_rollout_of_a_stream_waits_for_a_person_and_later_ones_do_not() -> None:
    first = Policy(mode="OnRestart")
    assert first.approval == "first"
    for direction in get_args(Direction):
        one = rollout(direction=direction)
        assert moved(one, facts(policy=first)).state == "AwaitingApproval"
        assert moved(one, facts(policy=first, published_before=True)).state == "Published"


def test_what_nobody_approves_expires_and_tells_nobody_anything() -> None:
    one, known = rollout("AwaitingApproval"), facts(policy=policy(approval="all"))
    late_us = NOW_US + APPROVE_MS * 1_000
    assert moved(one, known, late_us).state == "AwaitingApproval"
    move = moved(one, known, late_us + 1)
    assert move.state == "Expired"
    assert not restores_previous("AwaitingApproval", move, one)


def test_what_a_person_was_asked_about_is_kept_while_it_admits_all_that_is_asked_for() -> None:
    asked = rollout("AwaitingApproval", to_bound_ms=20_000)
    assert revise(asked, 15_000, "Narrow") == "keep"
    assert revise(asked, 20_000, "Narrow") == "keep"
    assert revise(asked, 20_001, "Narrow") == "replace"
    assert revise(asked, 90_000, "Widen") == "replace"
    assert revise(rollout("Recommended"), 15_000, "Narrow") == "update"
    assert revise(rollout("Recommended", approved=True), 15_000, "Narrow") == "keep"


# -- under way -----------------------------------------------------------------------------------------------------


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
def test_what_nobody_acknowledges_expires_and_restores_previous(
    mode: Any, limit_ms: int, direction: Any
) -> None:
    one = rollout("Published", mode=mode, direction=direction)
    assert moved(one, facts(), NOW_US + limit_ms * 1_000).state == "Published"
    move = moved(one, facts(), NOW_US + limit_ms * 1_000 + 1)
    assert move.state == "Expired"
    assert restores_previous("Published", move, one)
    assert not restores_previous("Published", move, replace(one, cause="Operator"))


def test_what_is_told_in_the_time_without_data_waits_for_the_job() -> None:
    one = rollout("Published", cause="NoData", direction="Widen")
    assert moved(one, facts(), NOW_US + 100 * DAY_US).state == "Published"
    candidate = rollout(cause="NoData", direction="Widen")
    assert moved(candidate, facts(last_contact_us=None)).state == "Published"
    assert moved(candidate, facts(last_contact_us=None, policy=policy(paused=True))).gate == "Paused"


def test_a_narrowing_that_cannot_be_verified_restores_previous_and_a_widening_stays() -> None:
    late_us = NOW_US + VERIFY_MS * 1_000 + 1
    for state in ("Acknowledged", "Effective"):
        for direction, back in (("Narrow", True), ("Widen", False)):
            one = rollout(state, direction=direction, acknowledged_us=NOW_US)
            move = moved(one, facts(), late_us)
            assert move.state == "Expired"
            assert restores_previous(state, move, one) is back


@pytest.mark.parametrize("state", ["Published", "Acknowledged", "Effective"])
def test_a_pin_holds_what_is_under_way_where_it_is(state: Any) -> None:
    known = facts(
        pinned="by the pin: INC-1",
        acknowledged_us=NOW_US,
        effective_us=NOW_US,
        judged=Judged(9_999, 9_999, 9_999),
    )
    move = moved(rollout(state), known, NOW_US + 100 * DAY_US)
    assert (move.state, move.gate) == (state, "Pinned")


# -- verification --------------------------------------------------------------------------------------------------


def test_the_event_time_needed_holds_ten_windows_and_the_wider_bound() -> None:
    assert needed_event_us(10_000_000, 60_000, 5_000) == 160_000_000
    assert needed_event_us(10_000_000, 5_000, 60_000) == 160_000_000
    assert needed_event_us(0, None, 7) == 7_000


def test_the_rows_needed_hold_ten_late_rows_of_the_budget_and_ten_batches() -> None:
    assert [needed_rows(ppm, 0) for ppm in (900_000, 990_000, 999_999)] == [100, 1_000, 10_000_000]
    assert [needed_rows(990_000, rows) for rows in (100, 101)] == [1_000, 1_010]


def test_a_bound_is_verified_once_enough_rows_were_at_risk_and_says_how_many_before() -> None:
    move = moved(rollout("Effective"), facts(judged=Judged(9_999, 5, 5), at_risk=Judged(999, 5, 5)))
    assert (move.state, move.reason) == ("Effective", "in effect; rows at risk: 999, needed 1,000")
    assert moved(rollout("Effective"), facts(at_risk=Judged(1_000, 5, 5))).state == "Verified"


def test_a_bound_is_verified_once_enough_event_time_has_passed_and_says_how_much_before() -> None:
    one = rollout("Effective", needed_event_us=160_000_000)
    early = facts(judged=Judged(1_452, 0, 0), event_us=40_000_000)
    move = moved(one, early)
    assert (move.state, move.reason) == (
        "Effective",
        "in effect; rows at risk: 1,452, needed 1,000, which is enough; event time: 40 s, needed 2 min 40 s",
    )
    assert moved(one, replace(early, event_us=160_000_000)).state == "Verified"


def test_where_nothing_was_predicted_the_verdict_says_so_and_not_that_it_is_as_predicted() -> None:
    known = facts(judged=Judged(1_000, 5, 5))
    assert moved(rollout("Effective"), known).reason.endswith(" were admitted, as predicted")
    unpredicted = moved(rollout("Effective", min_ppm=None), known)
    assert unpredicted.reason.endswith(" were admitted; nothing could be predicted")


def test_what_takes_longer_than_a_week_of_event_time_is_given_that_time() -> None:
    one = rollout("Effective", acknowledged_us=NOW_US, needed_event_us=10 * DAY_US)
    late_us = NOW_US + VERIFY_MS * 1_000 + 10 * DAY_US
    assert moved(one, facts(), late_us).state == "Effective"
    assert moved(one, facts(), late_us + 1).state == "Expired"


def test_a_narrowing_that_loses_more_than_predicted_and_than_the_budget_is_rolled_back() -> None:
    move = moved(rollout("Effective"), facts(judged=Judged(1_000, 30, 30)))
    assert (move.state, move.failure) == ("RolledBack", "Completeness")
    assert move.reason == (
        "97.00 % of 1,000 rows were admitted: fewer than predicted (at least 99.10 %) and than the target, 0.99"
    )


def test_a_narrowing_within_the_target_is_verified_though_worse_than_predicted() -> None:
    one = rollout("Effective", min_ppm=999_000)
    move = moved(one, facts(judged=Judged(1_000, 9, 9)))
    assert move.state == "Verified"
    assert "fewer than predicted (at least 99.90 %), but not below the target" in move.reason


def test_rows_that_may_have_been_admitted_condemn_nothing() -> None:
    assert moved(rollout("Effective"), facts(judged=Judged(1_000, 5, 400))).state == "Verified"


@given(judged=st.integers(1, 999), late=st.integers(0, 999), rest=st.integers(0, 999))
def test_a_verdict_before_the_rows_are_all_there_is_the_one_that_they_would_have_given(
    judged: int, late: int, rest: int
) -> None:
    late, rest = min(late, judged), min(rest, 1_000 - judged)
    early = moved(rollout("Effective"), facts(judged=Judged(judged, late, late)))
    if early.state == "RolledBack":
        whole = Judged(1_000, late + rest, late + rest)
        assert moved(rollout("Effective"), facts(judged=whole)).state == "RolledBack"
    else:
        assert early.state == "Effective"


def test_a_widening_is_never_taken_back_for_rows_it_loses() -> None:
    one = rollout("Effective", direction="Widen")
    move = moved(one, facts(judged=Judged(1_000, 500, 500)))
    assert move.state == "Verified"
    assert "a rollback to a narrower bound would admit even fewer" in move.reason


def test_a_narrowing_that_misses_its_target_after_it_was_verified_restores_previous() -> None:
    verified = rollout("Verified")
    assert advance(verified, facts(judged=Judged(100_000, 900, 900)), NOW_US) is None
    move = moved(verified, facts(judged=Judged(100_000, 3_000, 3_000)))
    assert (move.state, move.failure) == ("RolledBack", "Completeness")
    assert move.reason == (
        "after it was verified, 97.00 % of 100,000 rows were admitted: fewer than predicted (at least 99.10 %) "
        "and than the target, 0.99; the previous bound is published again"
    )
    assert restores_previous("Verified", move, verified)


def test_a_widening_that_misses_its_target_after_it_was_verified_stays_and_says_so_once() -> None:
    verified, missing = rollout("Verified", direction="Widen"), facts(judged=Judged(100_000, 3_000, 3_000))
    move = moved(verified, missing)
    assert (move.state, move.failure) == ("Verified", "Completeness")
    assert move.reason.endswith("it stays: a narrower bound would lose more")
    assert not restores_previous("Verified", move, verified)
    missed = replace(verified, missed=True)
    assert advance(missed, missing, NOW_US) is None
    # No longer certain is not enough: the share itself is back.
    assert advance(missed, facts(judged=Judged(100_000, 1_001, 1_001)), NOW_US) is None
    recovered = moved(missed, facts(judged=Judged(100_000, 1_000, 1_000)))
    assert (recovered.state, recovered.failure) == ("Verified", None)


def test_what_is_verified_is_judged_for_the_slos_window_and_not_under_a_pin() -> None:
    missing = facts(judged=Judged(100_000, 3_000, 3_000))
    end_us = NOW_US + SLO.window_ms * 1_000
    assert moved(rollout("Verified"), missing, end_us).state == "RolledBack"
    assert advance(rollout("Verified"), missing, end_us + 1) is None
    assert advance(rollout("Verified"), replace(missing, pinned="by INC-1"), NOW_US) is None


@pytest.mark.parametrize(
    ("slo", "changes", "failure"),
    [
        (Slo(target_ppm=990_000, latency_cap_ms=9), {"latency_us": 9_001.0}, "Latency"),
        (Slo(target_ppm=990_000, state_cap_rows=9), {"state_rows": 10}, "State"),
        (
            Slo(target_ppm=990_000, latency_cap_ms=9, on_conflict="exceed_latency_cap"),
            {"latency_us": 9_001.0},
            None,
        ),
        (Slo(target_ppm=990_000, state_cap_rows=9, on_conflict="exceed_state_cap"), {"state_rows": 10}, None),
        (Slo(target_ppm=990_000, latency_cap_ms=9), {"latency_us": 9_000.0}, None),
        (Slo(target_ppm=990_000, latency_cap_ms=9, state_cap_rows=9), {}, None),
    ],
)
def test_a_widening_beyond_a_cap_is_taken_back_unless_the_cap_yields(
    slo: Slo, changes: dict[str, Any], failure: str | None
) -> None:
    one = rollout("Effective", direction="Widen")
    move = moved(one, facts(slo=slo, judged=Judged(1_000, 5, 5), **changes))
    assert (move.state, move.failure) == ("RolledBack" if failure else "Verified", failure)
    narrowing = moved(rollout("Effective"), facts(slo=slo, judged=Judged(1_000, 5, 5), **changes))
    assert narrowing.state == "Verified"


# -- freezes and directions ----------------------------------------------------------------------------------------


def test_a_freeze_is_in_utc_and_ends_with_the_last_of_the_windows_that_follow_on_each_other() -> None:
    """2026-01-01 is a Thursday."""
    night = (
        FreezeWindow(days=("Thu",), from_minute=22 * 60),
        FreezeWindow(days=("Fri",), to_minute=6 * 60),
    )
    assert frozen_until_us(night, NOW_US) is None
    assert frozen_until_us(night, NOW_US + 22 * HOUR_US - 1) is None
    assert frozen_until_us(night, NOW_US + 22 * HOUR_US) == NOW_US + 30 * HOUR_US
    assert frozen_until_us(night, NOW_US + 30 * HOUR_US) is None
    every: tuple[Day, ...] = get_args(Day)
    for_ever = frozen_until_us((FreezeWindow(days=every),), NOW_US)
    assert for_ever is not None
    assert for_ever >= NOW_US + 7 * DAY_US


@pytest.mark.parametrize(
    ("fields", "body"),
    [
        (
            {"days": ("Mon",), "from_minute": 600, "to_minute": 600},
            "to_minute 600 is not after from_minute 600",
        ),
        ({"days": ("Mon", "Mon")}, "each day is named once"),
    ],
)
def test_a_freeze_that_is_empty_or_said_twice_is_refused(fields: dict[str, Any], body: str) -> None:
    with pytest.raises(ValueError, match=body):
        FreezeWindow(**fields)


def test_a_policy_that_contradicts_itself_is_refused() -> None:
    with pytest.raises(ValueError, match="each is named once"):
        Policy(directions=("Widen", "Widen"))
    with pytest.raises(ValueError, match="there is no max_bound_ms"):
        Policy(on_no_data="max")


def test_what_is_not_known_to_narrow_widens() -> None:
    assert direction_of(10, 9) == "Narrow"
    assert [direction_of(*ends) for ends in ((9, 9), (9, 10), (None, 9), (9, None), (None, None))] == [
        "Widen"
    ] * 5


@pytest.mark.parametrize(
    ("before", "after", "direction"),
    [
        (Envelope(target_ppm=990_000), Envelope(target_ppm=989_999), "Narrow"),
        (Envelope(target_ppm=990_000), Envelope(target_ppm=999_000), "Widen"),
        (Envelope(), Envelope(target_ppm=999_999), "Narrow"),
        (Envelope(latency_cap_ms=9), Envelope(latency_cap_ms=8), "Narrow"),
        (Envelope(), Envelope(latency_cap_ms=0), "Narrow"),
        (Envelope(max_bound_ms=9), Envelope(), "Widen"),
        (Envelope(min_bound_ms=9), Envelope(), "Narrow"),
        (
            Envelope(target_ppm=990_000, latency_cap_ms=9),
            Envelope(target_ppm=999_000, latency_cap_ms=8),
            "Narrow",
        ),
    ],
)
def test_an_envelope_narrows_when_any_part_of_it_does(
    before: Envelope, after: Envelope, direction: Direction
) -> None:
    assert envelope_direction(before, after) == direction


# -- whatever happens ----------------------------------------------------------------------------------------------

times = st.integers(NOW_US - 40 * DAY_US, NOW_US + 40 * DAY_US)
maybe_time = st.none() | times
freezes = st.lists(
    st.builds(
        FreezeWindow,
        days=st.lists(st.sampled_from(get_args(Day)), min_size=1, max_size=7, unique=True).map(tuple),
        from_minute=st.integers(0, 700),
        to_minute=st.integers(701, 1_440),
    ),
    max_size=3,
).map(tuple)
policies = st.builds(
    Policy,
    mode=st.sampled_from(["OnRestart", "Restart", "Live"]),
    cooldown_ms=st.integers(0, 2 * 86_400_000),
    max_narrowings_a_day=st.none() | st.integers(1, 3),
    freeze_windows=freezes,
    paused=st.booleans(),
    approval=st.sampled_from(get_args(Approval)),
)
failures = st.lists(
    st.builds(
        Failure,
        direction=st.sampled_from(get_args(Direction)),
        bound_ms=st.integers(0, 50_000),
        until_us=times,
        why=st.just("it failed"),
    ),
    max_size=3,
).map(tuple)
judgements = st.tuples(st.integers(0, 3_000), st.integers(0, 3_000), st.integers(0, 3_000)).map(
    lambda drawn: Judged(drawn[0], min(drawn[:2]), max(min(drawn[:2]), min(drawn[0], drawn[2])))
)
all_facts = st.builds(
    RolloutFacts,
    policy=policies,
    slo=st.builds(
        Slo,
        target_ppm=st.integers(900_000, 999_000),
        latency_cap_ms=st.none() | st.integers(0, 9),
        state_cap_rows=st.none() | st.integers(0, 9),
        on_conflict=st.sampled_from([None, "miss_target", "exceed_latency_cap", "exceed_state_cap"]),
    ),
    pinned=st.none() | st.just("by the pin: INC-1"),
    last_contact_us=maybe_time,
    unanswered_us=maybe_time,
    failures=failures,
    narrowed_us=st.lists(times, max_size=4).map(lambda found: tuple(sorted(found))),
    evidence=st.none()
    | st.builds(
        EvidenceSpan,
        covered_us=st.integers(0, 9),
        needed_us=st.integers(1, 9),
        reached_us=times,
        why=st.just(""),
    ),
    published_before=st.booleans(),
    at_risk=judgements,
    event_us=st.integers(0, 20_000),
    fleet_narrowing=st.integers(0, 3),
    fleet_max=st.integers(1, 3),
    acknowledged_us=maybe_time,
    effective_us=maybe_time,
    judged=judgements,
    latency_us=st.none() | st.floats(0, 20_000),
    state_rows=st.none() | st.integers(0, 20),
)
all_rollouts = st.builds(
    Rollout,
    state=st.sampled_from(STATES),
    cause=st.sampled_from(get_args(Cause)),
    direction=st.sampled_from(get_args(Direction)),
    first=st.booleans(),
    mode=st.sampled_from(["OnRestart", "Restart", "Live"]),
    to_bound_ms=st.none() | st.integers(0, 50_000),
    changed_us=times,
    approved=st.booleans(),
    published_us=maybe_time,
    acknowledged_us=maybe_time,
    needed_rows=st.integers(0, 2_000),
    needed_event_us=st.integers(0, 10_000),
    missed=st.booleans(),
    min_ppm=st.none() | st.integers(900_000, 1_000_000),
)


@pytest.mark.slow
@settings(max_examples=300)
@given(one=all_rollouts, known=all_facts, now_us=times)
def test_only_legal_moves_are_made_and_each_has_a_reason(
    one: Rollout, known: RolloutFacts, now_us: int
) -> None:
    move = advance(one, known, now_us)
    if move is None:
        assert one.state not in OPEN
        return
    assert one.state in OPEN | {"Verified"}
    assert move.reason
    assert move.state == one.state or move.state in TRANSITIONS[one.state]
    assert (move.failure is not None) == (move.state == "RolledBack") or one.state == "Verified"
    # Jobs are told something only when it is published or undone.
    if restores_previous(one.state, move, one):
        assert one.state in UNDER_WAY | {"Verified"}
    if move.state == "Verified" and one.state == "Effective":
        assert known.at_risk.rows >= one.needed_rows
        assert known.event_us >= one.needed_event_us
    if one.state == "Verified" and move.state == "RolledBack":
        assert one.direction == "Narrow"


@pytest.mark.slow
@settings(max_examples=300)
@given(one=all_rollouts.filter(lambda one: one.state in CANDIDATE), known=all_facts, now_us=times)
def test_nothing_is_published_while_a_gate_holds(one: Rollout, known: RolloutFacts, now_us: int) -> None:
    move = moved(one, known, now_us)
    if move.state == "Published":
        assert at_gate(one, known, now_us) is None
        assert known.pinned is None
        assert one.cause == "Operator" or not known.policy.paused
        if one.cause == "Decision":
            assert (
                one.approved
                or known.policy.approval == "none"
                or (known.policy.approval == "first" and known.published_before)
                or (known.policy.approval == "narrow" and one.direction == "Widen")
            )
            assert known.last_contact_us is not None
            assert now_us - known.last_contact_us <= LISTENING_MS * 1_000
            if one.direction == "Narrow":
                assert known.evidence is None or known.evidence.covered_us >= known.evidence.needed_us
                assert frozen_until_us(known.policy.freeze_windows, now_us) is None
    else:
        assert move.gate is not None or move.state == "Expired"


@pytest.mark.slow
@settings(max_examples=200)
@given(one=all_rollouts.filter(lambda one: one.state in CANDIDATE), known=all_facts, now_us=times)
def test_a_widening_never_waits_for_what_slows_narrowing(
    one: Rollout, known: RolloutFacts, now_us: int
) -> None:
    widening = replace(one, direction="Widen")
    free = replace(
        known,
        evidence=None,
        narrowed_us=(),
        fleet_narrowing=0,
        policy=replace(known.policy, cooldown_ms=0, max_narrowings_a_day=None, freeze_windows=()),
    )
    assert advance(widening, known, now_us) == advance(widening, free, now_us)
