"""Overviews: the newest snapshot of each stream, as the store has it."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from sqlalchemy import Row, and_, bindparam, func, select, update
from sqlalchemy.orm import Session, aliased

from tidemark.controller.bounds.acknowledgements import newest_acknowledgement_query
from tidemark.controller.db.statements import upsert_many
from tidemark.controller.db.tables import (
    KNOWN,
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
from tidemark.controller.stream_state.condition_types import ConditionType
from tidemark.controller.stream_state.snapshots import PartitionSnapshot, StreamSnapshot
from tidemark.controller.streams.store import add_event
from tidemark.models.base.target import PPM
from tidemark.models.evidence.skew import skew_text
from tidemark.models.protocol.messages import Mode

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


@dataclass(frozen=True, slots=True)
class WorstOfStream:
    """The mode of a stream, and its worst condition in its newest snapshot."""

    stream_id: int
    job: str
    stream: str
    mode: Mode
    seen: bool
    """Whether it has a snapshot."""
    worst: ConditionType | None
    """None without any condition, or without a snapshot."""


def newest_completeness(session: Session, horizon: Horizon) -> NewestCompleteness:
    """Return the completeness of the newest batches."""
    from_us = horizon.newest.seen_us - NOW_US
    read = {"stream": horizon.stream_id, "from": from_us}
    sums = session.connection().execute(_NEWEST, read).one()
    # PostgreSQL sums to an exact decimal.
    pairs, late_min, late_max, unjudged = (int(number or 0) for number in sums)
    every = pairs + unjudged
    if not every:
        return NewestCompleteness(from_us, None, None)
    return NewestCompleteness(from_us, (pairs - late_max) * PPM // every, (every - late_min) * PPM // every)


# Built once: building it takes longer than running it.
_NEWEST = select(
    func.sum(ReportRow.pairs),
    func.sum(ReportRow.late_min),
    func.sum(ReportRow.late_max),
    func.sum(ReportRow.unjudged_rows * ReportRow.keys_per_row),
).where(ReportRow.stream_id == bindparam("stream"), ReportRow.seen_us > bindparam("from"))


def versions_of(session: Session) -> Mapping[int, tuple[object, ...]]:
    """Return by stream what a snapshot depends on beside the time: while it stays the same, so does the snapshot."""
    return {row[0]: tuple(row[1:]) for row in session.connection().execute(_VERSIONS)}


# Built once: building it takes longer than running it for a few streams.
_ROLLOUT = aliased(RolloutRow)
_VERSIONS = (
    select(
        StreamRow.id,
        StreamRow.reports,
        SloRow.generation,
        PolicyRow.generation,
        newest_acknowledgement_query(),
        _ROLLOUT.id,
        _ROLLOUT.state,
        _ROLLOUT.reason,
    )
    .outerjoin(SloRow, SloRow.stream_id == StreamRow.id)
    .outerjoin(PolicyRow, PolicyRow.stream_id == StreamRow.id)
    .outerjoin(_ROLLOUT, _ROLLOUT.id == newest_rollout_query())
    .where(KNOWN)
)


def write_snapshots(session: Session, stream_id: int, snapshot: StreamSnapshot, now_us: int) -> None:
    """Write down the partitions of a locked stream as of a snapshot, with an event for each change of skew."""
    connection = session.connection()
    changed = []
    for row in connection.execute(_WRITTEN, {"stream": stream_id}).all():
        found = snapshot.partitions.get(row.partition)
        if found is None:
            continue
        _add_skew_event(session, stream_id, row, found, now_us)
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
        # A row that stays the same is not written.
        if any(getattr(row, name) != value for name, value in result.items()):
            changed.append({"of_stream": stream_id, "of_partition": row.partition, **result})
    if changed:
        connection.execute(_WRITE, changed)


def write_overview(session: Session, values: Mapping[str, Any]) -> None:
    """Write a snapshot of a locked stream, by column; it replaces an earlier one whole. It bypasses the session."""
    replaced = tuple(name for name in values if name != "stream_id")
    columns = {name: [values[name]] for name in replaced}
    upsert_many(session, OverviewRow, columns, same={"stream_id": values["stream_id"]}, replaced=replaced)


# Built once: building them takes longer than running them.
_RESULT = ("state", "skewed", "skewed_us", "pairs", "need_ms", "without_bound_ms", "costs_ms")
_WRITTEN = (
    select(PartitionRow.partition, *(getattr(PartitionRow, name) for name in _RESULT))
    .where(PartitionRow.stream_id == bindparam("stream"))
    .order_by(PartitionRow.partition)
)
_PARTITIONS = PartitionRow.__table__
_WRITE = (
    update(PartitionRow)
    .where(
        _PARTITIONS.c.stream_id == bindparam("of_stream"),
        _PARTITIONS.c.partition == bindparam("of_partition"),
    )
    .values({name: bindparam(name) for name in _RESULT})
)


def _add_skew_event(
    session: Session, stream_id: int, row: Row[Any], found: PartitionSnapshot, now_us: int
) -> None:
    if found.skewed == row.skewed:
        return
    effect = found.effect
    if found.skewed and effect is not None:
        reason = skew_text(row.partition, effect.costs_ms or 0, effect.without_ms or 0)
    else:
        reason = f"partition {row.partition!r} is not skewed any more: it costs too little"
    add_event(
        session,
        stream_id,
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
        .where(KNOWN)
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


def list_worst(session: Session, jobs: Collection[str]) -> Sequence[WorstOfStream]:
    """Return the known streams of some jobs with the worst condition of each."""
    found = session.connection().execute(_WORST, {"jobs": [*jobs]})
    return [
        WorstOfStream(
            stream_id,
            job,
            stream,
            cast("Mode", mode or "Off"),
            seen_us is not None,
            cast("ConditionType | None", worst),
        )
        for stream_id, job, stream, mode, seen_us, worst in found
    ]


# Built once: building it takes longer than running it.
_WORST = (
    select(
        StreamRow.id, StreamRow.job, StreamRow.stream, PolicyRow.mode, OverviewRow.seen_us, OverviewRow.worst
    )
    .outerjoin(PolicyRow, PolicyRow.stream_id == StreamRow.id)
    .outerjoin(OverviewRow, OverviewRow.stream_id == StreamRow.id)
    .where(KNOWN, StreamRow.job.in_(bindparam("jobs", expanding=True)))
)


def worst_by_job(session: Session) -> Sequence[tuple[str, ConditionType | None, int]]:
    """Return how many streams of each job have which worst condition, as (job, type or None, streams)."""
    found = session.execute(
        select(StreamRow.job, OverviewRow.worst, func.count())
        .outerjoin(OverviewRow, OverviewRow.stream_id == StreamRow.id)
        .where(KNOWN)
        .group_by(StreamRow.job, OverviewRow.worst)
    )
    return [(job, cast("ConditionType | None", worst), streams) for job, worst, streams in found]
