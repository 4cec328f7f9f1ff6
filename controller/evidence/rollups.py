"""Rolls up and deletes old data in small steps, each one transaction under the stream's lock.

A step moves counts together with the mark that says where they are. So it happens completely or not at all, and any
process may take the next one. Ages are measured from the stream's newest batch, not the clock, so that a silent stream
keeps its evidence; and since its time may be wrong, from ``RollupRow.aged_us``, which follows it by a day at most.
"""

from __future__ import annotations

from collections.abc import Callable

from sqlalchemy import ColumnElement, bindparam, delete, func, select
from sqlalchemy.orm import InstrumentedAttribute, Session

from tidemark.controller.db.statements import insert_into
from tidemark.controller.db.tables import (
    EventRow,
    LedgerKeyRow,
    NeedSketchRow,
    NeedSlotRow,
    QueryRow,
    ReportBodyRow,
    ReportHourRow,
    ReportRow,
    RollupRow,
    StreamRow,
)
from tidemark.controller.evidence.blocks import TEN_MINUTES_US, forget_blocks, make_block, renew_block
from tidemark.controller.evidence.hourly_sums import add_to_hours
from tidemark.controller.evidence.partition_sums import slide_sums
from tidemark.controller.evidence.series import forget_series
from tidemark.controller.intake.count_waiting import MANY_REPORTS, count_waiting
from tidemark.controller.intake.report_counts import ReportCountsCache
from tidemark.controller.specs.store import horizon_ms_of, share_ppm_of
from tidemark.models.base.granules import SPARK_TICK_US
from tidemark.models.evidence.horizon import horizon_from_us
from tidemark.models.evidence.sketch import Sketch
from tidemark.models.evidence.slots import DAY_US, HOUR_US, SLOT_US, Retention, edge_us, merge_all

_MAX_REPORTS = 500
"""Reports and events that one step deletes."""

_MAX_ROWS = 20_000
"""Rows of the ledger that one step deletes."""

_COUNTED_AFTER_US = 2 * SLOT_US
"""Time after which a report is normally counted by partition, in microseconds."""

Step = Callable[[Session, RollupRow, int, Retention], bool]
"""Takes one step for the stream of a locked roll-up, given its time; False: nothing to do."""


def locked_rollup(session: Session, stream_id: int) -> tuple[RollupRow, int] | None:
    """Lock a stream and return how far it is rolled up, and when its newest batch was seen.

    Returns None without reports, or when it was deleted meanwhile.
    """
    session.flush()
    stream = session.connection().execute(_LOCKED, {"stream": stream_id}).one_or_none()
    if stream is None or stream.deleted_us is not None:
        return None
    found = session.execute(_HELD, {"stream": stream_id}).one()
    if found[0] is None:
        return None
    newest_us: int = found[0]
    rollup: RollupRow | None = found[1]
    if rollup is None:
        rollup = RollupRow(
            stream_id=stream_id,
            hours_until_us=0,
            days_until_us=0,
            split_report_id=0,
            needs_from_us=0,
            reports_from_us=0,
            bodies_from_us=0,
            # A day or more of reports before the first upkeep ages step by step too.
            aged_us=session.scalars(
                select(func.min(ReportRow.seen_us)).where(ReportRow.stream_id == stream_id)
            ).one(),
        )
        session.add(rollup)
        session.flush()
    return rollup, newest_us


# Built once: building them takes longer than running them.
_LOCKED = select(StreamRow.deleted_us).where(StreamRow.id == bindparam("stream")).with_for_update()
_HELD = (
    select(
        select(func.max(ReportRow.seen_us))
        .where(ReportRow.stream_id == StreamRow.id)
        .correlate(StreamRow)
        .scalar_subquery(),
        RollupRow,
    )
    .select_from(StreamRow)
    .outerjoin(RollupRow, RollupRow.stream_id == StreamRow.id)
    .where(StreamRow.id == bindparam("stream"))
)


def count_partitions(session: Session, rollup: RollupRow, newest_us: int, cache: ReportCountsCache) -> bool:
    """Count waiting reports by partition, once their minute is over or many wait."""
    waiting = session.execute(
        select(func.count(), func.min(ReportRow.seen_us)).where(
            ReportRow.stream_id == rollup.stream_id, ReportRow.id > rollup.split_report_id
        )
    ).one()
    if not waiting[0] or (waiting[0] < MANY_REPORTS and waiting[1] >= edge_us(newest_us, SLOT_US) - SLOT_US):
        return False
    count_waiting(session, rollup, cache)
    return True


def move_horizon(session: Session, rollup: RollupRow, newest_us: int, _: Retention) -> bool:
    """Move the start of the partitions' running sum to the start of the horizon."""
    from_us = horizon_from_us(newest_us, horizon_ms_of(session, rollup.stream_id))
    return slide_sums(session, rollup.stream_id, from_us)


def _make_blocks(session: Session, rollup: RollupRow, newest_us: int, _: Retention) -> bool:
    """Make the next block, once its span is over and its reports are counted."""
    share_ppm = share_ppm_of(session, rollup.stream_id)
    until_us = newest_us - _COUNTED_AFTER_US
    return any(
        make_block(session, rollup, width_us, until_us, share_ppm)
        for width_us in (TEN_MINUTES_US, HOUR_US, DAY_US)
    )


def _renew_blocks(session: Session, rollup: RollupRow, _: int, __: Retention) -> bool:
    """Remake the next block whose share is not the current target."""
    return renew_block(session, rollup.stream_id, share_ppm_of(session, rollup.stream_id))


def _roll_hour(session: Session, rollup: RollupRow, newest_us: int, retention: Retention) -> bool:
    """Roll the next hour of minutes up into one slot, and sum its reports."""
    first_us: int | None = session.scalars(
        select(func.min(ReportRow.seen_us)).where(
            ReportRow.stream_id == rollup.stream_id, ReportRow.seen_us >= rollup.hours_until_us
        )
    ).one()
    if first_us is None:
        return False
    hour_us = edge_us(first_us, HOUR_US)
    if hour_us + HOUR_US > newest_us - retention.minutes_us:
        return False
    _widen(session, rollup.stream_id, hour_us, HOUR_US)
    add_to_hours(
        session,
        session.scalars(
            select(ReportRow)
            .where(
                ReportRow.stream_id == rollup.stream_id,
                ReportRow.seen_us >= hour_us,
                ReportRow.seen_us < hour_us + HOUR_US,
            )
            .order_by(ReportRow.id)
        ),
    )
    rollup.hours_until_us = hour_us + HOUR_US
    forget_series(session, rollup.stream_id, SLOT_US, rollup.hours_until_us)
    forget_blocks(session, rollup.stream_id, TEN_MINUTES_US, rollup.hours_until_us)
    return True


def _roll_day(session: Session, rollup: RollupRow, newest_us: int, retention: Retention) -> bool:
    """Roll the next day of hours up into one slot."""
    first_us: int | None = session.scalars(
        select(func.min(NeedSlotRow.slot_us)).where(
            NeedSlotRow.stream_id == rollup.stream_id,
            NeedSlotRow.slot_us >= rollup.days_until_us,
            NeedSlotRow.slot_us < rollup.hours_until_us,
        )
    ).one()
    if first_us is None:
        return False
    day_us = edge_us(first_us, DAY_US)
    if day_us + DAY_US > min(newest_us - retention.hours_us, rollup.hours_until_us):
        return False
    _widen(session, rollup.stream_id, day_us, DAY_US)
    rollup.days_until_us = day_us + DAY_US
    forget_blocks(session, rollup.stream_id, HOUR_US, rollup.days_until_us)
    return True


def _forget_bodies(session: Session, rollup: RollupRow, newest_us: int, retention: Retention) -> bool:
    """Delete bodies of old reports, which are counted everywhere by then."""
    until_us = newest_us - retention.bodies_us
    ids = session.scalars(
        select(ReportRow.id)
        .join(ReportBodyRow, ReportBodyRow.report_id == ReportRow.id)
        .where(
            ReportRow.stream_id == rollup.stream_id,
            ReportRow.seen_us < until_us,
            # Older bodies are deleted already, except of late reports; those go with their facts.
            ReportRow.seen_us >= rollup.bodies_from_us - DAY_US,
            ReportRow.id <= rollup.split_report_id,
        )
        .order_by(ReportRow.seen_us)
        .limit(_MAX_REPORTS)
    ).all()
    if not ids:
        rollup.bodies_from_us = max(rollup.bodies_from_us, until_us)
        return False
    session.execute(delete(ReportBodyRow).where(ReportBodyRow.report_id.in_(ids)))
    return True


def _forget_reports(session: Session, rollup: RollupRow, newest_us: int, retention: Retention) -> bool:
    """Delete facts of old reports; later reports of that time are rejected, since they could be repeats."""
    until_us = min(newest_us - retention.reports_us, rollup.hours_until_us)
    rows = session.execute(
        select(ReportRow.id, ReportRow.query_id, ReportRow.batch_id, ReportRow.max_event_time_us)
        .where(
            ReportRow.stream_id == rollup.stream_id,
            ReportRow.seen_us < until_us,
            # Also by the batch's start, by which repeats are recognised.
            ReportRow.started_us < until_us,
            ReportRow.id <= rollup.split_report_id,
        )
        .order_by(ReportRow.seen_us)
        .limit(_MAX_REPORTS)
    ).all()
    if not rows:
        return False
    rollup.reports_from_us = max(rollup.reports_from_us, until_us)
    for row in rows:
        query = session.get_one(QueryRow, (rollup.stream_id, row.query_id))
        query.gone_batch = max(row.batch_id, query.gone_batch or 0)
        if row.max_event_time_us is not None:
            before = query.gone_max_event_time_us
            query.gone_max_event_time_us = max(
                row.max_event_time_us, row.max_event_time_us if before is None else before
            )
    ids = [row.id for row in rows]
    session.execute(delete(ReportBodyRow).where(ReportBodyRow.report_id.in_(ids)))
    session.execute(delete(ReportRow).where(ReportRow.id.in_(ids)))
    return True


def _forget_ledger(session: Session, rollup: RollupRow, newest_us: int, retention: Retention) -> bool:
    """Delete keys of the ledger that no stored batch can still emit and that are past their retention."""
    oldest = session.scalars(
        select(ReportRow.watermark_ms)
        .where(ReportRow.stream_id == rollup.stream_id)
        .order_by(ReportRow.seen_us)
        .limit(1)
    ).one()
    until_us = min(newest_us - retention.ledger_us, oldest * SPARK_TICK_US)
    key_us, of_stream = LedgerKeyRow.key_us, LedgerKeyRow.stream_id == rollup.stream_id
    last_us = session.scalars(
        select(key_us).where(of_stream, key_us < until_us).order_by(key_us).offset(_MAX_ROWS).limit(1)
    ).one_or_none()
    until_us = until_us if last_us is None else last_us + 1
    if not _count(session.execute(delete(LedgerKeyRow).where(of_stream, key_us < until_us))):
        return False
    rollup.ledger_from_us = max(
        until_us, until_us if rollup.ledger_from_us is None else rollup.ledger_from_us
    )
    return True


def _forget_needs(session: Session, rollup: RollupRow, newest_us: int, retention: Retention) -> bool:
    """Delete needs and sums of the oldest days."""
    until_us = edge_us(newest_us - retention.days_us, DAY_US)
    until_us = min(until_us, rollup.days_until_us)
    if until_us <= rollup.needs_from_us:
        return False
    tables: list[tuple[type[NeedSlotRow | NeedSketchRow | ReportHourRow], ColumnElement[bool]]] = [
        (NeedSlotRow, _before(NeedSlotRow.stream_id, NeedSlotRow.slot_us, rollup, until_us)),
        (NeedSketchRow, _before(NeedSketchRow.stream_id, NeedSketchRow.slot_us, rollup, until_us)),
        (ReportHourRow, _before(ReportHourRow.stream_id, ReportHourRow.slot_us, rollup, until_us)),
    ]
    for table, old in tables:
        session.execute(delete(table).where(old))
    forget_series(session, rollup.stream_id, HOUR_US, until_us)
    forget_blocks(session, rollup.stream_id, DAY_US, until_us)
    rollup.needs_from_us = until_us
    return True


def _forget_events(session: Session, rollup: RollupRow, newest_us: int, retention: Retention) -> bool:
    """Delete old events."""
    ids = session.scalars(
        select(EventRow.id)
        .where(EventRow.stream_id == rollup.stream_id, EventRow.at_us < newest_us - retention.events_us)
        .order_by(EventRow.id)
        .limit(_MAX_REPORTS)
    ).all()
    if not ids:
        return False
    session.execute(delete(EventRow).where(EventRow.id.in_(ids)))
    return True


SUMMING_STEPS: tuple[Step, ...] = (move_horizon, _make_blocks)
"""The steps that sum up; they are given the time of the newest batch."""

AGEING_STEPS: tuple[Step, ...] = (
    _roll_hour,
    _roll_day,
    _forget_bodies,
    _forget_reports,
    _forget_ledger,
    _forget_needs,
    _forget_events,
    _renew_blocks,
)
"""The steps after them, ordered so that each finds what the earlier ones prepare; they are given ``aged_us``."""


def _widen(session: Session, stream_id: int, from_us: int, width_us: int) -> None:
    """Merge all slots in the ``width_us`` from ``from_us`` on into one."""
    slots = session.scalars(
        select(NeedSlotRow).where(
            NeedSlotRow.stream_id == stream_id,
            NeedSlotRow.slot_us >= from_us,
            NeedSlotRow.slot_us < from_us + width_us,
        )
    ).all()
    if slots:
        merged = merge_all(Sketch.from_bytes(slot.sketch) for slot in slots)
        for slot in slots:
            session.delete(slot)
        session.flush()
        session.add(
            NeedSlotRow(
                stream_id=stream_id,
                slot_us=from_us,
                sketch=merged.to_bytes(),
                width_us=width_us,
            )
        )
    of_span = (
        NeedSketchRow.stream_id == stream_id,
        NeedSketchRow.slot_us >= from_us,
        NeedSketchRow.slot_us < from_us + width_us,
    )
    found: dict[str, list[Sketch]] = {}
    for name, data in session.execute(select(NeedSketchRow.partition, NeedSketchRow.sketch).where(*of_span)):
        found.setdefault(name, []).append(Sketch.from_bytes(data))
    session.execute(delete(NeedSketchRow).where(*of_span))
    if found:
        session.execute(
            insert_into(session, NeedSketchRow),
            [
                {
                    "stream_id": stream_id,
                    "slot_us": from_us,
                    "partition": name,
                    "sketch": merge_all(sketches).to_bytes(),
                    "width_us": width_us,
                }
                for name, sketches in sorted(found.items())
            ],
        )


def _before(
    stream_id: InstrumentedAttribute[int],
    slot_us: InstrumentedAttribute[int],
    rollup: RollupRow,
    until_us: int,
) -> ColumnElement[bool]:
    return (stream_id == rollup.stream_id) & (slot_us < until_us)


def _count(result: object) -> int:
    count: int = result.rowcount  # type: ignore[attr-defined]  # a deletion has it
    return count
