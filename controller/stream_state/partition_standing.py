"""How the partitions of all streams stand, read all at once: the partitions' share of what metrics are made of."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy import func, or_, select
from sqlalchemy.orm import Session

from tidemark.controller.db.tables import PartitionRow

__all__ = ["PartitionStanding", "future_rows_by_stream", "partition_standings"]

GONE = "Gone"
"""``PartitionRow.state`` of a partition that has not been heard of within the horizon."""


@dataclass(frozen=True, slots=True)
class PartitionStanding:
    """How one partition stood when its stream was looked at last. None is unknown."""

    partition: str
    """Its name."""
    state: str | None
    """Active, Idle or Behind."""
    skewed: bool
    """Whether without it the bound would be far narrower."""
    costs_ms: int | None
    """By how much."""
    future_rows: int
    """Rows of it that were dated ahead of the clock."""

    @property
    def notable(self) -> tuple[bool, bool, bool, int, str]:
        """Sorts what somebody would look for first: skewed, idle, behind, then by what they cost."""
        idle, behind = self.state == "Idle", self.state == "Behind"
        return not self.skewed, not idle, not behind, -(self.costs_ms or 0), self.partition


def partition_standings(session: Session) -> Mapping[int, list[PartitionStanding]]:
    """Return by stream its partitions in order of their names; those that have departed are left out."""
    found: defaultdict[int, list[PartitionStanding]] = defaultdict(list)
    for stream_id, name, state, skewed, costs_ms, future_rows in session.execute(
        select(
            PartitionRow.stream_id,
            PartitionRow.partition,
            PartitionRow.state,
            PartitionRow.skewed,
            PartitionRow.costs_ms,
            PartitionRow.future_rows,
        )
        .where(or_(PartitionRow.state.is_(None), PartitionRow.state != GONE))
        .order_by(PartitionRow.stream_id, PartitionRow.partition)
    ):
        found[stream_id].append(PartitionStanding(name, state, skewed, costs_ms, future_rows))
    return found


def future_rows_by_stream(session: Session) -> dict[int, int]:
    """Return by stream the rows that were dated ahead of the clock, those of departed partitions too."""
    sums = select(PartitionRow.stream_id, func.sum(PartitionRow.future_rows)).group_by(PartitionRow.stream_id)
    # PostgreSQL sums to an exact decimal.
    return {stream_id: int(rows) for stream_id, rows in session.execute(sums)}
