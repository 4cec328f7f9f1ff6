"""Pins: kill switches on a stream, a job, or the whole fleet."""

from __future__ import annotations

import time

from fastapi import APIRouter
from pydantic import TypeAdapter
from sqlalchemy.orm import Session

from tidemark.controller.access.authorize import ThePrincipal
from tidemark.controller.access.principal import LOOPBACK, Principal
from tidemark.controller.api.bodies import PinBody, parse_body
from tidemark.controller.api.cursors import Cursor, Limit, decode_cursor, encode_cursor
from tidemark.controller.api.dependencies import TheService
from tidemark.controller.api.documented import answers, takes
from tidemark.controller.api.names import WhichJob, WhichStream
from tidemark.controller.api.raw_body import JsonBody
from tidemark.controller.api.schemas import PinAnswer, PinnedStream, PinPage, PinSummary
from tidemark.controller.api.visible import in_reach
from tidemark.controller.api.writes import DryRun, Reason
from tidemark.controller.db.tables import StreamRow
from tidemark.controller.pins.apply import remove_pin, set_pin, standing_pin
from tidemark.controller.pins.cost import PinCost, cost_of
from tidemark.controller.pins.store import FLEET, PinScope, StandingPin, list_pins, streams_in
from tidemark.controller.service import Service
from tidemark.controller.stream_state.views import milliseconds

__all__ = ["router"]

router = APIRouter(tags=["pins"])
of_stream = APIRouter(prefix="/v1/jobs/{job}/streams/{stream}", tags=["pins"])

_PIN = TypeAdapter(PinBody)

COST_SECONDS = 5.0
"""How long an answer may take to work out what a pin costs: whoever pulls a kill switch must not wait for figures."""

DRY_RUN_SECONDS = 1.0
"""The same of a dry run, which holds its streams locked meanwhile."""

_ABSENT = {404: "pin-not-set"}


@router.get("/v1/pins", operation_id="listPins", summary="List pins", responses=answers("PinPage", 422, 503))
def list_all(
    service: TheService, principal: ThePrincipal, limit: Limit = 100, cursor: Cursor = None
) -> PinPage:
    """List the pins there are in reach: the fleet's, then by job and stream."""
    position = decode_cursor(cursor, 2)
    with service.database.read() as session:
        pins = in_reach(
            principal,
            lambda after, most: list_pins(session, after, most),
            job=lambda pin: pin.scope.job,
            position=lambda pin: (pin.scope.job or "", pin.scope.stream or ""),
            after=None if position is None else (position[0], position[1]),
            limit=limit + 1,
        )
    page = pins[:limit]
    last = page[-1].scope if len(pins) > limit else None
    return PinPage(
        pins=[
            PinSummary(
                scope=pin.scope.kind,
                job=pin.scope.job,
                stream=pin.scope.stream,
                to=pin.to,
                reason=pin.reason,
                since_us=pin.since_us,
            )
            for pin in page
        ],
        next_cursor=None if last is None else encode_cursor(last.job or "", last.stream or ""),
    )


@router.get(
    "/v1/pin",
    operation_id="getFleetPin",
    summary="Read the fleet's pin",
    responses=answers("PinAnswer", 404, 422, 503, kinds=_ABSENT),
)
def read_fleet(service: TheService, principal: ThePrincipal) -> PinAnswer:
    """Return the pin on the whole fleet and what it does to each stream in reach."""
    return _read(service, FLEET, principal)


@router.put(
    "/v1/pin",
    operation_id="putFleetPin",
    summary="Pin the fleet",
    responses=answers("PinAnswer", 400, 413, 415, 422, 503),
    openapi_extra=takes("PinBody"),
)
def write_fleet(body: JsonBody, service: TheService, dry_run: DryRun) -> PinAnswer:
    """Hold every stream there is and will be, but for those with a pin of their own; the answer says what it costs."""
    return _write(service, FLEET, body, dry_run=dry_run)


@router.delete(
    "/v1/pin",
    operation_id="deleteFleetPin",
    summary="Unpin the fleet",
    responses=answers("PinAnswer", 404, 422, 503, kinds=_ABSENT),
)
def delete_fleet(service: TheService, dry_run: DryRun, reason: Reason) -> PinAnswer:
    """Take the fleet's pin away; return it, and what that does to each stream."""
    return _delete(service, FLEET, reason, dry_run=dry_run)


@router.get(
    "/v1/jobs/{job}/pin",
    operation_id="getJobPin",
    summary="Read a job's pin",
    responses=answers("PinAnswer", 404, 422, 503, kinds=_ABSENT),
)
def read_job(job: WhichJob, service: TheService) -> PinAnswer:
    """Return the pin on the job itself and what it does to each of its streams."""
    return _read(service, PinScope(job))


@router.put(
    "/v1/jobs/{job}/pin",
    operation_id="putJobPin",
    summary="Pin a job",
    responses=answers("PinAnswer", 400, 413, 415, 422, 503),
    openapi_extra=takes("PinBody"),
)
def write_job(job: WhichJob, body: JsonBody, service: TheService, dry_run: DryRun) -> PinAnswer:
    """Hold all streams of the job, those that appear later too; it goes before the fleet's pin."""
    return _write(service, PinScope(job), body, dry_run=dry_run)


@router.delete(
    "/v1/jobs/{job}/pin",
    operation_id="deleteJobPin",
    summary="Unpin a job",
    responses=answers("PinAnswer", 404, 422, 503, kinds=_ABSENT),
)
def delete_job(job: WhichJob, service: TheService, dry_run: DryRun, reason: Reason) -> PinAnswer:
    """Take the job's pin away; the fleet's, if there is one, holds its streams then."""
    return _delete(service, PinScope(job), reason, dry_run=dry_run)


@of_stream.get(
    "/pin",
    operation_id="getStreamPin",
    summary="Read a stream's pin",
    responses=answers("PinAnswer", 404, 422, 503, kinds=_ABSENT),
)
def read_stream(which: WhichStream, service: TheService) -> PinAnswer:
    """Return the pin on the stream itself; the status has the one in force."""
    return _read(service, PinScope(which.job, which.stream))


@of_stream.put(
    "/pin",
    operation_id="putStreamPin",
    summary="Pin a stream",
    responses=answers("PinAnswer", 400, 413, 415, 422, 503),
    openapi_extra=takes("PinBody"),
)
def write_stream(which: WhichStream, body: JsonBody, service: TheService, dry_run: DryRun) -> PinAnswer:
    """Hold the stream; it goes before its job's pin and the fleet's."""
    return _write(service, PinScope(which.job, which.stream), body, dry_run=dry_run)


@of_stream.delete(
    "/pin",
    operation_id="deleteStreamPin",
    summary="Unpin a stream",
    responses=answers("PinAnswer", 404, 422, 503, kinds=_ABSENT),
)
def delete_stream(which: WhichStream, service: TheService, dry_run: DryRun, reason: Reason) -> PinAnswer:
    """Take the stream's pin away; its job's or the fleet's, if there is one, holds it then."""
    return _delete(service, PinScope(which.job, which.stream), reason, dry_run=dry_run)


router.include_router(of_stream)


def _read(service: Service, scope: PinScope, principal: Principal = LOOPBACK) -> PinAnswer:
    with service.database.read() as session:
        return _answer(service, session, standing_pin(session, scope), principal=principal)


def _write(service: Service, scope: PinScope, body: bytes, *, dry_run: bool) -> PinAnswer:
    asked = parse_body(_PIN, body)
    now_us = service.clock()
    with service.database.write(keep=not dry_run) as session:
        pin = set_pin(
            session, StandingPin(scope, asked.to, asked.reason, now_us), now_us, service.database.limits
        )
        if dry_run:
            return _answer(service, session, pin, dry_run=True)
    return _told(service, pin)


def _delete(service: Service, scope: PinScope, reason: str, *, dry_run: bool) -> PinAnswer:
    with service.database.write(keep=not dry_run) as session:
        pin = remove_pin(session, scope, reason, service.clock())
        if dry_run:
            return _answer(service, session, pin, dry_run=True)
    return _told(service, pin)


def _told(service: Service, pin: StandingPin) -> PinAnswer:
    """Return the answer after a write; the pin is in force by now, whatever the figures take."""
    service.database.answers_changed()
    with service.database.read() as session:
        return _answer(service, session, pin)


def _answer(
    service: Service,
    session: Session,
    pin: StandingPin,
    *,
    dry_run: bool = False,
    principal: Principal = LOOPBACK,
) -> PinAnswer:
    until = time.monotonic() + (DRY_RUN_SECONDS if dry_run else COST_SECONDS)
    session.flush()
    found: list[PinnedStream] = []
    rows = [row for row in streams_in(session, pin.scope, lock=False) if principal.sees(row.job)]
    for row in rows:
        if found and time.monotonic() > until:
            break
        found.append(_stream(row, cost_of(session, service.decider, row, pin.scope)))
    return PinAnswer(
        scope=pin.scope.kind,
        job=pin.scope.job,
        stream=pin.scope.stream,
        to=pin.to,
        reason=pin.reason,
        since_us=pin.since_us,
        streams=found,
        more_streams=len(rows) - len(found),
        dry_run=dry_run,
    )


def _stream(row: StreamRow, cost: PinCost) -> PinnedStream:
    wall_us = cost.latency_wall_us
    return PinnedStream(
        job=row.job,
        stream=row.stream,
        bound_ms=cost.bound_ms,
        in_use_bound_ms=cost.in_use_bound_ms,
        completeness_ppm=cost.completeness_ppm,
        latency_wall_ms=None if wall_us is None else milliseconds(round(wall_us)),
        text=f"{row.job}/{row.stream}: {cost.text}",
    )
