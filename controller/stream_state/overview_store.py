"""Overviews: what a list of streams shows of each, written when a stream is looked at and read at once for all."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import ScalarSelect, and_, func, select
from sqlalchemy.orm import Session, aliased

from tidemark.controller.db.tables import (
    AcknowledgementRow,
    OverviewRow,
    PartitionRow,
    PolicyRow,
    PublishedRow,
    RecommendationRow,
    ReportRow,
    RolloutRow,
    SloRow,
    StreamRow,
)
from tidemark.controller.evidence.horizon import Horizon
from tidemark.controller.stream_state.snapshots import PartitionSnapshot, StreamSnapshot
from tidemark.controller.streams.store import add_event
from tidemark.models.skew import skew_text
from tidemark.models.target import PPM

__all__ = [
    "NOW_US",
    "FleetRow",
    "Recent",
    "Skewed",
    "fleet_rows",
    "recent_in",
    "skewed_in",
    "versions_of",
    "worst_by_job",
    "write_snapshots",
]

NOW_US = 600_000_000
"""How far back from the newest batch "now" reaches, in microseconds: ten minutes, or one batch."""


@dataclass(frozen=True, slots=True)
class Recent:
    """What became of the rows of the newest batches."""

    from_us: int
    """From when on they count."""
    min_ppm: int | None
    """Share admitted at the least; None without rows."""
    max_ppm: int | None
    """Share admitted at the most."""


@dataclass(frozen=True, slots=True)
class Skewed:
    """A partition that is skewed."""

    partition: str
    """Its name."""
    costs_ms: int
    """By how much the bound would fall without it, in milliseconds."""
    without_ms: int
    """To what, in milliseconds."""

    @property
    def text(self) -> str:
        """The same as a sentence."""
        return skew_text(self.partition, self.costs_ms, self.without_ms)


@dataclass(frozen=True, slots=True)
class FleetRow:
    """One stream in the list of all. Nulls are unknown, or not there."""

    stream: StreamRow
    target_ppm: int | None
    mode: str | None
    paused: bool | None
    overview: OverviewRow | None
    recommended_bound_ms: int | None
    published_bound_ms: int | None
    applied_bound_ms: int | None
    rollout: RolloutRow | None


def recent_in(session: Session, horizon: Horizon) -> Recent:
    """Return what became of the rows of the newest batches."""
    from_us = horizon.newest.seen_us - NOW_US
    table = ReportRow
    sums = session.execute(
        select(
            func.sum(table.pairs),
            func.sum(table.late_min),
            func.sum(table.late_max),
            func.sum(table.unjudged_rows * table.keys_per_row),
        ).where(table.stream_id == horizon.stream_id, table.seen_us > from_us)
    ).one()
    # PostgreSQL sums to an exact decimal.
    pairs, least, most, unjudged = (int(number or 0) for number in sums)
    every = pairs + unjudged
    if not every:
        return Recent(from_us, None, None)
    return Recent(from_us, (pairs - most) * PPM // every, (every - least) * PPM // every)


def skewed_in(session: Session, stream_id: int) -> list[Skewed]:
    """Return the partitions that were skewed when the stream was looked at last, the most costly first."""
    rows = session.execute(
        select(PartitionRow.partition, PartitionRow.costs_ms, PartitionRow.without_bound_ms)
        .where(PartitionRow.stream_id == stream_id, PartitionRow.skewed)
        .order_by(PartitionRow.costs_ms.desc(), PartitionRow.partition)
    )
    return [Skewed(name, costs_ms or 0, without_ms or 0) for name, costs_ms, without_ms in rows]


def versions_of(session: Session) -> Mapping[int, tuple[object, ...]]:
    """Return by stream what a look depends on beside the time: while it stays the same, so does the rest."""
    acknowledged = (
        select(AcknowledgementRow.id)
        .where(AcknowledgementRow.stream_id == StreamRow.id)
        .order_by(AcknowledgementRow.applied_us.desc(), AcknowledgementRow.id.desc())
        .limit(1)
        .scalar_subquery()
    )
    rollout = aliased(RolloutRow)
    rows = session.execute(
        select(
            StreamRow.id,
            StreamRow.reports,
            SloRow.generation,
            PolicyRow.generation,
            acknowledged,
            rollout.id,
            rollout.state,
            rollout.reason,
        )
        .outerjoin(SloRow, SloRow.stream_id == StreamRow.id)
        .outerjoin(PolicyRow, PolicyRow.stream_id == StreamRow.id)
        .outerjoin(rollout, rollout.id == _newest_rollout_id())
    )
    return {row[0]: tuple(row[1:]) for row in rows}


def write_snapshots(session: Session, stream_id: int, snapshot: StreamSnapshot, now_us: int) -> None:
    """Write down how the partitions of a locked stream stand, and what of it is news."""
    for row in session.scalars(select(PartitionRow).where(PartitionRow.stream_id == stream_id)):
        found = snapshot.partitions.get(row.partition)
        if found is None:
            continue
        _tell(session, row, found, now_us)
        effect = found.effect
        result = {
            "state": found.state,
            "skewed": found.skewed,
            "skewed_us": (row.skewed_us or now_us) if found.skewed else None,
            "pairs": found.pairs,
            "need_ms": found.need_ms,
            "without_bound_ms": None if effect is None else effect.without_ms,
            "costs_ms": None if effect is None else effect.costs_ms,
        }
        for name, value in result.items():
            # A row that stays the same is not written.
            if getattr(row, name) != value:
                setattr(row, name, value)


def _tell(session: Session, row: PartitionRow, found: PartitionSnapshot, now_us: int) -> None:
    if found.skewed == row.skewed:
        return
    effect = found.effect
    if found.skewed and effect is not None:
        reason = skew_text(row.partition, effect.costs_ms or 0, effect.without_ms or 0)
    else:
        reason = f"partition {row.partition!r} does not cost enough any more to be called skewed"
    add_event(
        session,
        row.stream_id,
        now_us,
        kind="PartitionSkewed" if found.skewed else "PartitionHealed",
        reason=reason,
        before=json.dumps(row.costs_ms),
        after=json.dumps(None if effect is None else effect.costs_ms),
    )


def fleet_rows(
    session: Session,
    after: tuple[int | None, str, str] | None,
    limit: int,
    job: str | None = None,
) -> Sequence[FleetRow]:
    """Return up to ``limit`` streams, the least budget first and those of unknown budget last, then by job and stream.

    Args:
        session: the session.
        after: (remaining budget, job, stream) of the one that the page before ended with; None for the first page.
        limit: how many.
        job: only the streams of this job; None for all.
    """
    remaining = OverviewRow.remaining_ppm
    name = (StreamRow.job, StreamRow.stream)
    wanted = (
        select(
            StreamRow,
            SloRow.target_ppm,
            PolicyRow.mode,
            PolicyRow.paused,
            OverviewRow,
            _recommended(),
            _published(),
            _applied(),
            RolloutRow,
        )
        .outerjoin(OverviewRow, OverviewRow.stream_id == StreamRow.id)
        .outerjoin(SloRow, SloRow.stream_id == StreamRow.id)
        .outerjoin(PolicyRow, PolicyRow.stream_id == StreamRow.id)
        .outerjoin(RolloutRow, RolloutRow.id == _newest_rollout_id())
        .order_by(remaining.is_(None), remaining, *name)
        .limit(limit)
    )
    if job is not None:
        wanted = wanted.where(StreamRow.job == job)
    if after is not None:
        budget, *named = after
        beyond = (StreamRow.job > named[0]) | and_(StreamRow.job == named[0], StreamRow.stream > named[1])
        if budget is None:
            wanted = wanted.where(remaining.is_(None), beyond)
        else:
            wanted = wanted.where(
                remaining.is_(None) | (remaining > budget) | and_(remaining == budget, beyond)
            )
    return [FleetRow(*row) for row in session.execute(wanted)]


def worst_by_job(session: Session) -> Sequence[tuple[str, str | None, int]]:
    """Return how many streams of each job have which worst condition: (job, type or None, streams)."""
    found = session.execute(
        select(StreamRow.job, OverviewRow.worst, func.count())
        .outerjoin(OverviewRow, OverviewRow.stream_id == StreamRow.id)
        .group_by(StreamRow.job, OverviewRow.worst)
    )
    return [(job, worst, streams) for job, worst, streams in found]


# Each is found at the end of an index, stream by stream: what came before costs nothing.


def _recommended() -> ScalarSelect[int | None]:
    return (
        select(RecommendationRow.bound_ms)
        .where(RecommendationRow.stream_id == StreamRow.id)
        .scalar_subquery()
    )


def _published() -> ScalarSelect[int | None]:
    return (
        select(PublishedRow.bound_ms)
        .where(PublishedRow.stream_id == StreamRow.id)
        .order_by(PublishedRow.generation.desc())
        .limit(1)
        .scalar_subquery()
    )


def _applied() -> ScalarSelect[int]:
    return (
        select(AcknowledgementRow.bound_ms)
        .where(AcknowledgementRow.stream_id == StreamRow.id)
        .order_by(AcknowledgementRow.applied_us.desc(), AcknowledgementRow.id.desc())
        .limit(1)
        .scalar_subquery()
    )


def _newest_rollout_id() -> ScalarSelect[int]:
    rollout = aliased(RolloutRow)
    return (
        select(rollout.id)
        .where(rollout.stream_id == StreamRow.id)
        .order_by(rollout.id.desc())
        .limit(1)
        .scalar_subquery()
    )
