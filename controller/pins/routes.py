"""Pins: kill switches on a stream, a job, or the whole fleet."""

from __future__ import annotations

import time
from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request, Response
from pydantic import TypeAdapter
from sqlalchemy.orm import Session

from tidemark.controller.access.authorize import ThePrincipal
from tidemark.controller.api.bodies import PinBody
from tidemark.controller.api.cursors import ThePaging, decode_cursor, in_reach
from tidemark.controller.api.etags import IfMatch, IfNoneMatch, answered, check_match, etag
from tidemark.controller.api.openapi import answers, takes
from tidemark.controller.api.parameters import DryRun, Reason, TheService, check_names
from tidemark.controller.api.request_body import JsonBody
from tidemark.controller.api.schemas.pins import PinAnswer, PinnedStream, PinPage, PinSummary
from tidemark.controller.db.epoch import epoch_of
from tidemark.controller.db.tables import StreamRow
from tidemark.controller.errors import ErrorItem, InvalidParameterError
from tidemark.controller.pins.apply import Precondition, existing_pin, remove_pin, set_pin
from tidemark.controller.pins.cost import PinCost, cost_of
from tidemark.controller.pins.store import PinScope, StoredPin, list_pins, streams_in
from tidemark.controller.runtime.answer import milliseconds
from tidemark.controller.runtime.parse_body import parse_body
from tidemark.controller.runtime.principal import Principal
from tidemark.controller.service import Service
from tidemark.controller.streams.names import MAX_LENGTH

router = APIRouter(tags=["pins"])

_PIN = TypeAdapter(PinBody)

COST_SECONDS = 5.0
"""How long an answer may take to compute what a pin costs: figures must not delay a kill switch."""

_DRY_RUN_SECONDS = 1.0
"""The same for a dry run, which holds its streams locked meanwhile."""

_ABSENT = {404: "pin-not-set"}


async def _scope(
    request: Request,
    job: Annotated[
        str | None,
        Query(
            description="Name of the job; leave it out for the whole fleet.",
            examples=["orders"],
            json_schema_extra={"maxLength": MAX_LENGTH},
        ),
    ] = None,
    stream: Annotated[
        str | None,
        Query(
            description="Name of a stream of the job; leave it out for all its streams.",
            examples=["clicks"],
            json_schema_extra={"maxLength": MAX_LENGTH},
        ),
    ] = None,
) -> PinScope:
    """Return what a pin is on. An ambiguous query must never widen it to the whole fleet."""
    for name in request.query_params:
        if len(request.query_params.getlist(name)) > 1:
            raise _invalid(name, "it is given more than once")
    if stream is not None and job is None:
        raise _invalid("job", "a stream is named without its job; name both, or neither for the whole fleet")
    check_names(**{name: value for name, value in (("job", job), ("stream", stream)) if value is not None})
    return PinScope(job, stream)


_TheScope = Annotated[PinScope, Depends(_scope)]
"""What the query says that the pin is on."""


@router.get("/v1/pins", operation_id="listPins", summary="List pins", responses=answers("PinPage", 422, 503))
def list_all(service: TheService, principal: ThePrincipal, paging: ThePaging) -> PinPage:
    """List the pins in reach: the fleet's, then by job and stream."""
    position = decode_cursor(paging.cursor, 2)
    with service.database.read() as session:
        pins = in_reach(
            principal,
            lambda after, limit: list_pins(session, after, limit),
            job=lambda pin: pin.scope.job,
            position=_place,
            after=None if position is None else (position[0], position[1]),
            limit=paging.rows,
        )
    page, next_cursor = paging.cut(pins, _place)
    return PinPage(pins=[_summary(pin) for pin in page], next_cursor=next_cursor)


@router.get(
    "/v1/pin",
    operation_id="getPin",
    summary="Read a pin",
    response_model=PinAnswer,
    responses=answers("PinAnswer", 304, 404, 422, 503, kinds=_ABSENT),
)
def read(
    scope: _TheScope, service: TheService, principal: ThePrincipal, if_none_match: IfNoneMatch = None
) -> Response:
    """Return the pin on just this scope, and what it does to each stream in reach.

    Without `job` it is the fleet's pin. The status of a stream has the pin in force. The ETag is the pin's: what it
    does may change without it.
    """
    with service.database.read() as session:
        pin = existing_pin(session, scope)
        return answered(
            _answer(service, session, pin, principal), if_none_match, pin.version(epoch_of(session))
        )


@router.put(
    "/v1/pin",
    operation_id="putPin",
    summary="Set a pin",
    responses=answers("PinAnswer", 400, 408, 412, 413, 415, 422, 428, 503),
    openapi_extra=takes("PinBody"),
)
def write(
    scope: _TheScope,
    body: JsonBody,
    service: TheService,
    principal: ThePrincipal,
    response: Response,
    *,
    dry_run: DryRun,
    if_match: IfMatch = None,
) -> PinAnswer:
    """Hold a stream, all streams of a job, or without `job` the whole fleet; the answer says what it costs.

    A pin also holds streams that appear later. The most specific one wins: the stream's, then its job's, then the
    fleet's.
    """
    new = parse_body(_PIN, body)
    now_us = service.clock()
    with service.database.write(keep=not dry_run) as session:
        new_pin = StoredPin(scope, new.to, new.reason, now_us)
        pin = set_pin(session, new_pin, now_us, _replaces(session, if_match), service.database.limits)
        response.headers["ETag"] = etag(pin.version(epoch_of(session)))
        if dry_run:
            return _answer(service, session, pin, principal, dry_run=True)
    return _written(service, pin, principal)


@router.delete(
    "/v1/pin",
    operation_id="deletePin",
    summary="Take a pin away",
    responses=answers("PinAnswer", 404, 412, 422, 503, kinds=_ABSENT),
)
def delete(
    scope: _TheScope,
    service: TheService,
    principal: ThePrincipal,
    *,
    dry_run: DryRun,
    reason: Reason,
    if_match: IfMatch = None,
) -> PinAnswer:
    """Take a pin away; return it, and what that does to each stream. The next wider pin, if any, holds them then.

    If-Match may be left out: then whatever pin is there is taken away.
    """
    with service.database.write(keep=not dry_run) as session:
        pin = remove_pin(
            session, scope, reason, service.clock(), _replaces(session, if_match, required=False)
        )
        if dry_run:
            return _answer(service, session, pin, principal, dry_run=True)
    return _written(service, pin, principal)


def _replaces(session: Session, if_match: str | None, *, required: bool = True) -> Precondition:
    def check(before: StoredPin | None) -> None:
        current = None if before is None else etag(before.version(epoch_of(session)))
        held = "no pin there" if before is None else f"a pin to {before.to}: {before.reason}"
        check_match(if_match, current, held, required=required and before is not None)

    return check


def _invalid(parameter: str, reason: str) -> InvalidParameterError:
    return InvalidParameterError(f"{parameter}: {reason}", errors=(ErrorItem(parameter, reason),))


def _place(pin: StoredPin) -> tuple[str, str]:
    return pin.scope.job or "", pin.scope.stream or ""


def _summary(pin: StoredPin) -> PinSummary:
    return PinSummary.of(pin, scope=pin.scope.kind, job=pin.scope.job, stream=pin.scope.stream)


def _written(service: Service, pin: StoredPin, principal: Principal) -> PinAnswer:
    """Return the answer after a write; the pin is in force by now, however long the figures take."""
    service.database.answers_changed()
    with service.database.read() as session:
        return _answer(service, session, pin, principal)


def _answer(
    service: Service, session: Session, pin: StoredPin, principal: Principal, *, dry_run: bool = False
) -> PinAnswer:
    until = time.monotonic() + (_DRY_RUN_SECONDS if dry_run else COST_SECONDS)
    session.flush()
    found: list[PinnedStream] = []
    rows = [row for row in streams_in(session, pin.scope, lock=False) if principal.sees(row.job)]
    for row in rows:
        if found and time.monotonic() > until:
            break
        found.append(_stream(row, cost_of(session, service.decider, row, pin.scope)))
    more = len(rows) - len(found)
    return PinAnswer(**dict(_summary(pin)), streams=found, more_streams=more, dry_run=dry_run)


def _stream(row: StreamRow, cost: PinCost) -> PinnedStream:
    wall_us = cost.latency_wall_us
    return PinnedStream.of(
        cost,
        job=row.job,
        stream=row.stream,
        latency_wall_ms=None if wall_us is None else milliseconds(round(wall_us)),
        text=f"{row.job}/{row.stream}: {cost.text}",
    )
