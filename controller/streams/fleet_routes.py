"""The fleet: all streams at a glance, from what is kept up to date for it."""

from __future__ import annotations

import json
from collections import Counter
from typing import cast

from fastapi import APIRouter

from tidemark.controller.access.authorize import ThePrincipal
from tidemark.controller.access.principal import Principal
from tidemark.controller.api import schemas
from tidemark.controller.api.cursors import Cursor, Limit, decode_cursor, encode_cursor
from tidemark.controller.api.dependencies import TheService
from tidemark.controller.api.documented import answers
from tidemark.controller.api.names import OfJob
from tidemark.controller.api.reach import in_reach
from tidemark.controller.db.tables import OverviewRow
from tidemark.controller.errors import ErrorItem, InvalidParameterError
from tidemark.controller.pins.store import StoredPin, pins_in_force
from tidemark.controller.stream_state.conditions import ALERTS, WORST_FIRST
from tidemark.controller.stream_state.overview_store import FleetRow, fleet_rows, worst_by_job
from tidemark.controller.stream_state.views import pin_answer
from tidemark.models.rollout.facts import Gate
from tidemark.models.rollout.states import State
from tidemark.models.skew import skew_text
from tidemark.models.wire import Mode

__all__ = ["router"]

router = APIRouter(tags=["streams"])

_UNKNOWN = ""
"""Stands for an unknown budget in a cursor."""


@router.get(
    "/v1/fleet",
    operation_id="listFleet",
    summary="List the fleet",
    responses=answers("FleetPage", 422, 503),
)
def list_all(
    service: TheService,
    principal: ThePrincipal,
    job: OfJob = None,
    limit: Limit = 100,
    cursor: Cursor = None,
) -> schemas.FleetPage:
    """List the streams in reach with what matters most of each, the least budget first."""
    after = _position(cursor)
    with service.database.read() as session:
        rows = in_reach(
            principal,
            lambda position, most: fleet_rows(session, position, most, job),
            job=lambda row: row.stream.job,
            position=_place,
            after=after,
            limit=limit + 1,
        )
        page = rows[:limit]
        pins = pins_in_force(session, [(row.stream.job, row.stream.stream) for row in page])
        worst = worst_by_job(session)
        streams = [_stream(row, pins.get((row.stream.job, row.stream.stream))) for row in page]
    return schemas.FleetPage(
        streams=streams,
        totals=_totals(principal, [found for found in worst if job is None or found[0] == job]),
        next_cursor=_cursor(page[-1]) if len(rows) > limit else None,
    )


def _position(cursor: str | None) -> tuple[int | None, str, str] | None:
    position = decode_cursor(cursor, 3)
    if position is None:
        return None
    budget, job, stream = position
    try:
        remaining = None if budget == _UNKNOWN else int(budget)
    except ValueError:
        remaining = 2**63
    if remaining is not None and abs(remaining) >= 2**63:
        reason = "this is not a cursor of this list; leave it out to begin at the first page"
        raise InvalidParameterError(f"cursor: {reason}", errors=(ErrorItem("cursor", reason),))
    return remaining, job, stream


def _place(row: FleetRow) -> tuple[int | None, str, str]:
    remaining = None if row.overview is None else row.overview.remaining_ppm
    return remaining, row.stream.job, row.stream.stream


def _cursor(row: FleetRow) -> str:
    remaining, job, stream = _place(row)
    return encode_cursor(_UNKNOWN if remaining is None else str(remaining), job, stream)


def _totals(principal: Principal, worst: list[tuple[str, str | None, int]]) -> schemas.FleetTotals:
    counted: Counter[str | None] = Counter()
    for job, kind, streams in worst:
        if principal.sees_all or principal.sees(job):
            counted[kind] += streams
    order = [kind for kind in (*WORST_FIRST, None) if kind in counted]
    return schemas.FleetTotals(
        streams=counted.total(),
        worst=[schemas.WorstCount(type=kind, streams=counted[kind]) for kind in order],
    )


def _stream(row: FleetRow, pin: StoredPin | None) -> schemas.FleetStream:
    seen, rollout = row.overview, row.rollout
    conditions = _conditions(seen)
    return schemas.FleetStream(
        job=row.stream.job,
        stream=row.stream.stream,
        mode="Off" if row.mode is None else cast("Mode", row.mode),
        paused=bool(row.paused),
        pin=pin_answer(pin),
        target_ppm=row.target_ppm,
        completeness_min_ppm=None if seen is None else seen.now_min_ppm,
        completeness_max_ppm=None if seen is None else seen.now_max_ppm,
        provisional=seen is None or seen.provisional,
        window_min_ppm=None if seen is None else seen.window_min_ppm,
        window_max_ppm=None if seen is None else seen.window_max_ppm,
        budget_remaining_ppm=None if seen is None else seen.remaining_ppm,
        recommended_bound_ms=row.recommended_bound_ms,
        published_bound_ms=row.published_bound_ms,
        applied_bound_ms=row.applied_bound_ms,
        in_use_bound_ms=None if seen is None else seen.in_use_bound_ms,
        effective_bound_ms=None if seen is None else seen.effective_bound_ms,
        rollout=None
        if rollout is None
        else schemas.FleetRollout(
            id=rollout.id,
            state=cast("State", rollout.state),
            held_by=cast("Gate | None", rollout.held_by),
        ),
        worst=conditions[0] if conditions else None,
        alerts=[condition.type for condition in conditions if condition.type in ALERTS],
        partitions=schemas.FleetPartitions(
            total=0 if seen is None else seen.partitions,
            idle=0 if seen is None else seen.idle,
            behind=0 if seen is None else seen.behind,
            skewed=0 if seen is None else seen.skewed,
            future=0 if seen is None else seen.future,
        ),
        skewed=_skewed(seen),
        last_batch_us=None if seen is None else seen.last_batch_us,
        updated_us=None if seen is None else seen.seen_us,
    )


def _conditions(seen: OverviewRow | None) -> list[schemas.Condition]:
    if seen is None:
        return []
    return [schemas.Condition(type=kind, detail=detail) for kind, detail in json.loads(seen.conditions)]


def _skewed(seen: OverviewRow | None) -> schemas.SkewedPartition | None:
    if seen is None or seen.skewed_partition is None:
        return None
    costs_ms, without_ms = seen.skewed_costs_ms or 0, seen.skewed_without_ms or 0
    return schemas.SkewedPartition(
        partition=seen.skewed_partition,
        without_bound_ms=without_ms,
        costs_ms=costs_ms,
        text=skew_text(seen.skewed_partition, costs_ms, without_ms),
    )
