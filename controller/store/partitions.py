"""Partitions of a stream: what each report adds to them, page by page, and what they say of the stream as a whole."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import BigInteger, ColumnElement, and_, bindparam, case, func, select
from sqlalchemy.orm import InstrumentedAttribute, Session

from tidemark.controller.store.horizon import Horizon
from tidemark.controller.store.limits import check_room_for_partitions
from tidemark.controller.store.tables import PartitionRow, ReportRow
from tidemark.controller.store.upsert import Excluded, upsert_many
from tidemark.models.granules import SPARK_TICK_US, granule_last_us
from tidemark.models.progress import PartitionTimes
from tidemark.models.wire import Report

__all__ = [
    "FutureRows",
    "Skew",
    "add_partitions",
    "future_rows_in",
    "last_event_time_us",
    "list_partitions",
    "skew_in",
]


@dataclass(frozen=True, slots=True)
class Skew:
    """How far apart the partitions of a stream are."""

    partition: str
    """The partition that is furthest behind."""
    behind_us: int
    """How far behind the stream's greatest event time it was when it was last heard, in microseconds."""


@dataclass(frozen=True, slots=True)
class FutureRows:
    """Rows over a horizon that were dated ahead of the clock."""

    rows: int
    """How many."""
    partitions: tuple[str, ...]
    """Which partitions they are of, by name."""


def add_partitions(session: Session, stored: ReportRow, report: Report, base_before_ms: int | None) -> None:
    """Add the rows of ``report``, stored as ``stored``, to its partitions; the stream is locked.

    Args:
        session: the session.
        stored: the stored report.
        report: the report.
        base_before_ms: the base of all batches before it, in milliseconds; None when none is known.
    """
    rows = []
    base_us, seen_us = _base_us(stored, base_before_ms), stored.seen_us
    for part in sorted(report.partitions, key=lambda part: part.partition):
        if not part.granules:
            continue
        last_us = granule_last_us(part.granules[-1], report.granule_us, report.closed)
        if report.max_event_time_us is not None:
            last_us = min(last_us, report.max_event_time_us)
        rows.append(
            {
                "stream_id": stored.stream_id,
                "partition": part.partition,
                "rows": part.rows,
                "last_event_time_us": last_us,
                "last_seen_us": seen_us,
                "first_seen_us": seen_us,
                "batches": 1,
                "behind_us": max(base_us - last_us, 0),
                "future_rows": part.future_rows,
                "last_future_us": seen_us if part.future_rows else None,
            }
        )
    check_room_for_partitions(
        session, stored.stream_id, [part.partition for part in report.partitions if part.granules]
    )
    upsert_many(
        session,
        PartitionRow,
        rows,
        added=("rows", "batches", "future_rows"),
        changes=_changes,
        parameters={"base_us": base_us},
    )


def _changes(new: Excluded) -> dict[str, ColumnElement[Any]]:
    last = _greater(PartitionRow.last_event_time_us, new.last_event_time_us)
    base_us = bindparam("base_us", type_=BigInteger())
    behind = case((last < base_us, base_us - last), else_=0)
    return {
        "last_event_time_us": last,
        "last_seen_us": _greater(PartitionRow.last_seen_us, new.last_seen_us),
        "first_seen_us": _lesser(PartitionRow.first_seen_us, new.first_seen_us),
        # Reports may come late; the newest batch says how far behind it is.
        "behind_us": case(
            (new.last_seen_us >= PartitionRow.last_seen_us, behind), else_=PartitionRow.behind_us
        ),
        "last_future_us": case(
            (
                and_(
                    new.last_future_us.is_not(None),
                    func.coalesce(PartitionRow.last_future_us < new.last_future_us, True),
                ),
                new.last_future_us,
            ),
            else_=PartitionRow.last_future_us,
        ),
    }


def _base_us(stored: ReportRow, before_ms: int | None) -> int:
    """Return the stream's greatest event time after a batch, in microseconds.

    Not beyond the end of the batch: what is dated ahead of the clock must not make every honest partition look late.
    """
    known = [] if before_ms is None else [before_ms * SPARK_TICK_US]
    if stored.max_event_time_us is not None:
        known.append(stored.max_event_time_us)
    return min(max(known, default=0), stored.started_us + stored.duration_ms * 1_000)


def _greater(old: InstrumentedAttribute[int], new: ColumnElement[int]) -> ColumnElement[int]:
    # The two databases name the greater of two values differently.
    return case((new > old, new), else_=old)


def _lesser(old: InstrumentedAttribute[int], new: ColumnElement[int]) -> ColumnElement[int]:
    return case((new < old, new), else_=old)


def list_partitions(
    session: Session, stream_id: int, after: str | None, limit: int
) -> Sequence[PartitionRow]:
    """Return up to ``limit`` partitions by name, those after ``after``."""
    wanted = (
        select(PartitionRow)
        .where(PartitionRow.stream_id == stream_id)
        .order_by(PartitionRow.partition)
        .limit(limit)
    )
    if after is not None:
        wanted = wanted.where(PartitionRow.partition > after)
    return session.scalars(wanted).all()


def last_event_time_us(session: Session, stream_id: int) -> int | None:
    """Return the greatest event time of all partitions in microseconds, None without any."""
    return session.scalars(
        select(func.max(PartitionRow.last_event_time_us)).where(PartitionRow.stream_id == stream_id)
    ).one()


def skew_in(session: Session, horizon: Horizon, batch_gap_us: int | None) -> Skew | None:
    """Return how far apart the partitions are that are still heard of; None when that is not known.

    Each counts with its distance when it was last heard, which does not grow while it is idle.

    Args:
        session: the session.
        horizon: the batches that count.
        batch_gap_us: the stream's typical gap between batches, in microseconds; None when it is not known, and then
            every partition in the horizon counts.
    """
    rows = session.execute(
        select(
            PartitionRow.partition,
            PartitionRow.behind_us,
            PartitionRow.first_seen_us,
            PartitionRow.last_seen_us,
            PartitionRow.batches,
        )
        .where(
            PartitionRow.stream_id == horizon.stream_id,
            PartitionRow.last_seen_us >= horizon.from_us,
            PartitionRow.behind_us.is_not(None),
        )
        .order_by(PartitionRow.behind_us.desc(), PartitionRow.partition)
    )
    for name, behind_us, *times in rows:
        if batch_gap_us is None or not PartitionTimes(*times).silent_at(horizon.newest.seen_us, batch_gap_us):
            return Skew(name, behind_us or 0)
    return None


def future_rows_in(session: Session, horizon: Horizon) -> FutureRows:
    """Return the rows over the horizon that were dated ahead of the clock."""
    rows = session.scalars(select(func.sum(ReportRow.future_rows)).where(*horizon.batches)).one()
    if not rows:
        return FutureRows(0, ())
    names = session.scalars(
        select(PartitionRow.partition)
        .where(PartitionRow.stream_id == horizon.stream_id, PartitionRow.last_future_us >= horizon.from_us)
        .order_by(PartitionRow.partition)
    )
    # PostgreSQL sums to an exact decimal.
    return FutureRows(int(rows), tuple(names))
