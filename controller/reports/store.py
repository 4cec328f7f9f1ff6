"""Reports as they are stored: listed, and one at a time."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import select, tuple_
from sqlalchemy.orm import Session

from tidemark.controller.db.tables import ReportBodyRow, ReportRow, StreamRow
from tidemark.controller.errors import ReportNotFoundError
from tidemark.controller.intake.stored_bodies import stored_report
from tidemark.models.wire import Report

__all__ = ["body_of", "get_report", "list_reports"]


def list_reports(
    session: Session, stream_id: int, before: tuple[int, int] | None, limit: int
) -> Sequence[ReportRow]:
    """Return up to ``limit`` reports of a stream, those of the newest batches first.

    Args:
        session: the session.
        stream_id: the stream.
        before: (``seen_us``, ``id``) of the report that the page before ended with; None for the first page.
        limit: how many.
    """
    wanted = select(ReportRow).where(ReportRow.stream_id == stream_id)
    if before is not None:
        wanted = wanted.where(tuple_(ReportRow.seen_us, ReportRow.id) < before)
    return session.scalars(wanted.order_by(ReportRow.seen_us.desc(), ReportRow.id.desc()).limit(limit)).all()


def get_report(session: Session, stream: StreamRow, query_id: str, batch_id: int) -> ReportRow:
    """Return the report of one batch.

    Raises:
        ReportNotFoundError: when there is none.
    """
    found = session.scalars(
        select(ReportRow).where(
            ReportRow.stream_id == stream.id, ReportRow.query_id == query_id, ReportRow.batch_id == batch_id
        )
    ).one_or_none()
    if found is None:
        raise ReportNotFoundError(
            f"no report of batch {batch_id} of query {query_id!r} is kept for stream {stream.stream!r} of job "
            f"{stream.job!r}; the list of reports has those there are"
        )
    return found


def body_of(session: Session, report: ReportRow) -> Report | None:
    """Return a report as it was sent; None when its body is not kept any more."""
    row = session.get(ReportBodyRow, report.id)
    return None if row is None else stored_report(row.body)
