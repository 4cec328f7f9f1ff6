"""Rollouts as rows: each is made here, opened here and ended here, with its events."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from sqlalchemy.orm import Session

from tidemark.controller.db.locked_reads import read_again
from tidemark.controller.db.tables import RolloutRow, StreamRow
from tidemark.controller.rollout.rules import RolloutRules
from tidemark.controller.rollout.store import NEWEST_ROLLOUT, envelope_json, set_predicted
from tidemark.controller.streams.store import EventBasis, add_event
from tidemark.models.protocol.messages import Envelope
from tidemark.models.recommend.transition import Transition
from tidemark.models.rollout.states import Cause, State
from tidemark.models.rollout.verification import needed_rows
from tidemark.models.specs.slo import Direction


@dataclass(frozen=True, slots=True)
class Proposal:
    """A bound that should be published, and why."""

    bound_ms: int | None
    """The bound in milliseconds; None: the job keeps its own."""
    cause: Cause
    """What proposes it."""
    reason: str
    """Why."""
    in_use_bound_ms: int | None
    """The bound in the plan of the newest batch, in milliseconds; None when it is not known."""
    report_id: int = 0
    """The newest report that it rests on; 0 for none."""
    predicted: Transition | None = None
    """What it will do; None when that is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutChange:
    """What a rollout changes. Bounds are in milliseconds; None: the job keeps its own."""

    direction: Direction
    """Which way."""
    from_bound_ms: int | None
    """The bound published before it."""
    to_bound_ms: int | None
    """The bound that it publishes."""
    from_envelope: Envelope | None
    """In Live: the envelope published before it."""
    to_envelope: Envelope | None
    """In Live: the envelope that it publishes."""
    first: bool = False
    """Whether no bound was published before it."""


def new_rollout(
    session: Session,
    stream_id: int,
    rules: RolloutRules,
    proposal: Proposal,
    *,
    change: RolloutChange,
    now_us: int,
) -> RolloutRow:
    """Return a rollout of ``proposal`` that is not opened yet.

    Args:
        session: the session.
        stream_id: the stream.
        rules: its rules.
        proposal: the bound proposed.
        change: what changes when it is published.
        now_us: the wall time in microseconds.
    """
    stream = session.get_one(StreamRow, stream_id)
    row = RolloutRow(
        stream_id=stream_id,
        state="Recommended",
        reason=proposal.reason,
        cause=proposal.cause,
        direction=change.direction,
        first=change.first,
        mode=rules.policy.value.mode,
        from_bound_ms=change.from_bound_ms,
        to_bound_ms=change.to_bound_ms,
        from_envelope=envelope_json(change.from_envelope),
        to_envelope=envelope_json(change.to_envelope),
        in_use_bound_ms=proposal.in_use_bound_ms,
        slo_generation=rules.slo.generation,
        policy_generation=rules.policy.generation,
        report_id=proposal.report_id,
        rows=0,
        late=0,
        needed_rows=needed_rows(rules.slo.value.target_ppm, stream.pairs // max(stream.reports, 1)),
        needed_event_ms=0,
        created_us=now_us,
        changed_us=now_us,
    )
    if proposal.predicted is not None:
        set_predicted(row, proposal.predicted)
    return row


def open_rollout_row(session: Session, row: RolloutRow, now_us: int) -> None:
    """Store a new rollout."""
    session.add(row)
    session.flush()
    read_again(session, row.stream_id, NEWEST_ROLLOUT)
    add_rollout_event(session, row, None, now_us)


def end_rollout(session: Session, row: RolloutRow, state: State, reason: str, now_us: int) -> None:
    """End a rollout in ``state``."""
    before = row.state
    row.state, row.reason, row.held_by = state, reason, None
    row.changed_us = row.ended_us = now_us
    add_rollout_event(session, row, before, now_us)
    session.flush()


def add_rollout_event(
    session: Session,
    row: RolloutRow,
    before: str | None,
    now_us: int,
    *,
    kind: str | None = None,
    reason_class: str | None = None,
) -> None:
    """Add an event about a rollout.

    Args:
        session: the session.
        row: the rollout, changed already.
        before: its state before; None when it is new.
        now_us: the wall time in microseconds.
        kind: kind of the event; by default it names the new state.
        reason_class: class of the reason; None when only equal wording is the same reason.
    """
    add_event(
        session,
        row.stream_id,
        now_us,
        kind=kind or f"Rollout{row.state}",
        reason=row.reason,
        before=None if before is None else json.dumps(_summary(row, before)),
        after=json.dumps(_summary(row, row.state)),
        reason_class=reason_class,
        evidence=EventBasis(
            rollout_id=row.id, rows=row.judged_rows or row.rows, report_id=row.report_id or None
        ),
    )


def _summary(row: RolloutRow, state: str) -> dict[str, Any]:
    return {
        "rollout": row.id,
        "state": state,
        "from_bound_ms": row.from_bound_ms,
        "to_bound_ms": row.to_bound_ms,
    }
