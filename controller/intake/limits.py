"""Limits of a store: its streams, and the partitions of each. Each costs rows, decisions and metric labels for good."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from sqlalchemy import ScalarSelect, bindparam, func, select
from sqlalchemy.orm import Session

from tidemark.controller.db.tables import PartitionRow, StreamRow
from tidemark.controller.errors import ErrorItem, TooManyPartitionsError, TooManyStreamsError


@dataclass(frozen=True, slots=True)
class Limits:
    """Maximum numbers; None for no limit."""

    streams: int | None = None
    """Streams of all jobs."""
    partitions: int | None = None
    """Partitions of one stream."""


NO_LIMITS = Limits()
"""No limit at all."""


def check_room_for_stream(session: Session, limits: Limits) -> None:
    """Check that the store can take one more stream.

    Raises:
        TooManyStreamsError: when it cannot.
    """
    limit = limits.streams
    if limit is not None and session.scalars(select(func.count(StreamRow.id))).one() >= limit:
        raise TooManyStreamsError(
            f"this store has its maximum of {limit:,} streams; does a job take a new name at each start? If not, raise "
            "TIDEMARK_MAX_STREAMS"
        )


def count_of_partitions(stream: str) -> ScalarSelect[int]:
    """Return the query for the number of partitions of a stream, whose id is the bind parameter ``stream``."""
    return (
        select(func.count())
        .select_from(PartitionRow)
        .where(PartitionRow.stream_id == bindparam(stream))
        .scalar_subquery()
    )


def check_room_for_partitions(
    session: Session, stream_id: int, names: Collection[str], known: int, limits: Limits
) -> None:
    """Check that a stream, which has ``known`` partitions, can take these; they may be among the known ones.

    Raises:
        TooManyPartitionsError: when it cannot.
    """
    limit = limits.partitions
    if limit is None or known + len(names) <= limit:
        return
    stored = set(session.scalars(select(PartitionRow.partition).where(PartitionRow.stream_id == stream_id)))
    new = sum(name not in stored for name in names)
    if new and known + new > limit:
        reason = (
            f"{new:,} new partitions beside the {known:,} known are more than the {limit:,} that a stream may have; "
            "has the partition column few values? If so, raise TIDEMARK_MAX_PARTITIONS"
        )
        raise TooManyPartitionsError(f"/partitions: {reason}", errors=(ErrorItem("/partitions", reason),))
