"""What the list of the fleet shows of each stream, in one statement: a small part of a stream's whole state."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Select, and_, bindparam, select
from sqlalchemy.orm import Session

from tidemark.controller.bounds.acknowledgements import newest_acknowledgement_query
from tidemark.controller.bounds.publication import newest_generation_query
from tidemark.controller.db.tables import (
    AcknowledgementRow,
    OverviewRow,
    PolicyRow,
    PublishedRow,
    RecommendationRow,
    RolloutRow,
    SloRow,
    StreamRow,
)
from tidemark.controller.rollout.store import newest_rollout_query
from tidemark.controller.specs.pins import StoredPin, pins_in_force


@dataclass(frozen=True, slots=True)
class FleetState:
    """A stream in the list of the fleet."""

    id: int
    """Its number."""
    job: str
    """Name of the job."""
    stream: str
    """Name of the stream."""
    registered_us: int | None
    """When its first report came, in microseconds since the epoch; None while it is only expected."""
    slo_generation: int | None
    """Generation of its SLO; None without one."""
    target_ppm: int | None
    """The SLO's target, in parts per million."""
    mode: str | None
    """Mode of its policy; None without one."""
    paused: bool | None
    """Whether its policy is paused; None without one."""
    recommended_bound_ms: int | None
    """The bound recommended, in milliseconds."""
    published_bound_ms: int | None
    """The bound published last, in milliseconds."""
    applied_bound_ms: int | None
    """The bound acknowledged last, in milliseconds."""
    overview: OverviewRow | None
    """Its newest snapshot."""
    rollout: RolloutRow | None
    """Its newest rollout."""


def load_fleet(session: Session, stream_ids: Collection[int]) -> list[tuple[FleetState, StoredPin | None]]:
    """Return streams as the list of the fleet shows them, each with the pin that holds it, in the given order."""
    found = {row[0]: FleetState(*row) for row in session.execute(_FLEET, {"ids": [*stream_ids]})}
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
        SloRow.generation,
        SloRow.target_ppm,
        PolicyRow.mode,
        PolicyRow.paused,
        RecommendationRow.bound_ms,
        PublishedRow.bound_ms,
        AcknowledgementRow.bound_ms,
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
