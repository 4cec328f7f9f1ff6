"""Partitions of a stream: what each report adds to them, lists of them, and what follows for the stream as a whole."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sqlalchemy import BigInteger, ColumnElement, and_, bindparam, case, func, select
from sqlalchemy.orm import Session

from tidemark.controller.db.tables import PartitionRow, ReportRow
from tidemark.controller.db.upsert import Excluded, greater, lesser, upsert_many
from tidemark.controller.evidence.horizon import Horizon
from tidemark.models.cells import ReportCells
from tidemark.models.granules import SPARK_TICK_US, granule_last_us
from tidemark.models.progress import PartitionTimes
from tidemark.models.wire import Report


@dataclass(frozen=True, slots=True)
class Skew:
    """How far apart the partitions of a stream are."""

    partition: str
    """The partition that is furthest behind."""
    behind_us: int
    """How far behind the stream's maximum event time it was when it was last seen, in microseconds."""


@dataclass(frozen=True, slots=True)
class FutureRows:
    """Future-dated rows over a horizon."""

    rows: int
    """How many."""
    partitions: tuple[str, ...]
    """Their partitions, by name."""


@dataclass(frozen=True, slots=True)
class Arrived:
    """What a batch held of each of its partitions, in the order of their names."""

    names: list[str]
    """Names of the partitions that had a row."""
    rows: list[int]
    """Counted rows of each."""
    last_event_time_us: list[int]
    """Maximum event time of each in microseconds, to the granule."""
    future_rows: list[int]
    """Future-dated rows of each."""


def arrived_in(report: Report, cells: ReportCells) -> Arrived:
    """Return what ``report``, whose counts are ``cells``, held of each partition."""
    if not len(cells.parts):
        return Arrived([], [], [], [])
    present, starts = np.unique(cells.parts, return_index=True)
    ends = np.append(starts[1:], len(cells.parts)) - 1
    last_us = granule_last_us(cells.granules[ends], report.granule_us, report.closed)
    if report.max_event_time_us is not None:
        last_us = np.minimum(last_us, report.max_event_time_us)
    found = zip(
        [cells.partitions[part] for part in present.tolist()],
        np.add.reduceat(cells.counts, starts).tolist(),
        last_us.tolist(),
        [report.partitions[part].future_rows for part in present.tolist()],
        strict=True,
    )
    return Arrived(*map(list, zip(*sorted(found), strict=True)))


def add_partitions(session: Session, stream_id: int, arrived: Arrived, seen_us: int, base_us: int) -> None:
    """Add what a batch held to its partitions; the stream is locked.

    Args:
        session: the session.
        stream_id: the stream.
        arrived: what it held.
        seen_us: when it was seen.
        base_us: the stream's maximum event time after it, in microseconds.
    """
    upsert_many(
        session,
        PartitionRow,
        {
            "partition": arrived.names,
            "rows": arrived.rows,
            "last_event_time_us": arrived.last_event_time_us,
            "behind_us": [max(base_us - last_us, 0) for last_us in arrived.last_event_time_us],
            "future_rows": arrived.future_rows,
            "last_future_us": [seen_us if rows else None for rows in arrived.future_rows],
        },
        same={"stream_id": stream_id, "last_seen_us": seen_us, "first_seen_us": seen_us, "batches": 1},
        added=("rows", "batches", "future_rows"),
        changes=_changes,
        parameters={"base_us": base_us},
    )


def _changes(new: Excluded) -> dict[str, ColumnElement[Any]]:
    last = greater(PartitionRow.last_event_time_us, new.last_event_time_us)
    base_us = bindparam("base_us", type_=BigInteger())
    behind = case((last < base_us, base_us - last), else_=0)
    return {
        "last_event_time_us": last,
        "last_seen_us": greater(PartitionRow.last_seen_us, new.last_seen_us),
        "first_seen_us": lesser(PartitionRow.first_seen_us, new.first_seen_us),
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


def base_after_us(report: Report, before_ms: int | None) -> int:
    """Return the stream's maximum event time after a batch, in microseconds.

    It is capped at the end of the batch: future-dated rows must not make every honest partition look late.

    Args:
        report: the batch's report.
        before_ms: the base of all batches before it, in milliseconds; None when none is known.
    """
    known = [] if before_ms is None else [before_ms * SPARK_TICK_US]
    if report.max_event_time_us is not None:
        known.append(report.max_event_time_us)
    return min(max(known, default=0), report.started_us + report.duration_ms * 1_000)


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
    """Return the maximum event time of all partitions in microseconds, None without any."""
    return session.scalars(
        select(func.max(PartitionRow.last_event_time_us)).where(PartitionRow.stream_id == stream_id)
    ).one()


def skew_in(session: Session, horizon: Horizon, batch_gap_us: int | None) -> Skew | None:
    """Return how far apart the partitions are that are not silent; None when that is unknown.

    Each counts with its distance when it was last seen, which does not grow while it is idle.

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
    """Return the future-dated rows over the horizon."""
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
