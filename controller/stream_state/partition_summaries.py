"""The partitions of all streams as of their newest snapshots, read at once for metrics and alerts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy import or_, select
from sqlalchemy.orm import Session

from tidemark.controller.db.tables import PartitionRow

_GONE = "Gone"
"""``PartitionRow.state`` of a partition without a row within the horizon."""


@dataclass(frozen=True, slots=True)
class PartitionSummary:
    """One partition as of the newest snapshot of its stream. None is unknown."""

    partition: str
    """Its name."""
    state: str | None
    """Active, Idle or Behind."""
    skewed: bool
    """Whether without it the bound would be far narrower."""
    costs_ms: int | None
    """By how much."""
    future_rows: int
    """Future-dated rows of it."""
    misdated_rows: int
    """Rows of it whose event time no delay explains."""

    @property
    def notable(self) -> tuple[bool, bool, bool, int, str]:
        """Sorts first what somebody would look for first: skewed, idle, behind, then by cost."""
        idle, behind = self.state == "Idle", self.state == "Behind"
        return not self.skewed, not idle, not behind, -(self.costs_ms or 0), self.partition


def load_partitions(session: Session) -> Mapping[int, list[PartitionSummary]]:
    """Return by stream its partitions in order of their names; those that are gone are left out."""
    found: defaultdict[int, list[PartitionSummary]] = defaultdict(list)
    for stream_id, name, state, skewed, costs_ms, future_rows, misdated_rows in session.execute(
        select(
            PartitionRow.stream_id,
            PartitionRow.partition,
            PartitionRow.state,
            PartitionRow.skewed,
            PartitionRow.costs_ms,
            PartitionRow.future_rows,
            PartitionRow.misdated_rows,
        )
        .where(or_(PartitionRow.state.is_(None), PartitionRow.state != _GONE))
        .order_by(PartitionRow.stream_id, PartitionRow.partition)
    ):
        found[stream_id].append(PartitionSummary(name, state, skewed, costs_ms, future_rows, misdated_rows))
    return found
