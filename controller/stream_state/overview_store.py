"""Overviews: the newest snapshot of each stream, as the store has it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from sqlalchemy import and_, func, select
from sqlalchemy.orm import Session, aliased

from tidemark.controller.api.schemas import ConditionType
from tidemark.controller.bounds.acknowledgements import newest_acknowledgement_query
from tidemark.controller.db.tables import (
    OverviewRow,
    PartitionRow,
    PolicyRow,
    ReportRow,
    RolloutRow,
    SloRow,
    StreamRow,
)
from tidemark.controller.evidence.horizon import Horizon
from tidemark.controller.rollout.store import newest_rollout_query
from tidemark.controller.stream_state.snapshots import PartitionSnapshot, StreamSnapshot
from tidemark.controller.streams.store import add_event
from tidemark.models.skew import skew_text
from tidemark.models.target import PPM

NOW_US = 600_000_000
"""How far back from the newest batch "now" reaches, in microseconds: ten minutes, or one batch."""


@dataclass(frozen=True, slots=True)
class NewestCompleteness:
    """The completeness of the newest batches."""

    from_us: int
    """From when on they count."""
    min_ppm: int | None
    """Minimum share admitted; None without rows."""
    max_ppm: int | None
    """Maximum share admitted."""


@dataclass(frozen=True, slots=True)
class FleetRow:
    """The place of one stream in the fleet."""

    stream_id: int
    job: str
    stream: str
    remaining_ppm: int | None
    """What is left of its budget; None when unknown."""


def newest_completeness(session: Session, horizon: Horizon) -> NewestCompleteness:
    """Return the completeness of the newest batches."""
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
    pairs, late_min, late_max, unjudged = (int(number or 0) for number in sums)
    every = pairs + unjudged
    if not every:
        return NewestCompleteness(from_us, None, None)
    return NewestCompleteness(from_us, (pairs - late_max) * PPM // every, (every - late_min) * PPM // every)


def versions_of(session: Session) -> Mapping[int, tuple[object, ...]]:
    """Return by stream what a snapshot depends on beside the time: while it stays the same, so does the snapshot."""
    rollout = aliased(RolloutRow)
    rows = session.execute(
        select(
            StreamRow.id,
            StreamRow.reports,
            SloRow.generation,
            PolicyRow.generation,
            newest_acknowledgement_query(),
            rollout.id,
            rollout.state,
            rollout.reason,
        )
        .outerjoin(SloRow, SloRow.stream_id == StreamRow.id)
        .outerjoin(PolicyRow, PolicyRow.stream_id == StreamRow.id)
        .outerjoin(rollout, rollout.id == newest_rollout_query())
    )
    return {row[0]: tuple(row[1:]) for row in rows}


def write_snapshots(session: Session, stream_id: int, snapshot: StreamSnapshot, now_us: int) -> None:
    """Write down the partitions of a locked stream as of a snapshot, with an event for each change of skew."""
    for row in session.scalars(select(PartitionRow).where(PartitionRow.stream_id == stream_id)):
        found = snapshot.partitions.get(row.partition)
        if found is None:
            continue
        _add_skew_event(session, row, found, now_us)
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


def _add_skew_event(session: Session, row: PartitionRow, found: PartitionSnapshot, now_us: int) -> None:
    if found.skewed == row.skewed:
        return
    effect = found.effect
    if found.skewed and effect is not None:
        reason = skew_text(row.partition, effect.costs_ms or 0, effect.without_ms or 0)
    else:
        reason = f"partition {row.partition!r} is not skewed any more: it costs too little"
    add_event(
        session,
        row.stream_id,
        now_us,
        kind="PartitionSkewed" if found.skewed else "PartitionHealed",
        reason=reason,
        before=json.dumps(row.costs_ms),
        after=json.dumps(None if effect is None else effect.costs_ms),
    )


def fleet_page(
    session: Session,
    after: tuple[int | None, str, str] | None,
    limit: int,
    job: str | None = None,
) -> Sequence[FleetRow]:
    """Return up to ``limit`` streams by the budget that is left, unknown budgets last, then by job and stream.

    Args:
        session: the session.
        after: (remaining budget, job, stream) of the one that the page before ended with; None for the first page.
        limit: how many.
        job: only the streams of this job; None for all.
    """
    remaining = OverviewRow.remaining_ppm
    wanted = (
        select(StreamRow.id, StreamRow.job, StreamRow.stream, remaining)
        .outerjoin(OverviewRow, OverviewRow.stream_id == StreamRow.id)
        .order_by(remaining.is_(None), remaining, StreamRow.job, StreamRow.stream)
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


def worst_by_job(session: Session) -> Sequence[tuple[str, ConditionType | None, int]]:
    """Return how many streams of each job have which worst condition, as (job, type or None, streams)."""
    found = session.execute(
        select(StreamRow.job, OverviewRow.worst, func.count())
        .outerjoin(OverviewRow, OverviewRow.stream_id == StreamRow.id)
        .group_by(StreamRow.job, OverviewRow.worst)
    )
    return [(job, cast("ConditionType | None", worst), streams) for job, worst, streams in found]
