"""Streams: finding, creating and locking them, and writing down events. A job is known by its streams alone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Select, String, and_, bindparam, select
from sqlalchemy.orm import Session

from tidemark.controller.base.db.database import NO_LIMITS, Limits
from tidemark.controller.base.db.limits import check_room_for_stream
from tidemark.controller.base.db.statements import given, given_rows, insert_into
from tidemark.controller.base.db.tables import KNOWN, EventRow, StreamRow
from tidemark.controller.base.errors import JobNotFoundError, StreamNotFoundError
from tidemark.controller.base.principal import current_actor, may_see
from tidemark.controller.base.sentences import did_you_mean


@dataclass(frozen=True, slots=True, kw_only=True)
class EventBasis:
    """What a change rests on."""

    rollout_id: int | None = None
    """The rollout that it belongs to; None for none."""
    rows: int | None = None
    """(Row, key) pairs; None without any."""
    report_id: int | None = None


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
        wanted = select(StreamRow.stream).where(StreamRow.job == job, KNOWN).order_by(StreamRow.stream)
        known = session.scalars(wanted).all()
        raise StreamNotFoundError(
            f"nothing is known of stream {stream!r} of job {job!r}: no report came, no SLO or policy was set"
            f"{did_you_mean(stream, known)}"
            if known
            else _no_job(session, job)
        )
    return row


def _no_job(session: Session, job: str) -> str:
    """Return that there is no such job, with the nearest one, or those that there are, which the caller may see."""
    every = session.scalars(select(StreamRow.job).where(KNOWN).distinct()).all()
    jobs = [each for each in every if may_see(each)]
    of_stream = session.scalars(select(StreamRow.job).where(StreamRow.stream == job, KNOWN)).all()
    for other in filter(may_see, of_stream):
        return f"there is no job {job!r}; {job!r} is a stream of job {other!r}: name both"
    if not every:
        return f"there is no job {job!r}; no job has reported, and no SLO or policy is set"
    return f"there is no job {job!r}{did_you_mean(job, jobs)}"


def list_jobs(session: Session, after: str | None, limit: int) -> Sequence[str]:
    """Return up to ``limit`` names of jobs in their order, those after ``after``."""
    wanted = select(StreamRow.job).where(KNOWN).distinct().order_by(StreamRow.job).limit(limit)
    if after is not None:
        wanted = wanted.where(StreamRow.job > after)
    return session.scalars(wanted).all()


def streams_of_job(session: Session, job: str) -> Sequence[StreamRow]:
    """Return the streams of a job by name.

    Raises:
        JobNotFoundError: when none is known.
    """
    wanted = select(StreamRow).where(StreamRow.job == job, KNOWN)
    rows = session.scalars(wanted.order_by(StreamRow.stream)).all()
    if not rows:
        raise JobNotFoundError(_no_job(session, job))
    return rows


# Built once: that takes longer than running it. The session may hold a row as it was before it was locked.
_LOCK = select(StreamRow).with_for_update().execution_options(populate_existing=True)
_LOCKED = _LOCK.where(StreamRow.job == bindparam("job"), StreamRow.stream == bindparam("stream"))
_LOCKED_ID = _LOCK.where(StreamRow.id == bindparam("stream"))


def lock_stream(session: Session, job: str, stream: str, limits: Limits = NO_LIMITS) -> StreamRow:
    """Return the stream for writing, creating it when it is new, within the limits; others wait for the commit.

    Raises:
        LimitReachedError: when it is new and there is no room for it.
    """
    return lock_or_make(session, job, stream, limits)[0]


def lock_or_make(session: Session, job: str, stream: str, limits: Limits) -> tuple[StreamRow, bool]:
    """Do what ``lock_stream`` does, and return too whether the stream is new."""
    made = False
    # Another process may make it and a third one delete it, both just now.
    while (found := session.scalars(_LOCKED, {"job": job, "stream": stream}).one_or_none()) is None:
        made = _make_stream(session, job, stream, limits)
    return found, made


def _make_stream(session: Session, job: str, stream: str, limits: Limits) -> bool:
    """Make a stream that is not known; return False when another process was faster."""
    check_room_for_stream(session, job, limits)
    # Another process may make it at the same time: then this waits for its commit and does nothing.
    made: Any = session.execute(
        insert_into(session, StreamRow)
        .values(job=job, stream=stream)
        .on_conflict_do_nothing(index_elements=["job", "stream"])
    )
    return bool(made.rowcount)


def lock_known_stream(session: Session, job: str, stream: str) -> StreamRow:
    """Return a known stream for writing; others wait for the commit.

    Raises:
        StreamNotFoundError: when nothing is known of it.
    """
    # It may be deleted, and another one of its name made, both just now.
    while (found := session.scalars(_LOCKED, {"job": job, "stream": stream}).one_or_none()) is None:
        get_stream(session, job, stream)
    return found


def lock_by_id(session: Session, stream_id: int) -> StreamRow | None:
    """Return a stream for writing; None when it was deleted meanwhile, and nothing may be written for it.

    Its name may be another stream's then. Others wait for the commit.
    """
    row = session.scalars(_LOCKED_ID, {"stream": stream_id}).one_or_none()
    return None if row is None or row.deleted_us is not None else row


def add_event(
    session: Session,
    stream_id: int | None,
    at_us: int,
    *,
    kind: str,
    reason: str,
    before: str | None = None,
    after: str | None = None,
    reason_class: str | None = None,
    evidence: EventBasis | None = None,
    by: str | None = None,
) -> None:
    """Write down a change: what it was, why, who asked for it, and the value before and after.

    The same change for the same reason, directly after the one before, only adds to its count.

    Args:
        stream_id: the stream, locked; None for a change of the controller itself.
        at_us: when, in microseconds.
        reason_class: what the reason is an instance of; None when only the same words are the same reason.
        by: who asked for it; None for whoever sent the request.
    """
    by = by or current_actor()
    last = session.scalars(
        select(EventRow).where(EventRow.stream_id == stream_id).order_by(EventRow.id.desc()).limit(1)
    ).one_or_none()
    same_reason = last is not None and (
        last.reason == reason if reason_class is None else last.reason_class == reason_class
    )
    if (
        last is not None
        and same_reason
        and (last.kind, last.before, last.after, last.by) == (kind, before, after, by)
    ):
        last.count += 1
        last.last_us = at_us
        return
    session.add(
        EventRow(
            stream_id=stream_id,
            at_us=at_us,
            last_us=at_us,
            kind=kind,
            reason=reason,
            before=before,
            after=after,
            reason_class=reason_class,
            by=by,
            rollout_id=None if evidence is None else evidence.rollout_id,
            rows=None if evidence is None else evidence.rows,
            report_id=None if evidence is None else evidence.report_id,
        )
    )


def named_streams(dialect: str, *columns: Any) -> Select[Any]:
    """Return a query for the rows of named streams.

    SQLite uses no index for a list of pairs (``(job, stream) IN (VALUES ...)``), so the names are joined.

    Args:
        dialect: the database's, sqlite or postgresql.
    """
    named = given_rows(dialect, {"job": String(), "stream": String()})
    return select(*columns).join(
        named, and_(StreamRow.job == named.c.job, StreamRow.stream == named.c.stream)
    )


def names_given(dialect: str, names: Iterable[tuple[str, str]]) -> dict[str, Any]:
    """Return the parameters for the names of streams, each of job and stream."""
    pairs = list(names)
    return given(dialect, {"job": [job for job, _ in pairs], "stream": [stream for _, stream in pairs]})


def list_events(
    session: Session,
    before_id: int | None,
    limit: int,
    *,
    stream_id: int | None = None,
    kind: str | None = None,
    whole: bool = False,
) -> Sequence[tuple[EventRow, StreamRow | None]]:
    """Return up to ``limit`` events with their streams, the newest first.

    Args:
        before_id: only those with a smaller id; None for all.
        limit: how many.
        stream_id: only those of this stream; None for all.
        kind: only those of this kind; None for all.
        whole: those of the controller itself too, which have no stream.
    """
    wanted = select(EventRow, StreamRow).join(StreamRow, StreamRow.id == EventRow.stream_id, isouter=whole)
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
