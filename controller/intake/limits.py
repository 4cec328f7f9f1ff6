"""How much a store takes: streams, and partitions of each. Every one is a row, a decision or a label for good."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from sqlalchemy import ScalarSelect, bindparam, func, select
from sqlalchemy.orm import Session

from tidemark.controller.db.tables import PartitionRow, StreamRow
from tidemark.controller.errors import ErrorItem, TooManyPartitionsError, TooManyStreamsError

__all__ = [
    "NO_LIMITS",
    "Limits",
    "check_room_for_partitions",
    "check_room_for_stream",
    "count_of_partitions",
]


@dataclass(frozen=True, slots=True)
class Limits:
    """Greatest numbers; None for no limit."""

    streams: int | None = None
    """Streams of all jobs."""
    partitions: int | None = None
    """Partitions of one stream."""


NO_LIMITS = Limits()
"""Takes whatever comes."""


def check_room_for_stream(session: Session, limits: Limits) -> None:
    """Check that one stream more can be taken.

    Raises:
        TooManyStreamsError: when it cannot.
    """
    most = limits.streams
    if most is not None and session.scalars(select(func.count(StreamRow.id))).one() >= most:
        raise TooManyStreamsError(
            f"this store takes {most:,} streams and has them; is a name made anew at each start? Else raise "
            "TIDEMARK_MAX_STREAMS"
        )


def count_of_partitions(stream: str) -> ScalarSelect[int]:
    """Return the query for how many partitions the stream has that the parameter called ``stream`` names."""
    return (
        select(func.count())
        .select_from(PartitionRow)
        .where(PartitionRow.stream_id == bindparam(stream))
        .scalar_subquery()
    )


def check_room_for_partitions(
    session: Session, stream_id: int, names: Collection[str], known: int, limits: Limits
) -> None:
    """Check that a stream can take these partitions, those of its ``known`` ones included.

    Raises:
        TooManyPartitionsError: when it cannot.
    """
    most = limits.partitions
    if most is None or known + len(names) <= most:
        return
    stored = set(session.scalars(select(PartitionRow.partition).where(PartitionRow.stream_id == stream_id)))
    new = sum(name not in stored for name in names)
    if new and known + new > most:
        reason = (
            f"{new:,} new partitions beside the {known:,} known are more than the {most:,} that a stream may have; is "
            "the partition column one of few values? Else raise TIDEMARK_MAX_PARTITIONS"
        )
        raise TooManyPartitionsError(f"/partitions: {reason}", errors=(ErrorItem("/partitions", reason),))
