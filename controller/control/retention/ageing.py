"""Deletes old data in small steps, each one transaction under the stream's lock.

Ages are measured from the stream's newest batch, not the clock, so that a silent stream keeps its evidence; and since
its time may be wrong, from ``OffsetRow.aged_us``, which follows it by a day at most.
"""

from __future__ import annotations

from collections.abc import Callable

from sqlalchemy import delete, func, select
from sqlalchemy.orm import Session

from tidemark.controller.base.db.tables import (
    EventRow,
    LedgerKeyRow,
    OffsetRow,
    QueryRow,
    ReportBodyRow,
    ReportRow,
    RollupRow,
    WindowAgeRow,
)
from tidemark.controller.control.retention.history import delete_some
from tidemark.controller.evidence.roll_up import forget_rollups
from tidemark.controller.evidence.rollups import TEN_MINUTES_US
from tidemark.controller.evidence.window_ages import kept_from_us
from tidemark.controller.reports.store import newest_report
from tidemark.models.base.granules import SPARK_TICK_US
from tidemark.models.evidence.slots import DAY_US, HOUR_US, SLOT_US, Retention, edge_us

_MAX_REPORTS = 500
"""Reports that one step deletes."""

_MAX_ROWS = 20_000
"""Rows of the ledger that one step deletes."""

Step = Callable[[Session, OffsetRow, int, Retention], bool]
"""Takes one step for the stream of a locked offset, given ``OffsetRow.aged_us``; False: nothing to do."""


def _forget_minutes(session: Session, offset: OffsetRow, now_us: int, retention: Retention) -> bool:
    """Delete the minutes of the next old hour."""
    first_us = _first(session, offset, SLOT_US, offset.hours_until_us)
    if first_us is None:
        return False
    until_us = edge_us(first_us, HOUR_US) + HOUR_US
    if until_us > now_us - retention.minutes_us:
        return False
    widths = (SLOT_US, TEN_MINUTES_US)
    forget_rollups(session, offset.stream_id, widths, edge_us(first_us, HOUR_US), until_us)
    offset.hours_until_us = until_us
    return True


def _forget_hours(session: Session, offset: OffsetRow, now_us: int, retention: Retention) -> bool:
    """Delete the hours of the next old day."""
    first_us = _first(session, offset, HOUR_US, offset.days_until_us)
    if first_us is None:
        return False
    day_us = edge_us(first_us, DAY_US)
    if day_us + DAY_US > min(now_us - retention.hours_us, offset.hours_until_us):
        return False
    forget_rollups(session, offset.stream_id, (HOUR_US,), day_us, day_us + DAY_US)
    offset.days_until_us = day_us + DAY_US
    return True


def _forget_days(session: Session, offset: OffsetRow, now_us: int, retention: Retention) -> bool:
    """Delete the oldest days."""
    until_us = min(edge_us(now_us - retention.days_us, DAY_US), offset.days_until_us)
    if until_us <= offset.rollups_from_us:
        return False
    forget_rollups(session, offset.stream_id, (DAY_US,), 0, until_us)
    offset.rollups_from_us = until_us
    return True


def _first(session: Session, offset: OffsetRow, width_us: int, from_us: int) -> int | None:
    return session.scalars(
        select(func.min(RollupRow.slot_us)).where(
            RollupRow.stream_id == offset.stream_id,
            RollupRow.width_us == width_us,
            RollupRow.slot_us >= from_us,
        )
    ).one()


def _forget_bodies(session: Session, offset: OffsetRow, now_us: int, retention: Retention) -> bool:
    """Delete bodies of old reports; what follows from them is in the rollups by then."""
    until_us = now_us - retention.bodies_us
    ids = session.scalars(
        select(ReportRow.id)
        .join(ReportBodyRow, ReportBodyRow.report_id == ReportRow.id)
        .where(
            ReportRow.stream_id == offset.stream_id,
            ReportRow.seen_us < until_us,
            # Older bodies are deleted already, except of late reports; those go with their facts.
            ReportRow.seen_us >= offset.bodies_from_us - DAY_US,
            ReportRow.id <= offset.last_report_id,
        )
        .order_by(ReportRow.seen_us)
        .limit(_MAX_REPORTS)
    ).all()
    if not ids:
        offset.bodies_from_us = max(offset.bodies_from_us, until_us)
        return False
    session.execute(delete(ReportBodyRow).where(ReportBodyRow.report_id.in_(ids)))
    return True


def _forget_reports(session: Session, offset: OffsetRow, now_us: int, retention: Retention) -> bool:
    """Delete facts of old reports; later reports of that time are rejected, since they could be repeats."""
    until_us = now_us - retention.reports_us
    rows = session.execute(
        select(ReportRow.id, ReportRow.query_id, ReportRow.batch_id, ReportRow.max_event_time_us)
        .where(
            ReportRow.stream_id == offset.stream_id,
            ReportRow.seen_us < until_us,
            # Also by the batch's start, by which repeats are recognised.
            ReportRow.started_us < until_us,
            ReportRow.id <= offset.last_report_id,
        )
        .order_by(ReportRow.seen_us)
        .limit(_MAX_REPORTS)
    ).all()
    if not rows:
        return False
    offset.reports_from_us = max(offset.reports_from_us, until_us)
    for row in rows:
        query = session.get_one(QueryRow, (offset.stream_id, row.query_id))
        query.deleted_batch = max(row.batch_id, query.deleted_batch or 0)
        if row.max_event_time_us is not None:
            before = query.deleted_max_event_time_us
            query.deleted_max_event_time_us = max(
                row.max_event_time_us, row.max_event_time_us if before is None else before
            )
    ids = [row.id for row in rows]
    session.execute(delete(ReportBodyRow).where(ReportBodyRow.report_id.in_(ids)))
    session.execute(delete(ReportRow).where(ReportRow.id.in_(ids)))
    return True


def _forget_ledger(session: Session, offset: OffsetRow, now_us: int, retention: Retention) -> bool:
    """Delete keys of the ledger that no stored batch can still emit and that are past their retention."""
    oldest = session.scalars(
        select(ReportRow.watermark_ms)
        .where(ReportRow.stream_id == offset.stream_id)
        .order_by(ReportRow.seen_us)
        .limit(1)
    ).one()
    until_us = min(now_us - retention.ledger_us, oldest * SPARK_TICK_US)
    key_us, of_stream = LedgerKeyRow.key_us, LedgerKeyRow.stream_id == offset.stream_id
    last_us = session.scalars(
        select(key_us).where(of_stream, key_us < until_us).order_by(key_us).offset(_MAX_ROWS).limit(1)
    ).one_or_none()
    until_us = until_us if last_us is None else last_us + 1
    if not _count(session.execute(delete(LedgerKeyRow).where(of_stream, key_us < until_us))):
        return False
    offset.ledger_from_us = max(
        until_us, until_us if offset.ledger_from_us is None else offset.ledger_from_us
    )
    return True


def _forget_ages(session: Session, offset: OffsetRow, _now_us: int, _retention: Retention) -> bool:
    """Delete the ages of windows that are too old to tell of new ones."""
    newest = newest_report(session, offset.stream_id)
    if newest is None:
        return False
    # By what all clocks agree on, as the watermark follows it.
    until_us = kept_from_us(newest.operator, newest.watermark_ms * SPARK_TICK_US)
    which = WindowAgeRow.stream_id == offset.stream_id, WindowAgeRow.key_us < until_us
    return bool(_count(session.execute(delete(WindowAgeRow).where(*which))))


def _forget_events(session: Session, offset: OffsetRow, now_us: int, retention: Retention) -> bool:
    """Delete old events."""
    which = EventRow.stream_id == offset.stream_id, EventRow.at_us < now_us - retention.events_us
    return delete_some(session, EventRow, *which)


AGEING_STEPS: tuple[Step, ...] = (
    _forget_minutes,
    _forget_hours,
    _forget_bodies,
    _forget_reports,
    _forget_ledger,
    _forget_ages,
    _forget_days,
    _forget_events,
)
"""The steps, ordered so that each finds what the earlier ones prepare."""


def _count(result: object) -> int:
    count: int = result.rowcount  # type: ignore[attr-defined]  # a deletion has it
    return count
