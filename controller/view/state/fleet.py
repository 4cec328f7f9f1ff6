"""What lists of streams and of jobs show: the newest snapshots, and a small part of the whole state of a stream."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, cast

from sqlalchemy import Row, Select, and_, bindparam, func, select
from sqlalchemy.orm import Session

from tidemark.controller.base.db.tables import (
    KNOWN,
    AcknowledgementRow,
    OverviewRow,
    PolicyRow,
    PublishedRow,
    RecommendationRow,
    RolloutRow,
    SloRow,
    StreamRow,
)
from tidemark.controller.control.bounds.acknowledgements import newest_acknowledgement_query
from tidemark.controller.control.bounds.publication import newest_generation_query
from tidemark.controller.control.rollout.store import newest_rollout_query
from tidemark.controller.specs.pins import StoredPin, pins_in_force
from tidemark.controller.view.state.answers import ConditionType


def load_fleet(session: Session, stream_ids: Collection[int]) -> list[tuple[Row[Any], StoredPin | None]]:
    """Return streams as the list of the fleet shows them, each with the pin that holds it, in the given order."""
    found = {row.id: row for row in session.execute(_FLEET, {"ids": [*stream_ids]})}
    states = [found[stream_id] for stream_id in stream_ids]
    pins = pins_in_force(session, [(state.job, state.stream) for state in states])
    return [(state, pins.get((state.job, state.stream))) for state in states]


# Built once: building it takes longer than running it for a few streams.
_FLEET: Select[*tuple[Any, ...]] = (
    select(
        StreamRow.id,
        StreamRow.job,
        StreamRow.stream,
        StreamRow.registered_us,
        SloRow.generation.label("slo_generation"),
        SloRow.target_ppm,
        func.coalesce(PolicyRow.mode, "Off").label("mode"),
        PolicyRow.paused,
        RecommendationRow.bound_ms.label("recommended_bound_ms"),
        PublishedRow.bound_ms.label("published_bound_ms"),
        AcknowledgementRow.bound_ms.label("applied_bound_ms"),
        OverviewRow,
        RolloutRow,
    )
    .outerjoin(SloRow, SloRow.stream_id == StreamRow.id)
    .outerjoin(PolicyRow, PolicyRow.stream_id == StreamRow.id)
    .outerjoin(RecommendationRow, RecommendationRow.stream_id == StreamRow.id)
    .outerjoin(OverviewRow, OverviewRow.stream_id == StreamRow.id)
    .outerjoin(
        PublishedRow,
        and_(PublishedRow.stream_id == StreamRow.id, PublishedRow.generation == newest_generation_query()),
    )
    .outerjoin(AcknowledgementRow, AcknowledgementRow.id == newest_acknowledgement_query())
    .outerjoin(RolloutRow, RolloutRow.id == newest_rollout_query())
    .where(StreamRow.id.in_(bindparam("ids", expanding=True)))
)


def fleet_page(
    session: Session,
    after: tuple[int | None, str, str] | None,
    limit: int,
    job: str | None = None,
) -> Sequence[Row[Any]]:
    """Return up to ``limit`` streams by the budget that is left, unknown budgets last, then by job and stream.

    Args:
        after: (remaining budget, job, stream) of the one that the page before ended with; None for the first page.
    """
    remaining = OverviewRow.remaining_ppm
    wanted: Select[*tuple[Any, ...]] = (
        select(StreamRow.id.label("stream_id"), StreamRow.job, StreamRow.stream, remaining)
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
    return session.execute(wanted).all()


def list_savings(session: Session, job: str | None = None) -> Sequence[Row[Any]]:
    """Return of each known stream, of a job or of all, when it had its newest snapshot, and what it would save then."""
    wanted: Select[*tuple[Any, ...]] = (
        select(StreamRow.job, StreamRow.stream, OverviewRow.seen_us, OverviewRow.savings)
        .outerjoin(OverviewRow, OverviewRow.stream_id == StreamRow.id)
        .where(KNOWN)
    )
    return session.execute(wanted if job is None else wanted.where(StreamRow.job == job)).all()


def list_worst(session: Session, jobs: Collection[str]) -> Sequence[Row[Any]]:
    """Return the known streams of some jobs: when each had its newest snapshot, and its worst condition then."""
    return session.execute(_WORST, {"jobs": [*jobs]}).all()


# Built once: building it takes longer than running it.
_WORST: Select[*tuple[Any, ...]] = (
    select(
        StreamRow.id,
        StreamRow.job,
        StreamRow.stream,
        func.coalesce(PolicyRow.mode, "Off").label("mode"),
        OverviewRow.seen_us,
        OverviewRow.worst,
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
