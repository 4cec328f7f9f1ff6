"""Checks that a store has room for another stream, for new partitions of a stream, and for exact counts."""

from __future__ import annotations

from collections.abc import Callable, Collection

from sqlalchemy import ColumnElement, ScalarSelect, case, func, select
from sqlalchemy.orm import Session

from tidemark.controller.base.db.database import Limits
from tidemark.controller.base.db.tables import KNOWN, PartitionRow, StreamRow
from tidemark.controller.base.errors import (
    ErrorItem,
    LimitReachedError,
    TooManyPairsError,
)
from tidemark.controller.base.shares import check_share
from tidemark.models.base.ranges import MAX_COUNT


def check_room_for_stream(session: Session, job: str, limits: Limits) -> None:
    """Check that the store can take one more stream of a job.

    Raises:
        LimitReachedError: when it cannot, or the job has its share.
    """
    if limits.streams is not None:
        counted = select(func.count(case((StreamRow.job == job, 1))), func.count(StreamRow.id)).where(KNOWN)
        of_job, of_all = session.execute(counted).one()
        check_share("streams", limits.streams, of_job, of_all)


def check_room_for_pairs(counted: int, new: int) -> None:
    """Check that what a stream counts stays exact.

    A sum over a horizon, a window, a partition or a key is part of what the stream counts, so that one limit on it
    bounds them all.

    Args:
        counted: (row, key) pairs that it has counted, an unjudged row as its maximum number of pairs.
        new: those of the report.

    Raises:
        TooManyPairsError: when it would not.
    """
    if counted + new > MAX_COUNT:
        reason = (
            f"{new:,} (row, window) pairs beside the {counted:,} counted are more than the {MAX_COUNT:,} that a stream "
            "can count exactly; is rows right? To begin anew: tidemark forget"
        )
        raise TooManyPairsError(f"/rows: {reason}", errors=(ErrorItem("/rows", reason),))


def count_of_partitions(stream_id: ColumnElement[int]) -> ScalarSelect[int]:
    """Return the query for the number of partitions of a stream."""
    return (
        select(func.count())
        .select_from(PartitionRow)
        .where(PartitionRow.stream_id == stream_id)
        .scalar_subquery()
    )


def make_room_for_partitions(
    session: Session,
    stream_id: int,
    names: Collection[str],
    *,
    present: int,
    limits: Limits,
    forget: Callable[[], int],
) -> None:
    """Make room for the partitions of a report, by forgetting those that are gone if need be.

    Args:
        names: the partitions; they may be among the known ones.
        present: how many partitions the stream has.
        forget: forgets the partitions that are gone, and returns how many.

    Raises:
        LimitReachedError: when there is not enough room.
    """
    limit = limits.partitions
    if limit is None or present + len(names) <= limit:
        return
    new = _new(session, stream_id, names)
    if not new or present + new <= limit:
        return
    # What was forgotten comes back if it makes no room.
    with session.begin_nested():
        if forgotten := forget():
            # Some of these may have been among them.
            present, new = present - forgotten, _new(session, stream_id, names)
        if new and present + new > limit:
            reason = (
                f"{new:,} new partitions beside the {present:,} known are more than the {limit:,} that a "
                "stream may have; has the partition column few values? If so, raise TIDEMARK_MAX_PARTITIONS"
            )
            raise LimitReachedError.at("/partitions", reason)


def _new(session: Session, stream_id: int, names: Collection[str]) -> int:
    stored = set(session.scalars(select(PartitionRow.partition).where(PartitionRow.stream_id == stream_id)))
    return sum(name not in stored for name in names)
