"""Streams: finding, creating, locking and listing them, and the events that happened to them."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import select, tuple_
from sqlalchemy.orm import Session

from tidemark.controller.errors import StreamNotFoundError
from tidemark.controller.store.tables import EventRow, StreamRow
from tidemark.controller.store.upsert import insert_into

__all__ = ["add_event", "find_stream", "get_stream", "list_streams", "lock_stream"]


def find_stream(session: Session, job: str, stream: str) -> StreamRow | None:
    """Return the stream, None when nothing is known of it."""
    return session.scalars(
        select(StreamRow).where(StreamRow.job == job, StreamRow.stream == stream)
    ).one_or_none()


def get_stream(session: Session, job: str, stream: str) -> StreamRow:
    """Return the stream.

    Raises:
        StreamNotFoundError: when nothing is known of it.
    """
    row = find_stream(session, job, stream)
    if row is None:
        raise StreamNotFoundError(
            f"nothing is known of stream {stream!r} of job {job!r}: no report came, no SLO or policy was set"
        )
    return row


def lock_stream(session: Session, job: str, stream: str, now_us: int) -> StreamRow:
    """Return the stream for writing, making it when it is new; others who want to write to it wait for the commit."""
    wanted = select(StreamRow).where(StreamRow.job == job, StreamRow.stream == stream).with_for_update()
    found = session.scalars(wanted).one_or_none()
    if found is not None:
        return found
    # Another process may make it at the same time: then this waits for its commit and does nothing.
    session.execute(
        insert_into(session, StreamRow)
        .values(job=job, stream=stream, created_us=now_us)
        .on_conflict_do_nothing(index_elements=["job", "stream"])
    )
    return session.scalars(wanted).one()


def list_streams(
    session: Session, after: tuple[str, str] | None, limit: int, job: str | None = None
) -> Sequence[StreamRow]:
    """Return up to ``limit`` streams in the order of (job, stream), those after ``after``, or of one ``job``."""
    wanted = select(StreamRow).order_by(StreamRow.job, StreamRow.stream).limit(limit)
    if job is not None:
        wanted = wanted.where(StreamRow.job == job)
    if after is not None:
        wanted = wanted.where(tuple_(StreamRow.job, StreamRow.stream) > after)
    return session.scalars(wanted).all()


def add_event(
    session: Session,
    stream_id: int,
    at_us: int,
    *,
    kind: str,
    reason: str,
    before: str | None = None,
    after: str | None = None,
) -> None:
    """Write down a change: what it was, why, and the value before and after."""
    session.add(
        EventRow(stream_id=stream_id, at_us=at_us, kind=kind, reason=reason, before=before, after=after)
    )
