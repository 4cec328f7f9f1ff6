"""Operator actions on rollouts: approve, discard, roll back, lift a veto. Each is idempotent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from sqlalchemy.orm import Session

from tidemark.controller.bounds.publication import last_published
from tidemark.controller.db.tables import RolloutRow
from tidemark.controller.errors import RolloutNotFoundError, RolloutStateError
from tidemark.controller.rollout.advance import advance_rollout, apply_move
from tidemark.controller.rollout.rules import RolloutRules, rules_of
from tidemark.controller.rollout.store import find_rollout, newest_rollout
from tidemark.controller.runtime.actor import current_actor
from tidemark.controller.streams.store import EventBasis, add_event
from tidemark.models.rollout.machine import allowed
from tidemark.models.rollout.restarts import FleetLimits
from tidemark.models.rollout.states import OPEN, Act, Move, State, state_text

_REFUSED: Mapping[Act, str] = {
    "approve": "it cannot be approved",
    "discard": "it cannot be discarded",
    "rollback": "it cannot be rolled back",
    "lift": "it has no veto to lift",
}
"""What is refused, by act."""

_MAY: Mapping[Act, str] = {
    "approve": "it can be approved",
    "discard": "it can be discarded",
    "rollback": "it can be rolled back",
    "lift": "its veto can be lifted",
}
"""What is possible, by act."""


def get_rollout(session: Session, stream_id: int, rollout_id: int) -> RolloutRow:
    """Return a rollout of the stream.

    Raises:
        RolloutNotFoundError: when the stream has none with this id.
    """
    row = find_rollout(session, stream_id, rollout_id)
    if row is None:
        raise RolloutNotFoundError(
            f"the stream has no rollout {rollout_id}; GET .../rollouts lists its rollouts"
        )
    return row


def approve(
    session: Session, stream_id: int, rollout_id: int, reason: str, now_us: int, *, fleet: FleetLimits
) -> RolloutRow:
    """Approve a rollout and publish it as soon as nothing else holds it; the stream is locked.

    Raises:
        RolloutNotFoundError: when the stream has none with this id.
        RolloutStateError: when it is past approval.
    """
    row = get_rollout(session, stream_id, rollout_id)
    if row.approved_us is not None and row.state in OPEN | {"Verified"}:
        return row
    rules = _checked(session, row, "approve", fleet)
    row.approved_us, row.approved_by, row.approval_reason = now_us, current_actor(), reason
    add_event(
        session,
        stream_id,
        now_us,
        kind="RolloutApproved",
        reason=reason,
        evidence=EventBasis(rollout_id=row.id),
    )
    session.flush()
    advance_rollout(session, stream_id, rules, now_us)
    return row


def discard(
    session: Session, stream_id: int, rollout_id: int, reason: str, now_us: int, *, fleet: FleetLimits
) -> RolloutRow:
    """Discard a rollout before it is published, and remember that; the stream is locked.

    Raises:
        RolloutNotFoundError: when the stream has none with this id.
        RolloutStateError: when it is published already.
    """
    row = get_rollout(session, stream_id, rollout_id)
    if row.state == "Discarded":
        return row
    rules = _checked(session, row, "discard", fleet)
    apply_move(session, row, Move("Discarded", f"discarded: {reason}", failure="Discarded"), rules, now_us)
    return row


def roll_back(
    session: Session, stream_id: int, rollout_id: int, reason: str, now_us: int, *, fleet: FleetLimits
) -> RolloutRow:
    """Publish again what was published before a rollout, and remember that; the stream is locked.

    Raises:
        RolloutNotFoundError: when the stream has none with this id.
        RolloutStateError: when it was never published, has ended otherwise, or is not in force any more.
    """
    row = get_rollout(session, stream_id, rollout_id)
    if row.state == "RolledBack":
        return row
    rules = _checked(session, row, "rollback", fleet)
    found = last_published(session, stream_id, pinned=False)
    if found is None or found.rollout_id != row.id:
        now = "nothing is published" if found is None else f"generation {found.generation} is published now"
        raise RolloutStateError(
            f"rollout {row.id} cannot be rolled back: {now}, which does not carry it; roll back the rollout "
            "that is in force, or set the policy"
        )
    apply_move(session, row, Move("RolledBack", f"rolled back: {reason}", failure="ByHand"), rules, now_us)
    return row


def lift(
    session: Session, stream_id: int, rollout_id: int, reason: str, now_us: int, *, fleet: FleetLimits
) -> RolloutRow:
    """Lift the veto of a person who discarded a rollout or rolled it back; the stream is locked.

    Its bound may be recommended and published again, as the policy allows.

    Raises:
        RolloutNotFoundError: when the stream has none with this id.
        RolloutStateError: when nobody discarded it or rolled it back.
    """
    row = get_rollout(session, stream_id, rollout_id)
    if row.state in {"Discarded", "RolledBack"} and not row.vetoed:
        return row
    rules = _checked(session, row, "lift", fleet)
    row.vetoed = False
    add_event(
        session, stream_id, now_us, kind="VetoLifted", reason=reason, evidence=EventBasis(rollout_id=row.id)
    )
    session.flush()
    advance_rollout(session, stream_id, rules, now_us)
    return row


def _checked(session: Session, row: RolloutRow, act: Act, fleet: FleetLimits) -> RolloutRules:
    state = cast("State", row.state)
    acts = allowed(state, vetoed=row.vetoed)
    rules = rules_of(session, row.stream_id, fleet)
    if act not in acts:
        raise RolloutStateError(
            f"rollout {row.id} is {state_text(state)}, so {_REFUSED[act]}; {_instead(session, row, acts)}"
        )
    if rules is None:
        raise RolloutStateError(
            "the stream has no SLO, so no rollout of it can be changed; set its SLO first"
        )
    return rules


def _instead(session: Session, row: RolloutRow, acts: tuple[Act, ...]) -> str:
    """Return what a person may do where they asked for something else."""
    if acts:
        return " or ".join(_MAY[act] for act in acts)
    newest = newest_rollout(session, row.stream_id)
    if newest is None or newest.id == row.id:
        return "the next one begins when another bound is recommended"
    return f"the newest one is rollout {newest.id}, which is {state_text(cast('State', newest.state))}"
