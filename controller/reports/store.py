"""Stored reports: a list of them, the newest one, and the base that those before one make."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import ColumnElement, ScalarSelect, bindparam, func, select, tuple_, union_all
from sqlalchemy.orm import InstrumentedAttribute, Session, aliased

from tidemark.controller.base.db.tables import QueryRow, ReportBodyRow, ReportRow, StreamRow
from tidemark.controller.reports.stored_bodies import stored_json
from tidemark.models.evidence.ledger import effective_bound_ms
from tidemark.models.evidence.needs import late_base_ms

_BODIES_AT_ONCE = 50


def _newest_first(report: type[ReportRow]) -> tuple[ColumnElement[Any], ...]:
    return report.seen_us.desc(), report.batch_id.desc(), report.query_id.desc()


NEWEST_FIRST = _newest_first(ReportRow)
"""The order of reports in which the newest batch comes first."""


def newest_report(session: Session, stream_id: int) -> ReportRow | None:
    """Return the report of a stream's newest batch; None without any."""
    return session.scalars(_NEWEST, {"stream": stream_id}).one_or_none()


# Built once: building it takes longer than running it.
_NEWEST = select(ReportRow).where(ReportRow.stream_id == bindparam("stream")).order_by(*NEWEST_FIRST).limit(1)


def newest_report_query(until_us: int | None = None) -> ScalarSelect[int]:
    """Return the query for the id of that report, as a part of a statement on ``StreamRow``.

    Args:
        until_us: only batches up to then count, in microseconds; None for all.
    """
    report = aliased(ReportRow)
    wanted = select(report.id).where(report.stream_id == StreamRow.id)
    if until_us is not None:
        wanted = wanted.where(report.seen_us <= until_us)
    return wanted.order_by(*_newest_first(report)).limit(1).correlate(StreamRow).scalar_subquery()


def list_reports(
    session: Session, stream_id: int, before: tuple[int, int] | None, limit: int
) -> Sequence[ReportRow]:
    """Return up to ``limit`` reports of a stream, those of the newest batches first.

    Args:
        before: (``seen_us``, ``id``) of the report that the page before ended with; None for the first page.
        limit: how many.
    """
    wanted = select(ReportRow).where(ReportRow.stream_id == stream_id)
    if before is not None:
        wanted = wanted.where(tuple_(ReportRow.seen_us, ReportRow.id) < before)
    return session.scalars(wanted.order_by(ReportRow.seen_us.desc(), ReportRow.id.desc()).limit(limit)).all()


def list_bodies(
    session: Session, stream_id: int, before: tuple[int, int] | None, limit: int, max_bytes: int
) -> tuple[list[bytes], tuple[int, int] | None]:
    """Return reports as JSON, and where the page ended; None when it was the last.

    Args:
        before: (``seen_us``, ``id``) of the report that the page before ended with; None for the first page.
        limit: how many at most.
        max_bytes: how much JSON at most; one report is on the page whatever its size.
    """
    wanted = (
        select(ReportRow.seen_us, ReportRow.id, ReportBodyRow.body)
        .join(ReportBodyRow, ReportBodyRow.report_id == ReportRow.id)
        .where(ReportRow.stream_id == stream_id)
        .order_by(ReportRow.seen_us.desc(), ReportRow.id.desc())
        .limit(limit + 1)
    )
    if before is not None:
        wanted = wanted.where(tuple_(ReportRow.seen_us, ReportRow.id) < before)
    page: list[bytes] = []
    size, ended = 0, None
    with session.execute(wanted.execution_options(yield_per=_BODIES_AT_ONCE)) as rows:
        for seen_us, report_id, body in rows:
            content = stored_json(body)
            size += len(content)
            if page and (len(page) == limit or size > max_bytes):
                return page, ended
            page.append(content)
            ended = seen_us, report_id
    return page, None


def missing_ranges(
    session: Session, which: tuple[str, str], query_id: str, from_batch: int, limit: int
) -> list[tuple[int, int]]:
    """Return the batches of a query that were never received, between some that were, as ranges; ascending.

    A stream that is not known has none.

    Args:
        which: names of job and stream.
        from_batch: batches before this one are left out.
        limit: how many ranges, the newest ones.
    """
    job, stream = which
    of_query = (
        ReportRow.stream_id == select(StreamRow.id).filter_by(job=job, stream=stream).scalar_subquery(),
        ReportRow.query_id == query_id,
    )
    batch_id = ReportRow.batch_id
    # A gap may begin before.
    before = select(func.max(batch_id)).where(*of_query, batch_id < from_batch)
    batch = union_all(select(batch_id).where(*of_query, batch_id >= from_batch), before).subquery().c.batch_id
    pairs = select(func.lag(batch).over(order_by=batch).label("before"), batch.label("batch")).subquery().c
    gaps = (
        select(pairs.before + 1, pairs.batch - 1)
        .where(pairs.batch > from_batch, pairs.batch - pairs.before > 1)
        .order_by(pairs.batch.desc())
        .limit(limit)
    )
    return [(max(first, from_batch), last) for first, last in session.execute(gaps)][::-1]


def newest_report_id(session: Session, stream_id: int) -> int:
    """Return the id of the report stored last, 0 without any."""
    return session.scalars(select(func.max(ReportRow.id)).where(ReportRow.stream_id == stream_id)).one() or 0


def max_before_us(session: Session, stream_id: int, query_id: str, last_batch: int) -> int | None:
    """Return the maximum event time of a query's batches up to ``last_batch``, deleted ones too; None without any."""
    session.flush()
    parameters = {"stream": stream_id, "query": query_id, "last": last_batch}
    row = session.connection().execute(_MAX_EVENT_TIME, parameters).one_or_none()
    return None if row is None else with_deleted(*row, last_batch)


def max_up_to(
    stream_id: ColumnElement[int] | InstrumentedAttribute[int],
    query_id: ColumnElement[str] | InstrumentedAttribute[str],
    last_batch: ColumnElement[int],
) -> ScalarSelect[int | None]:
    """Return the SQL for the maximum event time of a query's stored batches up to a last one."""
    batch = aliased(ReportRow)
    return (
        select(batch.max_event_time_us)
        .where(
            batch.stream_id == stream_id,
            batch.query_id == query_id,
            batch.batch_id <= last_batch,
            batch.max_event_time_us.is_not(None),
        )
        .order_by(batch.max_event_time_us.desc())
        .limit(1)
        .scalar_subquery()
    )


_MAX_EVENT_TIME = select(
    max_up_to(bindparam("stream"), bindparam("query"), bindparam("last")),
    QueryRow.deleted_batch,
    QueryRow.deleted_max_event_time_us,
).where(QueryRow.stream_id == bindparam("stream"), QueryRow.query_id == bindparam("query"))


def with_deleted(
    stored: int | None, deleted_batch: int | None, deleted_max_us: int | None, last_batch: int
) -> int | None:
    """Return the greater of ``stored`` and the maximum of a query's deleted batches, if all of those came before.

    Args:
        stored: maximum event time of the stored batches, in microseconds.
        deleted_batch: highest id of the deleted ones; None without any.
        deleted_max_us: maximum event time of those, in microseconds.
        last_batch: highest id that counts.
    """
    if deleted_batch is None or deleted_batch > last_batch:
        return stored
    return max((time_us for time_us in (stored, deleted_max_us) if time_us is not None), default=None)


def base_before_ms(session: Session, report: ReportRow) -> int | None:
    """Return the base of all batches before ``report`` in its query, in milliseconds, as far as it is known."""
    stored = max_before_us(session, report.stream_id, report.query_id, report.batch_id - 1)
    return late_base_ms(report.late_base_ms, stored)


def effective_bound_of(session: Session, report: ReportRow) -> int | None:
    """Return the bound that was really in effect in a batch, in milliseconds; None when it is not known."""
    return effective_bound_ms(base_before_ms(session, report), report.watermark_ms)
