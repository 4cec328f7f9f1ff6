"""Partitions of a stream: what each report adds to them, lists of them, and what follows for the stream as a whole."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sqlalchemy import ColumnElement, and_, case, delete, func, select, update
from sqlalchemy.orm import InstrumentedAttribute, Session

from tidemark.controller.base.db.statements import Excluded, greater, lesser, upsert_many
from tidemark.controller.base.db.tables import PartitionRow, StreamRow
from tidemark.models.base.granules import SPARK_TICK_US, granule_first_us, granule_last_us
from tidemark.models.evidence.key_counts import ReportCells, run_starts
from tidemark.models.protocol.messages import Report


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
class MisdatedRows:
    """Rows over a horizon whose event time no delay explains."""

    rows: int
    """How many."""
    partitions: tuple[str, ...]
    """Their partitions, by name."""
    explained: tuple[str, ...]
    """How they are dated, and what explains that, each once."""


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
    misdated_rows: list[int]
    """Rows of each whose event time no delay explains."""
    misdated_event_us: list[int | None]
    """The newest event time of these in microseconds, to the granule; None without any."""


def arrived_in(report: Report, cells: ReportCells, wrong: ReportCells | None, latest_us: int) -> Arrived:
    """Return what ``report``, whose counts are ``cells``, held of each partition.

    Args:
        cells: its counts.
        wrong: those of misdated rows; None without any.
        latest_us: the latest event time that a clock which is right can have given, in microseconds.
    """
    if not len(cells.parts):
        return Arrived([], [], [], [], [], [])
    starts = run_starts(cells.parts)
    present = cells.parts[starts]
    ends = np.append(starts[1:], len(cells.parts)) - 1
    last_us = granule_last_us(cells.granules[ends], report.granule_us, report.closed)
    newest_us = report.max_event_time_us
    last_us = np.minimum(last_us, latest_us if newest_us is None else min(newest_us, latest_us))
    misdated = {} if wrong is None else _misdated_in(report, wrong)
    rows = zip(
        [cells.partitions[part] for part in present.tolist()],
        np.add.reduceat(cells.counts, starts).tolist(),
        last_us.tolist(),
        [report.counts.future_rows[part] for part in present.tolist()],
        *zip(*(misdated.get(part, (0, None)) for part in present.tolist()), strict=True),
        strict=True,
    )
    return Arrived(*map(list, zip(*sorted(rows), strict=True)))


def _misdated_in(report: Report, wrong: ReportCells) -> dict[int, tuple[int, int]]:
    """Return by position of a partition its misdated rows and their newest event time."""
    starts = run_starts(wrong.parts)
    ends = np.append(starts[1:], len(wrong.parts)) - 1
    return dict(
        zip(
            wrong.parts[starts].tolist(),
            zip(
                np.add.reduceat(wrong.counts, starts).tolist(),
                granule_first_us(wrong.granules[ends], report.granule_us, report.closed).tolist(),
                strict=True,
            ),
            strict=True,
        )
    )


def add_partitions(session: Session, batches: Sequence[tuple[int, int, int, Arrived]]) -> None:
    """Add what batches of different streams, which are locked, held to their partitions.

    Args:
        batches: of each the stream, when it was seen and the stream's maximum event time after it, in microseconds,
            and what it held.
    """
    columns: dict[str, list[Any]] = {name: [] for name in _COLUMNS}
    for stream_id, seen_us, base_us, arrived in batches:
        size = len(arrived.names)
        columns["stream_id"] += [stream_id] * size
        columns["partition"] += arrived.names
        columns["rows"] += arrived.rows
        columns["last_event_time_us"] += arrived.last_event_time_us
        # A partition with misdated rows alone does not show where it is.
        columns["behind_us"] += [
            None if wrong == rows else max(base_us - last_us, 0)
            for rows, wrong, last_us in zip(
                arrived.rows, arrived.misdated_rows, arrived.last_event_time_us, strict=True
            )
        ]
        columns["first_seen_us"] += [seen_us] * size
        columns["last_seen_us"] += [seen_us] * size
        columns["future_rows"] += arrived.future_rows
        columns["last_future_us"] += [seen_us if rows else None for rows in arrived.future_rows]
        columns["misdated_rows"] += arrived.misdated_rows
        columns["last_misdated_us"] += [seen_us if rows else None for rows in arrived.misdated_rows]
        columns["misdated_event_us"] += arrived.misdated_event_us
    upsert_many(
        session,
        PartitionRow,
        columns,
        same={"batches": 1},
        added=("rows", "batches", "future_rows", "misdated_rows"),
        changes=_changes,
    )


_COLUMNS = (
    "stream_id",
    "partition",
    "rows",
    "last_event_time_us",
    "behind_us",
    "first_seen_us",
    "last_seen_us",
    "future_rows",
    "last_future_us",
    "misdated_rows",
    "last_misdated_us",
    "misdated_event_us",
)


def _changes(new: Excluded) -> dict[str, ColumnElement[Any]]:
    last = greater(PartitionRow.last_event_time_us, new.last_event_time_us)
    # Behind the same base as the new row, but by a later row that came before.
    behind = new.behind_us - (last - new.last_event_time_us)
    misdated = _later(PartitionRow.last_misdated_us, new.last_misdated_us)
    return {
        "last_event_time_us": last,
        "last_seen_us": greater(PartitionRow.last_seen_us, new.last_seen_us),
        "first_seen_us": lesser(PartitionRow.first_seen_us, new.first_seen_us),
        # Reports may come late; the newest batch says how far behind it is.
        "behind_us": case(
            (new.last_seen_us >= PartitionRow.last_seen_us, case((behind < 0, 0), else_=behind)),
            else_=PartitionRow.behind_us,
        ),
        "last_future_us": case(
            (_later(PartitionRow.last_future_us, new.last_future_us), new.last_future_us),
            else_=PartitionRow.last_future_us,
        ),
        "last_misdated_us": case((misdated, new.last_misdated_us), else_=PartitionRow.last_misdated_us),
        "misdated_event_us": case((misdated, new.misdated_event_us), else_=PartitionRow.misdated_event_us),
    }


def _later(old: InstrumentedAttribute[int | None], new: ColumnElement[int | None]) -> ColumnElement[bool]:
    """Return the condition that a time is known and later than the one before, if there was one."""
    return and_(new.is_not(None), func.coalesce(old < new, True))


def forget_partitions(session: Session, stream_id: int, before_us: int, limit: int) -> int:
    """Delete partitions without a row since ``before_us``; the stream is locked. No count of the ledger changes.

    It bypasses the session.

    Args:
        before_us: only partitions whose newest batch was triggered before, in microseconds.
        limit: how many at most.

    Returns:
        How many were deleted.
    """
    gone = session.execute(
        select(PartitionRow.partition, PartitionRow.future_rows, PartitionRow.misdated_rows)
        .where(PartitionRow.stream_id == stream_id, PartitionRow.last_seen_us < before_us)
        .limit(limit)
    ).all()
    if not gone:
        return 0
    unsynchronised = {"synchronize_session": False}
    names = [row.partition for row in gone]
    session.execute(
        delete(PartitionRow).where(PartitionRow.stream_id == stream_id, PartitionRow.partition.in_(names)),
        execution_options=unsynchronised,
    )
    # A metric counts them for good.
    session.execute(
        update(StreamRow)
        .where(StreamRow.id == stream_id)
        .values(
            deleted_future_rows=StreamRow.deleted_future_rows + sum(row.future_rows for row in gone),
            deleted_misdated_rows=StreamRow.deleted_misdated_rows + sum(row.misdated_rows for row in gone),
        ),
        execution_options=unsynchronised,
    )
    return len(gone)


def base_after_us(report: Report, before_ms: int | None, seen_us: int) -> int:
    """Return the stream's maximum event time after a batch, in microseconds.

    It is capped at the end of the batch: future-dated rows must not make every honest partition look late.

    Args:
        before_ms: the base of all batches before it, in milliseconds; None when none is known.
        seen_us: when it was seen.
    """
    times_us = [] if before_ms is None else [before_ms * SPARK_TICK_US]
    if report.max_event_time_us is not None:
        times_us.append(report.max_event_time_us)
    return min(max(times_us, default=0), seen_us + report.duration_ms * 1_000)


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
