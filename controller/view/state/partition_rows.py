"""Partitions as they are stored: of one stream, read once for all that follows, or of all streams, for alerts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields

from sqlalchemy import bindparam, or_, select
from sqlalchemy.orm import Session

from tidemark.controller.base.db.tables import PartitionRow
from tidemark.controller.evidence.horizon import Horizon
from tidemark.controller.reports.partitions import FutureRows, MisdatedRows, Skew
from tidemark.models.evidence.misdated import explained
from tidemark.models.evidence.progress import PartitionTimes


@dataclass(frozen=True, slots=True)
class PartitionFacts(PartitionTimes):
    """What is stored of one partition. Times are in microseconds; what a snapshot says is as of the newest one."""

    partition: str
    behind_us: int | None
    """How far behind the stream's maximum event time it was when it was last seen; None when unknown."""
    last_future_us: int | None
    """When it last had a future-dated row; None without any."""
    last_misdated_us: int | None
    """When it last had a row whose event time no delay explains; None without any."""
    misdated_event_us: int | None
    """The event time of such a row then; None without any."""
    skewed: bool
    """Whether without it the bound would be far narrower."""
    costs_ms: int | None
    """By how much."""
    without_bound_ms: int | None
    """To what."""
    state: str | None = None
    """Active, Idle, Behind or Gone; None before the first snapshot."""
    future_rows: int = 0
    misdated_rows: int = 0
    """Rows of it whose event time no delay explains."""

    @property
    def notable(self) -> tuple[bool, bool, bool, int, str]:
        """Sorts first what somebody would look for first: skewed, idle, behind, then by cost."""
        idle, behind = self.state == "Idle", self.state == "Behind"
        return not self.skewed, not idle, not behind, -(self.costs_ms or 0), self.partition


_COLUMNS = tuple(getattr(PartitionRow, field.name) for field in fields(PartitionFacts))
# Built once: building it takes longer than running it.
_PARTITIONS = (
    select(*_COLUMNS).where(PartitionRow.stream_id == bindparam("stream")).order_by(PartitionRow.partition)
)


def read_partitions(session: Session, stream_id: int) -> list[PartitionFacts]:
    """Return all partitions of a stream by name."""
    return [PartitionFacts(*row) for row in session.connection().execute(_PARTITIONS, {"stream": stream_id})]


def present_in(partitions: Sequence[PartitionFacts], horizon: Horizon) -> list[PartitionFacts]:
    """Return the partitions with a row within the horizon."""
    return [partition for partition in partitions if partition.last_seen_us >= horizon.from_us]


def skew_among(
    partitions: Sequence[PartitionFacts], horizon: Horizon, batch_gap_us: int | None
) -> Skew | None:
    """Return how far apart the partitions are that are not silent; None when that is unknown.

    Each counts with its distance when it was last seen, which does not grow while it is idle.

    Args:
        batch_gap_us: the stream's typical gap between batches, in microseconds; None when it is not known, and then
            every partition in the horizon counts.
    """
    furthest: Skew | None = None
    for partition in partitions:
        behind_us = partition.behind_us
        if behind_us is None or partition.last_seen_us < horizon.from_us:
            continue
        if furthest is not None and behind_us <= furthest.behind_us:
            continue
        if batch_gap_us is None or not partition.silent_at(horizon.newest.seen_us, batch_gap_us):
            furthest = Skew(partition.partition, behind_us)
    return furthest


def future_rows_among(partitions: Sequence[PartitionFacts], horizon: Horizon, rows: int) -> FutureRows:
    """Return the future-dated rows over the horizon, of which there are ``rows``."""
    if not rows:
        return FutureRows(0, ())
    return FutureRows(
        rows,
        tuple(
            partition.partition
            for partition in partitions
            if partition.last_future_us is not None and partition.last_future_us >= horizon.from_us
        ),
    )


def misdated_rows_among(partitions: Sequence[PartitionFacts], horizon: Horizon, rows: int) -> MisdatedRows:
    """Return the rows over the horizon whose event time no delay explains, of which there are ``rows``."""
    misdated = {
        partition.partition: explained(partition.misdated_event_us, partition.last_misdated_us)
        for partition in partitions
        if rows
        and partition.misdated_event_us is not None
        and partition.last_misdated_us is not None
        and partition.last_misdated_us >= horizon.from_us
    }
    return MisdatedRows(rows, tuple(misdated), tuple(dict.fromkeys(misdated.values())))


_GONE = "Gone"
"""``PartitionRow.state`` of a partition without a row within the horizon."""


def load_partitions(session: Session, *, notable: bool = True) -> Mapping[int, list[PartitionFacts]]:
    """Return by stream its partitions in order of their names; those that are gone are left out.

    Args:
        notable: whether to leave out those of which there is nothing to say, too.
    """
    table = PartitionRow
    wanted = (
        select(table.stream_id, *_COLUMNS)
        .where(or_(table.state.is_(None), table.state != _GONE))
        .order_by(table.stream_id, table.partition)
    )
    if notable:
        odd = table.state.in_(("Idle", "Behind")), table.future_rows > 0, table.misdated_rows > 0
        wanted = wanted.where(or_(table.skewed, *odd))
    by_stream: defaultdict[int, list[PartitionFacts]] = defaultdict(list)
    for row in session.connection().execute(wanted):
        by_stream[row[0]].append(PartitionFacts(*row[1:]))
    return by_stream
