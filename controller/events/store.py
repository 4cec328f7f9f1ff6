"""Reading events: what changed, and why."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import select
from sqlalchemy.orm import Session

from tidemark.controller.db.tables import EventRow, StreamRow


def list_events(
    session: Session,
    before_id: int | None,
    limit: int,
    *,
    stream_id: int | None = None,
    kind: str | None = None,
) -> Sequence[tuple[EventRow, StreamRow]]:
    """Return up to ``limit`` events with their streams, the newest first.

    Args:
        session: the session.
        before_id: only those with a smaller id; None for all.
        limit: how many.
        stream_id: only those of this stream; None for all.
        kind: only those of this kind; None for all.
    """
    wanted = select(EventRow, StreamRow).join(StreamRow, StreamRow.id == EventRow.stream_id)
    if stream_id is not None:
        wanted = wanted.where(EventRow.stream_id == stream_id)
    if kind is not None:
        wanted = wanted.where(EventRow.kind == kind)
    if before_id is not None:
        wanted = wanted.where(EventRow.id < before_id)
    found = session.execute(wanted.order_by(EventRow.id.desc()).limit(limit))
    return [(event, stream) for event, stream in found]


def history_of(session: Session, stream_id: int, rollout_id: int, limit: int) -> Sequence[EventRow]:
    """Return up to ``limit`` events of a rollout, the oldest first."""
    return session.scalars(
        select(EventRow)
        .where(EventRow.stream_id == stream_id, EventRow.rollout_id == rollout_id)
        .order_by(EventRow.id)
        .limit(limit)
    ).all()
