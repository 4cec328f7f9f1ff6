"""What the store holds on a stream over a horizon: evidence, completeness, coverage, and the steps that emit.

A horizon ends with the newest batch and not with the clock, so that the same reports always say the same: a stream
that has fallen silent keeps its evidence. It begins on the edge of a time slot, so that needs and facts are counted
over the same batches.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from sqlalchemy import ColumnElement, func, select
from sqlalchemy.orm import Session

from tidemark.controller.bases import effective_bound_ms, floor_ms
from tidemark.controller.store.needs import slot_of_us
from tidemark.controller.store.tables import LedgerRow, PartitionRow, ReportRow
from tidemark.models.coverage import Coverage, coverage_of
from tidemark.models.curve import Emissions
from tidemark.models.granules import SPARK_TICK_US
from tidemark.models.ledger import Completeness

__all__ = [
    "Facts",
    "Horizon",
    "effective_ms",
    "emissions",
    "facts",
    "horizon_of",
    "newest_report_id",
    "open_keys",
]

WINDOW = "window"
"""``kind`` of the operator that has windows."""

_NO_BASE = -(2**62)
"""Base before any row, in microseconds: it emits nothing."""


@dataclass(frozen=True, slots=True)
class Horizon:
    """The batches that count, from the first slot's edge to the newest batch."""

    stream_id: int
    """The stream."""
    from_us: int
    """Start, the edge of a slot, in microseconds."""
    newest: ReportRow
    """The newest batch."""

    @property
    def batches(self) -> tuple[ColumnElement[bool], ...]:
        """Conditions on ``ReportRow`` that pick the batches."""
        return ReportRow.stream_id == self.stream_id, ReportRow.seen_us >= self.from_us


@dataclass(frozen=True, slots=True)
class Facts:
    """Sums over a horizon."""

    batches: int
    """Batches reported."""
    from_us: int
    """Trigger time of the first batch, in microseconds."""
    to_us: int
    """Trigger time of the newest batch, in microseconds."""
    rows: int
    """Rows that arrived."""
    need_pairs: int
    """(Row, key) pairs with a known need."""
    unknown_rows: int
    """Rows whose need is not known."""
    early_rows: int
    """Rows admitted under any bound, because the filter knew nothing yet."""
    uncounted_rows: int
    """Rows that were not counted by granule."""
    partitions: int
    """Partitions seen."""
    completeness: Completeness
    """What the ledger says of the pairs that arrived."""
    coverage: dict[str, Coverage]
    """By query id, which batches were reported."""

    @property
    def missing_batches(self) -> int:
        """Batches that were never reported."""
        return self.completeness.missing_batches


def newest_report_id(session: Session, stream_id: int) -> int:
    """Return the id of the report stored last, 0 without any."""
    return session.scalars(select(func.max(ReportRow.id)).where(ReportRow.stream_id == stream_id)).one() or 0


def horizon_of(session: Session, stream_id: int, horizon_ms: int) -> Horizon | None:
    """Return the stream's horizon of ``horizon_ms``; None without reports."""
    newest = session.scalars(
        select(ReportRow)
        .where(ReportRow.stream_id == stream_id)
        .order_by(ReportRow.seen_us.desc(), ReportRow.batch_id.desc(), ReportRow.query_id.desc())
        .limit(1)
    ).one_or_none()
    if newest is None:
        return None
    return Horizon(stream_id, slot_of_us(newest.seen_us - horizon_ms * 1_000), newest)


def facts(session: Session, horizon: Horizon) -> Facts:
    """Return the sums over the horizon."""
    names = (
        "pairs",
        "late_least",
        "late_most",
        "unjudged_rows",
        "rows",
        "need_pairs",
        "need_unknown_rows",
        "early_rows",
        "uncounted_rows",
    )
    row = session.execute(
        select(
            func.count().label("batches"),
            func.min(ReportRow.seen_us).label("from_us"),
            func.max(ReportRow.seen_us).label("to_us"),
            func.max(ReportRow.keys_per_row).label("keys_per_row"),
            *(func.sum(getattr(ReportRow, name)).label(f"sum_{name}") for name in names),
        ).where(*horizon.batches)
    ).one()
    # PostgreSQL sums to an exact decimal, SQLite to an integer.
    total = {name: int(getattr(row, f"sum_{name}")) for name in names}
    coverage = _coverage(session, horizon)
    return Facts(
        batches=row.batches,
        from_us=row.from_us,
        to_us=row.to_us,
        rows=total["rows"],
        need_pairs=total["need_pairs"],
        unknown_rows=total["need_unknown_rows"],
        early_rows=total["early_rows"],
        uncounted_rows=total["uncounted_rows"],
        partitions=session.scalars(
            select(func.count())
            .select_from(PartitionRow)
            .where(PartitionRow.stream_id == horizon.stream_id, PartitionRow.last_seen_us >= horizon.from_us)
        ).one(),
        completeness=Completeness(
            total["pairs"],
            total["late_least"],
            total["late_most"],
            total["unjudged_rows"],
            sum(query.missing_batches for query in coverage.values()),
            row.keys_per_row,
        ),
        coverage=coverage,
    )


def _coverage(session: Session, horizon: Horizon) -> dict[str, Coverage]:
    batches: dict[str, list[int]] = {}
    ids = select(ReportRow.query_id, ReportRow.batch_id).where(*horizon.batches)
    for query_id, batch_id in session.execute(ids):
        batches.setdefault(query_id, []).append(batch_id)
    found = {query: coverage_of(batch_ids) for query, batch_ids in sorted(batches.items())}
    return {query: coverage for query, coverage in found.items() if coverage is not None}


def _base_before_us(session: Session, report: ReportRow) -> int | None:
    """Return the base of all batches before ``report`` in its query, in microseconds, as far as the store knows."""
    stored = session.scalars(
        select(ReportRow.max_event_time_us)
        .where(
            ReportRow.stream_id == report.stream_id,
            ReportRow.query_id == report.query_id,
            ReportRow.batch_id < report.batch_id,
            ReportRow.max_event_time_us.is_not(None),
        )
        .order_by(ReportRow.max_event_time_us.desc())
        .limit(1)
    ).one_or_none()
    known = [] if stored is None else [floor_ms(stored) * SPARK_TICK_US]
    if report.late_base_ms is not None:
        known.append(report.late_base_ms * SPARK_TICK_US)
    return max(known, default=None)


def effective_ms(session: Session, report: ReportRow) -> int | None:
    """Return the bound that was really in effect in a batch, in milliseconds; None when it is not known."""
    base_us = _base_before_us(session, report)
    return effective_bound_ms(None if base_us is None else floor_ms(base_us), report.watermark_ms)


def open_keys(session: Session, newest: ReportRow) -> bool:
    """Return whether the ledger holds a key that the newest watermark has not passed, so that rows can still come."""
    watermark_us = newest.watermark_ms * SPARK_TICK_US
    return session.scalars(
        select(
            select(LedgerRow.key_us)
            .where(LedgerRow.stream_id == newest.stream_id, LedgerRow.key_us > watermark_us)
            .exists()
        )
    ).one()


def emissions(session: Session, horizon: Horizon) -> Emissions | None:
    """Return when windows would have been emitted, over the batches of the newest query in the horizon.

    Batch n emits by the base of the batches before it, at the end of the batch. Windows that ended before the first
    batch's base were emitted before the horizon and windows that end after the last one's not within it, under any
    bound: both are left out, since they tell bounds apart by nothing. None for operators without windows.
    """
    if horizon.newest.operator != WINDOW:
        return None
    steps = session.scalars(
        select(ReportRow)
        .where(*horizon.batches, ReportRow.query_id == horizon.newest.query_id)
        .order_by(ReportRow.batch_id)
    ).all()
    before_us = _base_before_us(session, steps[0])
    base_us = _NO_BASE if before_us is None else before_us
    emit_base_us, wall_us = [], []
    for step in steps:
        if step.late_base_ms is not None:
            base_us = max(base_us, step.late_base_ms * SPARK_TICK_US)
        emit_base_us.append(base_us)
        wall_us.append(step.started_us + step.duration_ms * 1_000)
        if step.max_event_time_us is not None:
            base_us = max(base_us, floor_ms(step.max_event_time_us) * SPARK_TICK_US)
    first_key_us = min(
        (step.first_key_us for step in steps if step.first_key_us is not None), default=_NO_BASE
    )
    after_us = first_key_us - 1 if before_us is None else before_us
    ends = session.scalars(
        select(LedgerRow.key_us)
        .where(
            LedgerRow.stream_id == horizon.stream_id,
            LedgerRow.key_us > after_us,
            LedgerRow.key_us <= emit_base_us[-1],
        )
        .distinct()
        .order_by(LedgerRow.key_us)
    ).all()
    return Emissions(np.array(ends, np.int64), np.array(emit_base_us, np.int64), np.array(wall_us, np.int64))
