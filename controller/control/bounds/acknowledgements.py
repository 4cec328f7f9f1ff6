"""Acknowledgements: which bound a run of a job applied, what that decides downstream, and what becomes of late rows.

What the newest one says of the last two, and of what is read and written, is kept in the stream's row: every decision
reads that anyway.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from sqlalchemy import ScalarSelect, bindparam, select, tuple_
from sqlalchemy.orm import Session, aliased

from tidemark.controller.base.db.tables import AcknowledgementRow, ReportRow, StreamRow
from tidemark.controller.reports.stored_bodies import canonical_json, fingerprint
from tidemark.controller.reports.take_reports import StoredReceipt
from tidemark.models.protocol.downstream import Downstream
from tidemark.models.protocol.messages import Acknowledgement


def take_acknowledgement(
    session: Session, stream_id: int, acknowledgement: Acknowledgement, now_us: int
) -> StoredReceipt:
    """Store an acknowledgement of a locked stream, once.

    Nothing was applied after it was said: a driver's clock that is ahead would outrank every later run.
    """
    digest = fingerprint(canonical_json(acknowledgement))
    before = session.scalars(
        select(AcknowledgementRow.received_us).where(
            AcknowledgementRow.stream_id == stream_id, AcknowledgementRow.fingerprint == digest
        )
    ).one_or_none()
    if before is not None:
        return StoredReceipt(before, duplicate=True)
    applied_us = min(acknowledgement.applied_us, now_us)
    last = last_acknowledgement(session, stream_id)
    if last is None or last.applied_us <= applied_us:
        stream = session.get_one(StreamRow, stream_id)
        stream.downstream, stream.late = acknowledgement.downstream, acknowledgement.late
        stream.datasets = acknowledgement.datasets
    values = asdict(acknowledgement) | {"applied_us": applied_us}
    del values["downstream"], values["late"], values["datasets"]
    session.add(AcknowledgementRow(stream_id=stream_id, received_us=now_us, fingerprint=digest, **values))
    return StoredReceipt(now_us, duplicate=False)


def last_acknowledgement(session: Session, stream_id: int) -> AcknowledgementRow | None:
    """Return the acknowledgement of the run that applied its bound last, None without any."""
    return next(iter(list_acknowledgements(session, stream_id, None, 1)), None)


def newest_acknowledgement_query() -> ScalarSelect[int]:
    """Return the query for the id of that acknowledgement, as a part of a statement on ``StreamRow``."""
    row = aliased(AcknowledgementRow)
    return (
        select(row.id)
        .where(row.stream_id == StreamRow.id)
        .order_by(row.applied_us.desc(), row.id.desc())
        .limit(1)
        .correlate(StreamRow)
        .scalar_subquery()
    )


def list_acknowledgements(
    session: Session, stream_id: int, before: tuple[int, int] | None, limit: int
) -> Sequence[AcknowledgementRow]:
    """Return up to ``limit`` acknowledgements, the last applied first.

    Args:
        before: (``applied_us``, ``id``) of the last one on the previous page; None for the first page.
    """
    table = AcknowledgementRow
    query = select(table).where(table.stream_id == stream_id)
    if before is not None:
        query = query.where(tuple_(table.applied_us, table.id) < before)
    return session.scalars(query.order_by(table.applied_us.desc(), table.id.desc()).limit(limit)).all()


def own_bound_ms(session: Session, stream_id: int) -> int | None:
    """Return the job's own bound in milliseconds, as it last ran with it; None when it is not known."""
    connection, of_stream = session.connection(), {"stream": stream_id}
    own_ms: int | None = connection.execute(_OWN_ACKNOWLEDGED, of_stream).scalar_one_or_none()
    return own_ms if own_ms is not None else connection.execute(_OWN_REPORTED, of_stream).scalar_one_or_none()


# Built once: building them takes longer than running them.
_OWN_ACKNOWLEDGED = (
    select(AcknowledgementRow.bound_ms)
    .where(AcknowledgementRow.stream_id == bindparam("stream"), AcknowledgementRow.generation.is_(None))
    .order_by(AcknowledgementRow.applied_us.desc(), AcknowledgementRow.id.desc())
    .limit(1)
)
_OWN_REPORTED = (
    select(ReportRow.bound_ms)
    .where(ReportRow.stream_id == bindparam("stream"), ReportRow.generation.is_(None))
    .order_by(ReportRow.seen_us.desc())
    .limit(1)
)


def read_downstream(session: Session, stream_id: int) -> Downstream | None:
    """Return what a stream's bound decides behind its own operator; None when nothing, or when that is not known."""
    return session.get_one(StreamRow, stream_id).downstream
