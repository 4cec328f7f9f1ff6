"""What the store holds on a stream over a horizon: evidence, completeness, coverage, and the steps that emit.

The database finds and adds up; what counts, and as what, is said in ``tidemark.models.horizon``.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import ColumnElement, func, select
from sqlalchemy.orm import Session

from tidemark.controller.store.tables import LedgerRow, PartitionRow, ReportRow
from tidemark.models.curve import Emissions
from tidemark.models.granules import SPARK_TICK_US
from tidemark.models.horizon import SUMMED, Facts, emission_steps, facts_of, horizon_from_us
from tidemark.models.late_base import effective_bound_ms, late_base_ms

__all__ = [
    "Horizon",
    "base_before_ms",
    "effective_ms",
    "emissions",
    "facts",
    "horizon_of",
    "newest_report_id",
    "open_keys",
]

WINDOW = "window"
"""``kind`` of the operator that has windows."""


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
    return Horizon(stream_id, horizon_from_us(newest.seen_us, horizon_ms), newest)


def facts(session: Session, horizon: Horizon) -> Facts:
    """Return the sums over the horizon."""
    row = session.execute(
        select(
            func.count().label("batches"),
            func.min(ReportRow.seen_us).label("from_us"),
            func.max(ReportRow.seen_us).label("to_us"),
            func.max(ReportRow.keys_per_row).label("keys_per_row"),
            *(func.sum(getattr(ReportRow, name)).label(f"sum_{name}") for name in SUMMED),
        ).where(*horizon.batches)
    ).one()
    return facts_of(
        # PostgreSQL sums to an exact decimal, SQLite to an integer.
        {name: int(getattr(row, f"sum_{name}")) for name in SUMMED},
        batches=row.batches,
        from_us=row.from_us,
        to_us=row.to_us,
        keys_per_row=row.keys_per_row,
        partitions=session.scalars(
            select(func.count())
            .select_from(PartitionRow)
            .where(PartitionRow.stream_id == horizon.stream_id, PartitionRow.last_seen_us >= horizon.from_us)
        ).one(),
        batch_ids=_batch_ids(session, horizon),
    )


def _batch_ids(session: Session, horizon: Horizon) -> dict[str, list[int]]:
    batches: dict[str, list[int]] = {}
    ids = select(ReportRow.query_id, ReportRow.batch_id).where(*horizon.batches)
    for query_id, batch_id in session.execute(ids):
        batches.setdefault(query_id, []).append(batch_id)
    return batches


def base_before_ms(session: Session, report: ReportRow) -> int | None:
    """Return the base of all batches before ``report`` in its query, in milliseconds, as far as the store knows."""
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
    return late_base_ms(report.late_base_ms, stored)


def effective_ms(session: Session, report: ReportRow) -> int | None:
    """Return the bound that was really in effect in a batch, in milliseconds; None when it is not known."""
    return effective_bound_ms(base_before_ms(session, report), report.watermark_ms)


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

    None for operators without windows.
    """
    if horizon.newest.operator != WINDOW:
        return None
    batches = session.scalars(
        select(ReportRow)
        .where(*horizon.batches, ReportRow.query_id == horizon.newest.query_id)
        .order_by(ReportRow.batch_id)
    ).all()
    before_ms = base_before_ms(session, batches[0])
    steps = emission_steps(batches, None if before_ms is None else before_ms * SPARK_TICK_US)
    ends = session.scalars(
        select(LedgerRow.key_us)
        .where(
            LedgerRow.stream_id == horizon.stream_id,
            LedgerRow.key_us > steps.after_us,
            LedgerRow.key_us <= steps.until_us,
        )
        .distinct()
        .order_by(LedgerRow.key_us)
    ).all()
    return steps.emissions(ends)
