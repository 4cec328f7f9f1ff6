"""The table of rollouts, and queries for the facts that decide about them."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict
from typing import cast

from sqlalchemy import ColumnElement, ScalarSelect, and_, bindparam, func, or_, select
from sqlalchemy.orm import Session, aliased

from tidemark.controller.bounds.publication import last_published
from tidemark.controller.db.locked_reads import read_once
from tidemark.controller.db.tables import PolicyRow, PublishedRow, RolloutRow, StreamRow
from tidemark.models.base.read_json import read_object
from tidemark.models.protocol.messages import Envelope, Mode
from tidemark.models.recommend.transition import Transition
from tidemark.models.rollout.states import OPEN, UNDER_WAY, Cause, GateAnswer, Rollout, State
from tidemark.models.specs.slo import Direction

NEWEST_ROLLOUT = "rollout"
"""Name of what is read once of a locked stream."""

_FLEET_LOCK = 0x7469_6466
"""Key of the PostgreSQL advisory lock under which the limits of the fleet are counted and used."""


def envelope_json(envelope: Envelope | None) -> str | None:
    """Return an envelope as it is stored; None for None."""
    return None if envelope is None else json.dumps(asdict(envelope))


def envelope_of(text: str | None) -> Envelope | None:
    """Return the envelope that is stored as ``text``; None for None."""
    return None if text is None else read_object(Envelope, json.loads(text))


def gate_answers_json(answers: Iterable[GateAnswer]) -> str:
    """Return answers of outside gates as they are stored."""
    return json.dumps([asdict(answer) for answer in answers])


def gate_answers_of(text: str | None) -> tuple[GateAnswer, ...]:
    """Return the answers of outside gates that are stored as ``text``; none for None."""
    return () if text is None else tuple(read_object(GateAnswer, each) for each in json.loads(text))


def model_of(row: RolloutRow) -> Rollout:
    """Return a rollout as the state machine takes it."""
    return Rollout(
        state=cast("State", row.state),
        cause=cast("Cause", row.cause),
        direction=cast("Direction", row.direction),
        first=row.first,
        mode=cast("Mode", row.mode),
        to_bound_ms=row.to_bound_ms,
        changed_us=row.changed_us,
        approved=row.approved_us is not None,
        published_us=row.published_us,
        acknowledged_us=row.acknowledged_us,
        needed_rows=row.needed_rows,
        needed_event_us=row.needed_event_ms * 1_000,
        missed=row.missed_us is not None,
        min_ppm=row.min_ppm,
    )


def set_predicted(row: RolloutRow, predicted: Transition) -> None:
    """Set a rollout's prediction."""
    row.rows, row.late = predicted.rows, predicted.late
    row.min_ppm, row.max_ppm = predicted.min_ppm, predicted.max_ppm
    row.latency_wall_us, row.state_rows = predicted.latency_wall_us, predicted.state_rows


def open_rollout(session: Session, stream_id: int) -> RolloutRow | None:
    """Return the stream's rollout that is open; None without one. There is never more than one."""
    newest = newest_rollout(session, stream_id)
    return newest if newest is not None and newest.state in OPEN else None


def newest_rollout(session: Session, stream_id: int) -> RolloutRow | None:
    """Return the stream's newest rollout; None without any."""
    return read_once(
        session,
        stream_id,
        NEWEST_ROLLOUT,
        lambda: session.scalars(_NEWEST, {"stream": stream_id}).one_or_none(),
    )


# Built once: building it takes longer than running it.
_NEWEST = (
    select(RolloutRow)
    .where(RolloutRow.stream_id == bindparam("stream"))
    .order_by(RolloutRow.id.desc())
    .limit(1)
)


def rollout_in_force(session: Session, stream_id: int) -> RolloutRow | None:
    """Return the verified rollout whose bound is published, whether or not a pin overrides it; None without one."""
    found = last_published(session, stream_id, pinned=False)
    row = None if found is None or found.rollout_id is None else session.get(RolloutRow, found.rollout_id)
    return row if row is not None and row.state == "Verified" else None


def newest_rollout_query() -> ScalarSelect[int | None]:
    """Return the query for the id of the newest rollout, as a part of a statement on ``StreamRow``."""
    row = aliased(RolloutRow)
    wanted = select(func.max(row.id)).where(row.stream_id == StreamRow.id)
    return wanted.correlate(StreamRow).scalar_subquery()


def missed_rollout_query(published: type[PublishedRow]) -> ScalarSelect[int | None]:
    """Return the query for the id of the rollout that missed its target after it was verified, if any.

    Args:
        published: what is published but for a pin, in the statement that the query becomes a part of.
    """
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
    stream_id: int | None = None,
    states: Collection[State] = (),
    vetoed: bool = False,
    before_id: int | None = None,
) -> Sequence[RolloutRow]:
    """Return up to ``limit`` rollouts, the newest first.

    Args:
        session: the session.
        limit: how many.
        stream_id: only those of this stream; None for all.
        states: only those in one of these states; empty for all.
        vetoed: only those whose veto holds.
        before_id: only those with a lower id; None for all.
    """
    found = select(RolloutRow).order_by(RolloutRow.id.desc()).limit(limit)
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
        session: the session.
        stream_id: the stream.
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


def fleet_share(session: Session, stream_id: int, share_ppm: int, *, lock: bool) -> tuple[int, int]:
    """Return how many other streams are being narrowed, and how many may be at once.

    Args:
        session: the session.
        stream_id: the stream, which is not counted.
        share_ppm: share of the controlled streams that may be, in parts per million; one always may.
        lock: whether this transaction uses the share, so that no other may count meanwhile.
    """
    if lock:
        lock_fleet(session)
    controlled = session.scalars(
        select(func.count()).select_from(PolicyRow).where(PolicyRow.mode != "Off")
    ).one()
    under_way = session.scalars(
        select(func.count(RolloutRow.stream_id.distinct())).where(
            RolloutRow.state.in_(UNDER_WAY),
            RolloutRow.direction == "Narrow",
            RolloutRow.stream_id != stream_id,
        )
    ).one()
    return under_way, max(controlled * share_ppm // 1_000_000, 1)
