"""The state machine: how a rollout proceeds by itself."""

from __future__ import annotations

from typing import Literal

from tidemark.models.base.defaults import ACKNOWLEDGE_MS, ACKNOWLEDGE_ON_RESTART_MS, APPROVE_MS, VERIFY_MS
from tidemark.models.base.duration import format_duration
from tidemark.models.protocol.messages import Envelope
from tidemark.models.rollout.gate import at_gate, at_outside_gate, judge_outside, needs_approval, when
from tidemark.models.rollout.states import (
    TRANSITIONS,
    UNDER_WAY,
    Move,
    Rollout,
    RolloutFacts,
    State,
)
from tidemark.models.rollout.verification import judge_on, verify
from tidemark.models.specs.slo import Direction


def restores_previous(before: State, move: Move, rollout: Rollout) -> bool:
    """Return whether ``move`` from ``before`` publishes again what was published before the rollout.

    A widening that expires after the job has applied it stays: a narrower bound would lose more rows. What a person set
    for a live job stays too: they want it whenever the job receives it.
    """
    if move.state == "RolledBack":
        return True
    if move.state != "Expired" or rollout.cause == "Operator":
        return False
    return before == "Published" or (before in UNDER_WAY and rollout.direction == "Narrow")


def advance(rollout: Rollout, facts: RolloutFacts, now_us: int) -> Move | None:
    """Return the next state and why, or the same state and what it waits for; None when it stays as it is.

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


def _at_gate(rollout: Rollout, facts: RolloutFacts, now_us: int) -> Move:
    waited_us = now_us - rollout.changed_us
    if rollout.state == "AwaitingApproval" and waited_us > APPROVE_MS * 1_000 and not rollout.approved:
        return Move("Expired", f"nobody approved it within {format_duration(APPROVE_MS * 1_000)}")
    waits = at_gate(rollout, facts, now_us)
    why = needs_approval(rollout, facts)
    if rollout.state == "AwaitingApproval" and why is not None:
        also = "" if waits is None else f"; after that it is {waits.reason}"
        return Move("AwaitingApproval", f"{why}{also}", "Approval")
    if waits is not None:
        return waits
    if why is not None:
        return Move("AwaitingApproval", why, "Approval")
    return at_outside_gate(rollout, facts, now_us) or Move("Published", "published: nothing holds it")


def _published(rollout: Rollout, facts: RolloutFacts, now_us: int) -> Move:
    if facts.pinned is not None:
        return Move("Published", f"held by the pin: {facts.pinned}", "Pinned")
    if facts.acknowledged_us is not None:
        return Move("Acknowledged", f"the job has applied it since {when(facts.acknowledged_us)}")
    # What is published while no data comes waits for the job, however long that takes.
    if rollout.cause == "NoData":
        return Move("Published", "published: it waits for the job to return")
    at_start = rollout.mode == "OnRestart"
    limit_ms = ACKNOWLEDGE_ON_RESTART_MS if at_start else ACKNOWLEDGE_MS
    if now_us - (rollout.published_us or rollout.changed_us) > limit_ms * 1_000:
        return Move("Expired", f"the job did not acknowledge it within {format_duration(limit_ms * 1_000)}")
    return Move("Published", "published: the job takes it when it next starts" if at_start else "published")


def _acknowledged(rollout: Rollout, facts: RolloutFacts, now_us: int) -> Move:
    if facts.pinned is not None:
        return Move("Acknowledged", f"held by the pin: {facts.pinned}", "Pinned")
    if facts.effective_us is not None:
        return Move("Effective", f"the watermark has followed it since {when(facts.effective_us)}")
    late = _out_of_time(rollout, now_us)
    return late or Move("Acknowledged", "the job applies it; the watermark does not follow it yet")


def _effective(rollout: Rollout, facts: RolloutFacts, now_us: int) -> Move:
    if facts.pinned is not None:
        return Move("Effective", f"held by the pin: {facts.pinned}", "Pinned")
    found = judge_outside(rollout, facts, verify(rollout, facts), now_us)
    if found.state != "Effective":
        return found
    return _out_of_time(rollout, now_us) or found


def _verified(rollout: Rollout, facts: RolloutFacts, now_us: int) -> Move | None:
    """Return the next state of a verified rollout; None once the SLO's window since then has passed."""
    if facts.pinned is not None or now_us - rollout.changed_us > facts.slo.window_ms * 1_000:
        return None
    return judge_on(rollout, facts)


def _out_of_time(rollout: Rollout, now_us: int) -> Move | None:
    since_us = rollout.acknowledged_us or rollout.changed_us
    # With long windows or bounds the required event time alone may exceed a week.
    limit_us = VERIFY_MS * 1_000 + rollout.needed_event_ms * 1_000
    if now_us - since_us <= limit_us:
        return None
    within = format_duration(limit_us)
    stays = "; it stays: a narrower bound would lose more" if rollout.direction == "Widen" else ""
    return Move("Expired", f"it could not be verified within {within} of its acknowledgement{stays}")


_Revision = Literal["keep", "update", "replace"]


def direction_of(from_ms: int | None, to_ms: int | None) -> Direction:
    """Return which way a bound changes; an unknown change counts as a widening."""
    return "Narrow" if from_ms is not None and to_ms is not None and to_ms < from_ms else "Widen"


def revise(rollout: Rollout, to_ms: int | None, direction: Direction) -> _Revision:
    """Return what to do with a candidate when a change to ``to_ms`` in ``direction`` is recommended now.

    A proposal that waits for approval does not change while a person looks at it: it stays while it is as wide as what
    is recommended now, and is replaced when it is not. Any other candidate follows the recommendation.
    """
    if rollout.state != "AwaitingApproval" and not rollout.approved:
        return "update"
    if direction != rollout.direction or rollout.to_bound_ms is None or to_ms is None:
        return "keep" if direction == rollout.direction and to_ms == rollout.to_bound_ms else "replace"
    return "keep" if to_ms <= rollout.to_bound_ms else "replace"


def envelope_direction(before: Envelope, after: Envelope) -> Direction:
    """Return which way an envelope changes: it narrows when any part lets rows be lost sooner than before."""
    inf = float("inf")
    narrows = (
        (after.target_ppm or _ABOVE_ANY_TARGET_PPM) < (before.target_ppm or _ABOVE_ANY_TARGET_PPM)
        or _or(after.latency_cap_ms, inf) < _or(before.latency_cap_ms, inf)
        or _or(after.max_bound_ms, inf) < _or(before.max_bound_ms, inf)
        or _or(after.min_bound_ms, 0) < _or(before.min_bound_ms, 0)
    )
    return "Narrow" if narrows else "Widen"


_ABOVE_ANY_TARGET_PPM = 1_000_001
"""Represents "no target": each partition follows the bound, which loses no row that a target would save."""


def _or(value: int | None, default: float) -> float:
    return default if value is None else value
