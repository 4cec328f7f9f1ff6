"""The fleet: all streams at a glance, from their newest snapshots."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from fastapi import APIRouter, Response
from sqlalchemy import Row

from tidemark.controller.access.authorize import ThePrincipal
from tidemark.controller.access.principal import Principal
from tidemark.controller.api import schemas
from tidemark.controller.api.cursors import ThePaging, decode_cursor
from tidemark.controller.api.dependencies import TheService
from tidemark.controller.api.documented import answers
from tidemark.controller.api.etags import IfNoneMatch, answered
from tidemark.controller.api.names import OfJob
from tidemark.controller.api.reach import in_reach
from tidemark.controller.db.tables import OverviewRow
from tidemark.controller.errors import ErrorItem, InvalidParameterError
from tidemark.controller.pins.store import StoredPin
from tidemark.controller.pins.views import pin_answer
from tidemark.controller.stream_state.answers import CONDITION_TYPES, ConditionType, summary_of
from tidemark.controller.stream_state.budget import BudgetCourse
from tidemark.controller.stream_state.fleet import fleet_page, load_fleet, worst_by_job
from tidemark.models.evidence.skew import skew_text

router = APIRouter(tags=["streams"])

_UNSEEN = OverviewRow(
    conditions="[]",
    provisional=True,
    **dict.fromkeys(("partitions", "idle", "behind", "skewed", "future"), 0),
)
"""Of a stream without a snapshot; all else is unknown."""

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


def _place(row: Row[Any]) -> tuple[int | None, str, str]:
    return row.remaining_ppm, row.job, row.stream


def _in_cursor(row: Row[Any]) -> tuple[int | str, str, str]:
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


def _stream(state: Row[Any], pin: StoredPin | None) -> schemas.FleetStream:
    seen: OverviewRow = state.OverviewRow or _UNSEEN
    rollout, kinds = state.RolloutRow, [kind for kind, _ in json.loads(seen.conditions)]
    return schemas.FleetStream.of(
        seen,
        job=state.job,
        stream=state.stream,
        mode=state.mode,
        registered_us=state.registered_us,
        paused=bool(state.paused),
        pin=pin_answer(pin),
        target_ppm=state.target_ppm,
        completeness_min_ppm=seen.now_min_ppm,
        completeness_max_ppm=seen.now_max_ppm,
        budget_remaining_ppm=seen.remaining_ppm,
        budget_course_ppm=_course(seen, state.slo_generation),
        recommended_bound_ms=state.recommended_bound_ms,
        published_bound_ms=state.published_bound_ms,
        applied_bound_ms=state.applied_bound_ms,
        rollout=None if rollout is None else schemas.FleetRollout.of(rollout),
        worst=summary_of(kinds[0]) if kinds else None,
        alerts=[kind for kind in kinds if CONDITION_TYPES[kind].problem],
        partitions=schemas.FleetPartitions.of(seen, total=seen.partitions),
        skewed=_skewed(seen),
        updated_us=seen.seen_us,
    )


def _course(seen: OverviewRow, slo_generation: int | None) -> list[int | None]:
    course = None if seen.budget_course is None else BudgetCourse.from_json(seen.budget_course)
    # A course of an SLO that was replaced since the snapshot says nothing of this one.
    return [] if course is None or course.generation != slo_generation else [*course.left_ppm]


def _skewed(seen: OverviewRow) -> schemas.SkewedPartition | None:
    if seen.skewed_partition is None:
        return None
    costs_ms, without_ms = seen.skewed_costs_ms or 0, seen.skewed_without_ms or 0
    return schemas.SkewedPartition(
        partition=seen.skewed_partition,
        without_bound_ms=without_ms,
        costs_ms=costs_ms,
        text=skew_text(seen.skewed_partition, costs_ms, without_ms),
    )
