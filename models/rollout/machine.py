"""The state machine: what becomes of a rollout by itself, and what a person may do with it."""

from __future__ import annotations

from tidemark.models.defaults import (
    ACKNOWLEDGE_MS,
    ACKNOWLEDGE_ON_RESTART_MS,
    APPROVE_MS,
    VERIFY_MS,
)
from tidemark.models.duration import format_duration
from tidemark.models.rollout.facts import Facts, Move, Rollout
from tidemark.models.rollout.gate import asks_approval, at_gate, when
from tidemark.models.rollout.states import CANDIDATE, TRANSITIONS, UNDER_WAY, Act, State
from tidemark.models.rollout.verification import judge_on, verify

__all__ = ["advance", "allowed", "goes_back"]

_ACTS: dict[Act, frozenset[State]] = {
    "approve": CANDIDATE,
    "discard": CANDIDATE,
    "rollback": UNDER_WAY | {"Verified"},
}


def allowed(state: State) -> tuple[Act, ...]:
    """Return what a person may do with a rollout in ``state``."""
    return tuple(act for act, states in _ACTS.items() if state in states)


def goes_back(before: State, move: Move, rollout: Rollout) -> bool:
    """Return whether ``move`` from ``before`` makes jobs be told again what they were told before the rollout.

    A widening that ran out of time after the job had taken it up stays: a narrower bound would lose more. What a person
    asked of a live job stays too: it is what they want whenever the job hears it.
    """
    if move.state == "RolledBack":
        return True
    if move.state != "Expired" or rollout.cause == "Operator":
        return False
    return before == "Published" or (before in UNDER_WAY and rollout.direction == "Narrow")


def advance(rollout: Rollout, facts: Facts, now_us: int) -> Move | None:
    """Return the next state and why, or the same state and what it waits for; None when it goes no further.

    Raises:
        AssertionError: never, unless the table of transitions and this function disagree.
    """
    match rollout.state:
        case "Recommended" | "AwaitingApproval":
            move = _at_gate(rollout, facts, now_us)
        case "Published":
            move = _published(rollout, facts, now_us)
        case "Acknowledged":
            move = _acknowledged(rollout, facts, now_us)
        case "Effective":
            move = _effective(rollout, facts, now_us)
        case "Verified":
            found = _verified(rollout, facts, now_us)
            if found is None:
                return None
            move = found
        case _:
            return None
    assert move.state == rollout.state or move.state in TRANSITIONS[rollout.state], (rollout.state, move)
    return move


def _at_gate(rollout: Rollout, facts: Facts, now_us: int) -> Move:
    waited_us = now_us - rollout.changed_us
    if rollout.state == "AwaitingApproval" and waited_us > APPROVE_MS * 1_000 and not rollout.approved:
        return Move("Expired", f"nobody approved it within {format_duration(APPROVE_MS * 1_000)}")
    held = at_gate(rollout, facts, now_us)
    if rollout.state == "AwaitingApproval" and not rollout.approved and asks_approval(rollout, facts):
        also = "" if held is None else f"; then it is {held.reason}"
        return Move("AwaitingApproval", f"a person has to approve it{also}", "Approval")
    if held is not None:
        return held
    if asks_approval(rollout, facts):
        return Move("AwaitingApproval", "a person has to approve it", "Approval")
    return Move("Published", "published: nothing holds it")


def _published(rollout: Rollout, facts: Facts, now_us: int) -> Move:
    if facts.pinned is not None:
        return Move("Published", f"held by the pin: {facts.pinned}", "Pinned")
    if facts.acknowledged_us is not None:
        return Move("Acknowledged", f"the job has it since {when(facts.acknowledged_us)}")
    # What is told in the time without data waits for the job, however long it is away.
    if rollout.cause == "NoData":
        return Move("Published", "published: it waits for the job to come back")
    at_start = rollout.mode == "OnRestart"
    limit_ms = ACKNOWLEDGE_ON_RESTART_MS if at_start else ACKNOWLEDGE_MS
    if now_us - (rollout.published_us or rollout.changed_us) > limit_ms * 1_000:
        return Move("Expired", f"the job did not acknowledge it within {format_duration(limit_ms * 1_000)}")
    return Move("Published", "published: the job takes it when it next starts" if at_start else "published")


def _acknowledged(rollout: Rollout, facts: Facts, now_us: int) -> Move:
    if facts.pinned is not None:
        return Move("Acknowledged", f"held by the pin: {facts.pinned}", "Pinned")
    if facts.effective_us is not None:
        return Move("Effective", f"the watermark follows it since {when(facts.effective_us)}")
    late = _out_of_time(rollout, now_us)
    return late or Move("Acknowledged", "the job has it; the watermark does not follow it yet")


def _effective(rollout: Rollout, facts: Facts, now_us: int) -> Move:
    if facts.pinned is not None:
        return Move("Effective", f"held by the pin: {facts.pinned}", "Pinned")
    found = verify(rollout, facts)
    if found.state != "Effective":
        return found
    return _out_of_time(rollout, now_us) or found


def _verified(rollout: Rollout, facts: Facts, now_us: int) -> Move | None:
    """Return what becomes of a verified rollout, as long as the SLO's window since then lasts."""
    if facts.pinned is not None or now_us - rollout.changed_us > facts.slo.window_ms * 1_000:
        return None
    return judge_on(rollout, facts)


def _out_of_time(rollout: Rollout, now_us: int) -> Move | None:
    since_us = rollout.acknowledged_us or rollout.changed_us
    # Long windows and bounds need longer than a week of event time by themselves.
    limit_us = VERIFY_MS * 1_000 + rollout.needed_event_us
    if now_us - since_us <= limit_us:
        return None
    within = format_duration(limit_us)
    kept = "; it stays: a narrower bound would lose more" if rollout.direction == "Widen" else ""
    return Move("Expired", f"it could not be verified within {within} of its acknowledgement{kept}")
