"""Deletes a bounded number of rows, so that no transaction holds the store's one writer for long."""

from __future__ import annotations

from typing import cast

from sqlalchemy import ColumnElement, Table, delete, func, or_, select, tuple_
from sqlalchemy.orm import Session, aliased

from tidemark.controller.base.db.tables import (
    AcknowledgementRow,
    Base,
    FailedBoundRow,
    LateSlotRow,
    LateStepRow,
    OffsetRow,
    PredictionRow,
    PublishedRow,
    QueryRow,
    ReportRow,
    RolloutRow,
    StreamRow,
)
from tidemark.controller.control.bounds.publication import last_published
from tidemark.controller.control.rollout.store import open_rollout, rollout_in_force
from tidemark.controller.evidence.rollups import Span, rollups_in
from tidemark.controller.reports.partitions import forget_partitions
from tidemark.controller.reports.store import newest_report
from tidemark.models.evidence.slots import Retention

MAX_ROWS = 2_000
"""How many rows one step deletes at most."""


def delete_some(
    session: Session, rows: type[Base] | Table, *which: ColumnElement[bool], limit: int = MAX_ROWS
) -> bool:
    """Delete up to ``limit`` rows that ``which`` picks, without loading them; return False when there were none."""
    table = rows if isinstance(rows, Table) else cast("Table", rows.__table__)
    key = table.primary_key.columns.values()
    # A row value of one column is no row value on SQLite.
    named = tuple_(*key) if len(key) > 1 else key[0]
    some = select(*key).where(*which).limit(limit)
    deleted = session.execute(
        delete(table).where(named.in_(some)), execution_options={"synchronize_session": False}
    )
    count: int = deleted.rowcount  # type: ignore[attr-defined]  # a deletion has it
    return count > 0


def _forget_bounds(session: Session, offset: OffsetRow, now_us: int, retention: Retention) -> bool:
    """Delete bounds that were replaced long ago, and what was predicted for them."""
    stream_id, until_us = offset.stream_id, now_us - retention.history_us
    newest, running = newest_report(session, stream_id), open_rollout(session, stream_id)
    # The one that was in force when the time that is kept begins is the first of it.
    first: int | None = session.scalars(
        select(func.max(PublishedRow.generation)).where(
            PublishedRow.stream_id == stream_id, PublishedRow.published_us < until_us
        )
    ).one()
    if first is None:
        return False
    published = (last_published(session, stream_id), last_published(session, stream_id, pinned=False))
    kept = [
        first,
        *(None if row is None else row.generation for row in published),
        # A job may still run with an old one.
        None if newest is None else newest.generation,
        None if running is None else running.generation,
    ]
    # The status compares the newest one with the one before it.
    before = min(number for number in kept if number is not None) - 1
    tables: tuple[type[PredictionRow | PublishedRow], ...] = (PredictionRow, PublishedRow)
    return any(
        delete_some(session, row, row.stream_id == stream_id, row.generation < before) for row in tables
    )


def _forget_rollouts(session: Session, offset: OffsetRow, now_us: int, retention: Retention) -> bool:
    """Delete rollouts that ended long ago and that no later decision follows from."""
    stream_id = offset.stream_id
    unpinned = last_published(session, stream_id, pinned=False)
    in_force = rollout_in_force(session, unpinned)
    decided = (RolloutRow.stream_id == stream_id, RolloutRow.cause == "Decision")
    kept = {
        _newest(session, RolloutRow.stream_id == stream_id),
        _newest(session, *decided, RolloutRow.published_us.is_not(None)),
        _newest(session, *decided, RolloutRow.direction == "Narrow", RolloutRow.state == "Verified"),
        None if in_force is None else in_force.id,
        None if unpinned is None else unpinned.rollout_id,
    }
    answered_us: int | None = session.scalars(
        select(func.max(AcknowledgementRow.received_us)).where(AcknowledgementRow.stream_id == stream_id)
    ).one()
    answered = or_(
        RolloutRow.published_us.is_(None),
        RolloutRow.acknowledged_us.is_not(None),
        RolloutRow.published_us <= (answered_us or 0),
    )
    return delete_some(
        session,
        RolloutRow,
        RolloutRow.stream_id == stream_id,
        RolloutRow.ended_us < now_us - retention.history_us,
        RolloutRow.vetoed.is_(False),
        answered,
        RolloutRow.id.not_in([number for number in kept if number is not None]),
    )


def _forget_failures(session: Session, offset: OffsetRow, now_us: int, retention: Retention) -> bool:
    """Delete failed bounds that may be tried again since long ago."""
    return delete_some(
        session,
        FailedBoundRow,
        FailedBoundRow.stream_id == offset.stream_id,
        FailedBoundRow.until_us < now_us - retention.history_us,
    )


def _forget_acknowledgements(session: Session, offset: OffsetRow, now_us: int, retention: Retention) -> bool:
    """Delete old acknowledgements, but neither the last one of a query nor that of the job's own bound."""
    ack, later = AcknowledgementRow, aliased(AcknowledgementRow)
    running = open_rollout(session, offset.stream_id)
    until_us = now_us - retention.history_us
    if running is not None:
        # One of these may be its own, which is looked for again at each tick.
        until_us = min(until_us, running.created_us)
    follows = or_(
        later.applied_us > ack.applied_us, (later.applied_us == ack.applied_us) & (later.id > ack.id)
    )
    stored = select(QueryRow.query_id).where(
        QueryRow.stream_id == ack.stream_id, QueryRow.query_id == ack.query_id
    )
    replaced = select(later.id).where(
        later.stream_id == ack.stream_id,
        follows,
        or_(later.query_id == ack.query_id, ~stored.correlate(ack).exists()),
        or_(later.generation.is_(None), ack.generation.is_not(None)),
    )
    return delete_some(
        session,
        ack,
        ack.stream_id == offset.stream_id,
        ack.received_us < until_us,
        replaced.correlate(ack).exists(),
    )


def _forget_queries(session: Session, offset: OffsetRow, now_us: int, retention: Retention) -> bool:
    """Delete queries without a report since long ago."""
    stream_id = offset.stream_id
    stored = select(ReportRow.id).where(
        ReportRow.stream_id == stream_id, ReportRow.query_id == QueryRow.query_id
    )
    rows = session.scalars(
        select(QueryRow).where(
            QueryRow.stream_id == stream_id,
            # The newest batch of a stream is never aged out, so one of its queries stays.
            QueryRow.deleted_batch == QueryRow.last_batch,
            ~stored.correlate(QueryRow).exists(),
        )
    ).all()
    if rows:
        since = Span(stream_id, now_us - retention.history_us)
        recent = {query_id for part in rollups_in(session, since) for query_id in part.batches_of}
        rows = [row for row in rows if row.query_id not in recent][:MAX_ROWS]
    if not rows:
        return False
    missing = sum(row.last_batch - row.first_batch + 1 - row.reports for row in rows)
    stream = session.get_one(StreamRow, stream_id)
    stream.deleted_missing_batches = min(stream.deleted_missing_batches + missing, 2**62)
    for row in rows:
        session.delete(row)
    return True


def _forget_partitions(session: Session, offset: OffsetRow, now_us: int, retention: Retention) -> bool:
    """Delete partitions without a row for as long as the ledger is kept, which is longer than any horizon."""
    return forget_partitions(session, offset.stream_id, now_us - retention.ledger_us, MAX_ROWS) > 0


def _forget_lost(session: Session, offset: OffsetRow, now_us: int, retention: Retention) -> bool:
    """Delete counts by dimension that are as old as what the ledger forgets."""
    stream_id, until_us = offset.stream_id, now_us - retention.ledger_us
    step, slot = LateStepRow, LateSlotRow
    return delete_some(session, step, step.stream_id == stream_id, step.hour_us < until_us) or delete_some(
        session, slot, slot.stream_id == stream_id, slot.slot_us < until_us
    )


HISTORY_STEPS = (
    _forget_bounds,
    _forget_rollouts,
    _forget_failures,
    _forget_acknowledgements,
    _forget_queries,
    _forget_partitions,
    _forget_lost,
)
"""The steps; they are given ``OffsetRow.aged_us``."""


def _newest(session: Session, *which: ColumnElement[bool]) -> int | None:
    return session.scalars(select(func.max(RolloutRow.id)).where(*which)).one()
