"""The fleet: all streams at a glance, from their newest snapshots."""

from __future__ import annotations

import json
from collections import Counter
from typing import cast

from fastapi import APIRouter, Response

from tidemark.controller.access.authorize import ThePrincipal
from tidemark.controller.access.principal import Principal
from tidemark.controller.api import schemas
from tidemark.controller.api.cursors import ThePaging, decode_cursor
from tidemark.controller.api.dependencies import TheService
from tidemark.controller.api.documented import answers
from tidemark.controller.api.etags import IfNoneMatch, answered
from tidemark.controller.api.names import OfJob
from tidemark.controller.api.reach import in_reach
from tidemark.controller.api.schemas import ConditionType
from tidemark.controller.db.tables import OverviewRow
from tidemark.controller.errors import ErrorItem, InvalidParameterError
from tidemark.controller.specs.pins import StoredPin
from tidemark.controller.stream_state.budget_course import BudgetCourse
from tidemark.controller.stream_state.condition_types import CONDITION_TYPES, summary_of
from tidemark.controller.stream_state.fleet_states import FleetState, load_fleet
from tidemark.controller.stream_state.overview_store import FleetRow, fleet_page, worst_by_job
from tidemark.models.evidence.skew import skew_text
from tidemark.models.protocol.messages import Mode
from tidemark.models.rollout.states import Gate, State

router = APIRouter(tags=["streams"])

_UNKNOWN = ""
"""Stands for an unknown budget in a cursor."""


@router.get(
    "/v1/fleet",
    operation_id="listFleet",
    summary="List the fleet",
    response_model=schemas.FleetPage,
    responses=answers("FleetPage", 304, 422, 503),
)
def list_all(
    service: TheService,
    principal: ThePrincipal,
    paging: ThePaging,
    job: OfJob = None,
    if_none_match: IfNoneMatch = None,
) -> Response:
    """List the streams in reach with what matters most about each, those with the smallest budget left first."""
    after = _position(paging.cursor)
    with service.database.read() as session:
        rows = in_reach(
            principal,
            lambda position, limit: fleet_page(session, position, limit, job),
            job=lambda row: row.job,
            position=_place,
            after=after,
            limit=paging.rows,
        )
        page, next_cursor = paging.cut(rows, _in_cursor)
        worst = worst_by_job(session)
        states = load_fleet(session, [row.stream_id for row in page])
    found = schemas.FleetPage(
        streams=[_stream(state, pin) for state, pin in states],
        totals=_totals(principal, [found for found in worst if job is None or found[0] == job]),
        next_cursor=next_cursor,
    )
    return answered(found, if_none_match)


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
    return row.remaining_ppm, row.job, row.stream


def _in_cursor(row: FleetRow) -> tuple[int | str, str, str]:
    remaining, job, stream = _place(row)
    return _UNKNOWN if remaining is None else remaining, job, stream


def _totals(principal: Principal, worst: list[tuple[str, ConditionType | None, int]]) -> schemas.FleetTotals:
    counted: Counter[ConditionType | None] = Counter()
    for job, kind, streams in worst:
        if principal.sees_all or principal.sees(job):
            counted[kind] += streams
    rows = [
        schemas.WorstCount(**dict(summary_of(kind)), streams=counted[kind])
        for kind in CONDITION_TYPES
        if kind in counted
    ]
    if None in counted:
        rows.append(schemas.WorstCount(type=None, severity="ok", title="No condition", streams=counted[None]))
    return schemas.FleetTotals(streams=counted.total(), worst=rows)


def _stream(state: FleetState, pin: StoredPin | None) -> schemas.FleetStream:
    seen, rollout = state.overview, state.rollout
    kinds = [] if seen is None else [kind for kind, _ in json.loads(seen.conditions)]
    return schemas.FleetStream(
        job=state.job,
        stream=state.stream,
        mode=cast("Mode", state.mode or "Off"),
        registered_us=state.registered_us,
        paused=bool(state.paused),
        pin=schemas.PinInForce.of_pin(pin),
        target_ppm=state.target_ppm,
        completeness_min_ppm=None if seen is None else seen.now_min_ppm,
        completeness_max_ppm=None if seen is None else seen.now_max_ppm,
        provisional=seen is None or seen.provisional,
        window_min_ppm=None if seen is None else seen.window_min_ppm,
        window_max_ppm=None if seen is None else seen.window_max_ppm,
        budget_remaining_ppm=None if seen is None else seen.remaining_ppm,
        budget_course_ppm=_course(state),
        recommended_bound_ms=state.recommended_bound_ms,
        published_bound_ms=state.published_bound_ms,
        applied_bound_ms=state.applied_bound_ms,
        in_use_bound_ms=None if seen is None else seen.in_use_bound_ms,
        effective_bound_ms=None if seen is None else seen.effective_bound_ms,
        rollout=None
        if rollout is None
        else schemas.FleetRollout(
            id=rollout.id,
            state=cast("State", rollout.state),
            held_by=cast("Gate | None", rollout.held_by),
            from_bound_ms=rollout.from_bound_ms,
            to_bound_ms=rollout.to_bound_ms,
        ),
        worst=summary_of(kinds[0]) if kinds else None,
        alerts=[kind for kind in kinds if CONDITION_TYPES[kind].problem],
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


def _course(state: FleetState) -> list[int | None]:
    stored = None if state.overview is None else state.overview.budget_course
    course = None if stored is None else BudgetCourse.from_json(stored)
    # A course of an SLO that was replaced since the snapshot says nothing of this one.
    if course is None or course.generation != state.slo_generation:
        return []
    return [*course.left_ppm]


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
