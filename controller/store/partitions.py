"""Partitions of a stream, page by page."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from tidemark.controller.store.tables import PartitionRow

__all__ = ["last_event_time_us", "list_partitions"]


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
