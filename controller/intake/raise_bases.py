"""Corrects needs that were counted against too low a base: an earlier batch came late and raised it."""

from __future__ import annotations

from sqlalchemy import or_, select
from sqlalchemy.orm import Session

from tidemark.controller.db.tables import ReportBodyRow, ReportRow
from tidemark.controller.evidence.hourly_sums import move_in_hours
from tidemark.controller.evidence.needs import move_needs
from tidemark.controller.intake.stored_bodies import stored_report
from tidemark.controller.intake.stored_facts import StoredFacts
from tidemark.models.evidence.needs import needs_against
from tidemark.models.protocol.messages import Report


def raise_later_bases(
    session: Session, stream_id: int, report: Report, max_ms: int, known: StoredFacts
) -> None:
    """Count the needs of stored batches that follow ``report`` again where their base was below its maximum.

    A report whose body is deleted keeps the needs that it was counted with.

    Args:
        session: the session; the stream is locked.
        stream_id: the stream.
        report: the report, which is stored.
        max_ms: its maximum event time in milliseconds.
        known: what the store knew about its stream before.
    """
    levels = known.levels
    too_low = session.execute(
        select(ReportRow, ReportBodyRow.body)
        .join(ReportBodyRow, ReportBodyRow.report_id == ReportRow.id)
        .where(
            ReportRow.stream_id == stream_id,
            ReportRow.query_id == report.query_id,
            ReportRow.batch_id >= report.batch_id + 2,
            or_(ReportRow.need_base_ms.is_(None), ReportRow.need_base_ms < max_ms),
        )
        .order_by(ReportRow.id)
    ).all()
    for row, body in too_low:
        stored = stored_report(body)
        before, after = needs_against(stored, row.need_base_ms), needs_against(stored, max_ms)
        if row.seen_us < levels.hours_until_us:
            move_in_hours(session, row, before, after)
        move_needs(session, row, levels, before, after, split=row.id <= known.split_report_id)
        row.need_base_ms = max_ms
        row.need_pairs, row.need_unknown_rows, row.early_rows = (
            after.pairs,
            after.unknown_rows,
            after.early_rows,
        )
        row.misdated_rows, row.misdated_late = after.misdated_rows, after.misdated_late
