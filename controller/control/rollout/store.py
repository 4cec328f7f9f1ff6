"""Rollouts as rows: what they keep to, how each is made, opened and ended, and queries for what decides about them."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import ColumnElement, ScalarSelect, and_, func, or_, select
from sqlalchemy.orm import Session, aliased

from tidemark.controller.base.answer import made_of
from tidemark.controller.base.db.tables import PolicyRow, PublishedRow, RolloutRow, StreamRow
from tidemark.controller.control.bounds.publication import SteeredStream, newest_rollout
from tidemark.controller.specs.joins import join_of
from tidemark.controller.specs.pins import pin_in_force
from tidemark.controller.specs.store import Spec, get_specs
from tidemark.controller.specs.streams import EventBasis, add_event
from tidemark.models.protocol.messages import PublishedAnswer
from tidemark.models.recommend.promise import NOTHING_PROMISED, Promise, Transition
from tidemark.models.rollout.evidence import rows_per_event
from tidemark.models.rollout.restarts import FleetLimits
from tidemark.models.rollout.states import OPEN, UNDER_WAY, Cause, Rollout, State
from tidemark.models.rollout.verification import needed_rows
from tidemark.models.specs.pin import StoredPin
from tidemark.models.specs.slo import Direction, Policy, Slo

_FLEET_LOCK = 0x7469_6466
"""Key of the PostgreSQL advisory lock under which the limits of the fleet are counted and used."""


def model_of(row: RolloutRow) -> Rollout:
    """Return a rollout as the state machine takes it."""
    return made_of(Rollout, row, newest_report=row.report_id or None)


def open_rollout(session: Session, stream_id: int) -> RolloutRow | None:
    """Return the stream's rollout that is open; None without one. There is never more than one."""
    newest = newest_rollout(session, stream_id)
    return newest if newest is not None and newest.state in OPEN else None


def rollout_in_force(session: Session, found: PublishedRow | None) -> RolloutRow | None:
    """Return the verified rollout whose bound is published, whether or not a pin overrides it; None without one."""
    row = None if found is None or found.rollout_id is None else session.get(RolloutRow, found.rollout_id)
    return row if row is not None and row.state == "Verified" else None


def newest_rollout_query() -> ScalarSelect[int | None]:
    """Return the query for the id of the newest rollout, as a part of a statement on ``StreamRow``."""
    row = aliased(RolloutRow)
    wanted = select(func.max(row.id)).where(row.stream_id == StreamRow.id)
    return wanted.correlate(StreamRow).scalar_subquery()


def missed_rollout_query(published: type[PublishedRow]) -> ScalarSelect[int | None]:
    """Return the query for the id of the rollout behind ``published`` that missed its target after it was verified."""
    row = aliased(RolloutRow)
    stands = and_(row.state == "Verified", row.id == published.rollout_id)
    undone = and_(row.state == "RolledBack", row.id == published.rolled_back_id)
    return (
        select(func.max(row.id))
        .where(row.stream_id == published.stream_id, row.missed_us.is_not(None), or_(stands, undone))
        .correlate(published)
        .scalar_subquery()
    )


def published_before(session: Session, stream_id: int) -> bool:
    """Return whether a recommended bound was ever published for a stream."""
    return _any_decision(session, stream_id, RolloutRow.published_us.is_not(None))


def verified_narrowing(session: Session, stream_id: int) -> bool:
    """Return whether a recommended narrowing of a stream is verified and not rolled back."""
    return _any_decision(
        session, stream_id, and_(RolloutRow.direction == "Narrow", RolloutRow.state == "Verified")
    )


def _any_decision(session: Session, stream_id: int, which: ColumnElement[bool]) -> bool:
    found = select(RolloutRow.id).where(
        RolloutRow.stream_id == stream_id, RolloutRow.cause == "Decision", which
    )
    return session.scalars(select(found.exists())).one()


def find_rollout(session: Session, stream_id: int, rollout_id: int) -> RolloutRow | None:
    """Return a rollout of the stream; None when the stream has none with this id."""
    return session.scalars(
        select(RolloutRow).where(RolloutRow.stream_id == stream_id, RolloutRow.id == rollout_id)
    ).one_or_none()


def list_rollouts(
    session: Session,
    *,
    limit: int,
    rollout_id: int | None = None,
    stream_id: int | None = None,
    states: Collection[State] = (),
    vetoed: bool = False,
    before_id: int | None = None,
) -> Sequence[RolloutRow]:
    """Return up to ``limit`` rollouts, the newest first.

    Args:
        rollout_id: only the one of this number; None for all.
        states: only those in one of these states; empty for all.
    """
    found = select(RolloutRow).order_by(RolloutRow.id.desc()).limit(limit)
    if rollout_id is not None:
        found = found.where(RolloutRow.id == rollout_id)
    if stream_id is not None:
        found = found.where(RolloutRow.stream_id == stream_id)
    if states:
        found = found.where(RolloutRow.state.in_(states))
    if vetoed:
        found = found.where(RolloutRow.vetoed)
    if before_id is not None:
        found = found.where(RolloutRow.id < before_id)
    return session.scalars(found).all()


def rollouts_by_state(session: Session) -> dict[str, int]:
    """Return how many rollouts are in each state; states without any are left out."""
    return dict(session.execute(select(RolloutRow.state, func.count()).group_by(RolloutRow.state)).all())


def narrowed_us(session: Session, stream_id: int, since_us: int, to_ms: int | None) -> tuple[int, ...]:
    """Return when narrowings of the stream were published since ``since_us``, ascending.

    One that no job took up does not count for a bound ``to_ms`` wider than it: that bound replaces the narrowing
    rather than following it.
    """
    followed = or_(RolloutRow.acknowledged_us.is_not(None), RolloutRow.to_bound_ms >= (to_ms or 0))
    found = session.scalars(
        select(RolloutRow.published_us)
        .where(
            RolloutRow.stream_id == stream_id,
            RolloutRow.direction == "Narrow",
            RolloutRow.published_us >= since_us,
            followed,
        )
        .order_by(RolloutRow.published_us)
    )
    return tuple(at_us for at_us in found if at_us is not None)


def unanswered_us(session: Session, stream_id: int, answered_us: int) -> int | None:
    """Return since when the job has not answered a rollout that it should act on; None when it has answered all.

    Args:
        answered_us: when the job last acknowledged, or in Live last reached the controller; 0 for never.
    """
    return session.scalars(
        select(func.min(RolloutRow.published_us)).where(
            RolloutRow.stream_id == stream_id,
            RolloutRow.mode.in_(["Restart", "Live"]),
            RolloutRow.published_us > answered_us,
            RolloutRow.acknowledged_us.is_(None),
        )
    ).one()


def lock_fleet(session: Session) -> None:
    """Let no other transaction count what is under way in the fleet until this one ends."""
    # SQLite has one writer at a time.
    if session.get_bind().dialect.name == "postgresql":
        session.execute(select(func.pg_advisory_xact_lock(_FLEET_LOCK)))


def read_fleet_share(session: Session, share_ppm: int, but: SteeredStream | None = None) -> tuple[int, int]:
    """Return how many streams are being narrowed, and how many may be at once.

    Args:
        share_ppm: share of the controlled streams that may be, in parts per million; one always may.
        but: a stream that is not counted. Where it is locked, no other transaction counts meanwhile.
    """
    if but is not None and but.locked:
        lock_fleet(session)
    controlled = session.scalars(
        select(func.count()).select_from(PolicyRow).where(PolicyRow.mode != "Off")
    ).one()
    narrowing = select(func.count(RolloutRow.stream_id.distinct())).where(
        RolloutRow.state.in_(UNDER_WAY), RolloutRow.direction == "Narrow"
    )
    if but is not None:
        narrowing = narrowing.where(RolloutRow.stream_id != but.id)
    return session.scalars(narrowing).one(), max(controlled * share_ppm // 1_000_000, 1)


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


@dataclass(frozen=True, slots=True)
class RolloutRules:
    """What a rollout of a stream must keep to."""

    slo: Spec[Slo]
    """The SLO; of a side of a join with at least the target of the join, since its late rows lose pairs."""
    policy: Spec[Policy]
    """The policy, with what the stream's query forbids."""
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
    in_force = replace(policy, value=stream.policy_in_force(policy.value))
    return RolloutRules(slo, in_force, pin, fleet)


def new_rollout(
    stream: SteeredStream,
    rules: RolloutRules,
    proposal: Proposal,
    before: PublishedAnswer,
    after: PublishedAnswer,
    *,
    direction: Direction,
    first: bool,
) -> RolloutRow:
    """Return a rollout of a proposal from what is published to what is to be, that is not opened yet."""
    predicted = NOTHING_PROMISED if proposal.predicted is None else made_of(Promise, proposal.predicted)
    return RolloutRow(
        stream_id=stream.id,
        state="Recommended",
        reason=proposal.reason,
        cause=proposal.cause,
        direction=direction,
        first=first,
        mode=rules.policy.value.mode,
        from_bound_ms=before.bound_ms,
        to_bound_ms=after.bound_ms,
        from_envelope=before.envelope,
        to_envelope=after.envelope,
        in_use_bound_ms=proposal.in_use_bound_ms,
        slo_generation=rules.slo.generation,
        policy_generation=rules.policy.generation,
        report_id=proposal.report_id,
        predicted=predicted,
        gate_answers=(),
        needed_rows=needed_rows(
            rules.slo.value.target_ppm,
            stream.row.pairs // max(stream.row.reports, 1),
            rows_per_event(predicted.rows, predicted.events),
        ),
        needed_event_ms=0,
        created_us=stream.now_us,
        changed_us=stream.now_us,
    )


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
            rollout_id=row.id, rows=row.judged.rows or row.predicted.rows, report_id=row.report_id or None
        ),
    )


def _summary(row: RolloutRow, state: str) -> dict[str, Any]:
    return {
        "rollout": row.id,
        "state": state,
        "from_bound_ms": row.from_bound_ms,
        "to_bound_ms": row.to_bound_ms,
    }
