"""Rollouts as rows: each is made here, opened here and ended here, with its events."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy.orm import Session

from tidemark.controller.bounds.acknowledgements import policy_in_force
from tidemark.controller.bounds.publication import SteeredStream, envelope_json
from tidemark.controller.db.tables import RolloutRow
from tidemark.controller.joins.store import join_of
from tidemark.controller.pins.store import StoredPin, pin_in_force
from tidemark.controller.rollout.store import set_predicted
from tidemark.controller.specs.store import Spec, get_specs
from tidemark.controller.streams.store import EventBasis, add_event
from tidemark.models.rollout.facts import Cause
from tidemark.models.rollout.restarts import FleetLimits
from tidemark.models.rollout.states import State
from tidemark.models.rollout.verification import needed_rows
from tidemark.models.slo import Direction, Policy, Slo
from tidemark.models.transition import Transition
from tidemark.models.wire import Envelope


@dataclass(frozen=True, slots=True)
class Proposal:
    """A bound that should be published, and why."""

    bound_ms: int | None
    """The bound in milliseconds; None: the job keeps its own."""
    cause: Cause
    reason: str
    in_use_bound_ms: int | None
    """The bound in the plan of the newest batch, in milliseconds; None when it is not known."""
    report_id: int = 0
    """The newest report that it rests on; 0 for none."""
    predicted: Transition | None = None
    """What it will do; None when that is not known."""
    held_from_ms: int | None = None
    """The bound that the rows require, where the one in use is only held because no report comes; None otherwise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutChange:
    """What a rollout changes. Bounds are in milliseconds; None: the job keeps its own."""

    direction: Direction
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


@dataclass(frozen=True, slots=True)
class RolloutRules:
    """What a rollout of a stream must keep to."""

    slo: Spec[Slo]
    """The SLO; of a side of a join with at least the target of the join, since its late rows lose pairs."""
    policy: Spec[Policy]
    """The policy, with what the stream's chain forbids."""
    pin: StoredPin | None
    """The pin in force; None without one."""
    fleet: FleetLimits | None
    """What limits how many jobs are changed at once; None where that does not apply."""


def read_rules(stream: SteeredStream, fleet: FleetLimits | None) -> RolloutRules | None:
    """Return a stream's rules; None without an SLO, when nothing is rolled out."""
    slo, policy = get_specs(stream.session, stream.id)
    if slo is None:
        return None
    if slo.join_id is not None:
        target_ppm = max(slo.value.target_ppm, join_of(stream.session, slo.join_id).slo.target_ppm)
        slo = replace(slo, value=replace(slo.value, target_ppm=target_ppm))
    pin = pin_in_force(stream.session, stream.row.job, stream.row.stream)
    in_force = replace(policy, value=policy_in_force(policy.value, stream.chain, stream.newest))
    return RolloutRules(slo, in_force, pin, fleet)


def new_rollout(
    stream: SteeredStream, rules: RolloutRules, proposal: Proposal, change: RolloutChange
) -> RolloutRow:
    """Return a rollout of a proposal that is not opened yet."""
    row = RolloutRow(
        stream_id=stream.id,
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
        needed_rows=needed_rows(rules.slo.value.target_ppm, stream.row.pairs // max(stream.row.reports, 1)),
        needed_event_ms=0,
        created_us=stream.now_us,
        changed_us=stream.now_us,
    )
    if proposal.predicted is not None:
        set_predicted(row, proposal.predicted)
    return row


def open_rollout_row(stream: SteeredStream, row: RolloutRow) -> None:
    """Store a new rollout."""
    stream.session.add(row)
    stream.session.flush()
    stream.newest_rollout = row
    add_rollout_event(stream.session, row, None, stream.now_us)


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
        row: the rollout, changed already.
        before: its state before; None when it is new.
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
