"""Routes of pins: kill switches on a stream, a job, or the whole fleet."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request, Response
from sqlalchemy.orm import Session

from tidemark.controller.base.answer import made_of
from tidemark.controller.base.db.tables import StreamRow
from tidemark.controller.base.errors import ErrorItem, InvalidParameterError
from tidemark.controller.base.principal import Principal
from tidemark.controller.base.read_spec import parse_spec
from tidemark.controller.control.rollout.pinned import publish_pinned
from tidemark.controller.server.http.authorize import ThePrincipal
from tidemark.controller.server.http.bodies import PinBody
from tidemark.controller.server.http.cursors import ThePaging, decode_cursor, in_reach
from tidemark.controller.server.http.etags import IfNoneMatch, answered
from tidemark.controller.server.http.openapi import says
from tidemark.controller.server.http.parameters import Reason, TheService, check_names
from tidemark.controller.server.http.request_body import JsonBody
from tidemark.controller.server.process.service import Service
from tidemark.controller.server.schemas.pins import PinAnswer, PinnedStream, PinPage
from tidemark.controller.server.spec_routes.pin_cost import cost_of
from tidemark.controller.server.spec_routes.write import SpecWrite, TheWrite
from tidemark.controller.specs.change import ChangeRequest
from tidemark.controller.specs.pins import (
    existing_pin,
    list_pins,
    remove_pin,
    set_pin,
    streams_in,
    version_of,
)
from tidemark.models.base.names import MAX_LENGTH
from tidemark.models.specs.pin import PinScope, StoredPin

COST_SECONDS = 5.0
"""How long an answer may take to compute what a pin costs: figures must not delay a kill switch."""

_DRY_RUN_SECONDS = 1.0
"""The same for a dry run, which holds its streams locked meanwhile."""


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


router = APIRouter(tags=["pins"])


@router.get("/v1/pins", **says("listPins", "List pins", "PinPage"))
def list_all(service: TheService, principal: ThePrincipal, paging: ThePaging) -> PinPage:
    """List the pins in reach: the fleet's, then by job and stream."""
    position = decode_cursor(paging.cursor, 2)
    with service.database.read() as session:
        pins = in_reach(
            principal,
            lambda after, limit: list_pins(session, after, limit),
            job=lambda pin: pin.job,
            position=_place,
            after=None if position is None else (position[0], position[1]),
            limit=paging.rows,
        )
    page, next_cursor = paging.cut(pins, _place)
    return PinPage(pins=list(page), next_cursor=next_cursor)


@router.get("/v1/pin", **says("getPin", "Read a pin", "PinAnswer", 304, 404, kinds={404: "pin-not-set"}))
def read_pin(
    scope: _TheScope, service: TheService, principal: ThePrincipal, if_none_match: IfNoneMatch = None
) -> Response:
    """Return the pin on just this scope, and what it does to each stream in reach.

    Without `job` it is the fleet's pin. The status of a stream has the pin in force. The ETag is the pin's: what it
    does may change without it.
    """
    with service.database.read() as session:
        pin = existing_pin(session, scope)
        answer = _answer(session, service, principal, pin)
        return answered(answer, if_none_match, version_of(session, pin))


@router.put("/v1/pin", **says("putPin", "Set a pin", "PinAnswer", 412, 428, body="PinBody"))
def put_pin(scope: _TheScope, body: JsonBody, asked: TheWrite) -> Response:
    """Hold a stream, all streams of a job, or without `job` the whole fleet; the answer says what it costs.

    A pin also holds streams that appear later. The most specific one wins: the stream's, then its job's, then the
    fleet's.
    """
    asked_for = parse_spec(PinBody, body)
    with asked.change(asked_for.reason) as change:
        # One flush for the whole fleet: no stream reads what is written for another.
        with change.session.no_autoflush:
            pin = StoredPin.on(scope, asked_for.to, asked_for.reason, change.now_us)
            pin, streams = set_pin(change, pin, asked.service.database.limits)
            tried = _published(asked, change, pin, streams)
        version = version_of(change.session, pin)
    return answered(tried or _committed(asked, pin), None, version)


@router.delete(
    "/v1/pin", **says("deletePin", "Take a pin away", "PinAnswer", 404, 412, kinds={404: "pin-not-set"})
)
def delete_pin(scope: _TheScope, asked: TheWrite, *, reason: Reason) -> PinAnswer:
    """Take a pin away; return it, and what that does to each stream. The next wider pin, if any, holds them then.

    If-Match may be left out: then whatever pin is there is taken away.
    """
    with asked.change(reason) as change, change.session.no_autoflush:
        pin, streams = remove_pin(change, scope)
        tried = _published(asked, change, pin, streams)
    return tried or _committed(asked, pin)


def _published(
    asked: SpecWrite, change: ChangeRequest, pin: StoredPin, streams: Sequence[StreamRow]
) -> PinAnswer | None:
    """Publish to the streams that a write changed, and decide nothing; return what a dry run answers."""
    session = change.session
    publish_pinned(session, streams, change.now_us)
    session.flush()
    return _answer(session, asked.service, asked.principal, pin, dry_run=True) if asked.dry_run else None


def _committed(asked: SpecWrite, pin: StoredPin) -> PinAnswer:
    """Return what a write answers; the pin is in force by now."""
    with asked.service.database.read() as session:
        return _answer(session, asked.service, asked.principal, pin)


def _answer(
    session: Session, service: Service, principal: Principal, pin: StoredPin, *, dry_run: bool = False
) -> PinAnswer:
    until = time.monotonic() + (_DRY_RUN_SECONDS if dry_run else COST_SECONDS)
    costs: list[PinnedStream] = []
    rows = [row for row in streams_in(session, pin.on_what, lock=False) if principal.sees(row.job)]
    for row in rows:
        if costs and time.monotonic() > until:
            break
        costs.append(cost_of(session, service.cache, row, pin.on_what))
    return made_of(PinAnswer, pin, streams=costs, more_streams=len(rows) - len(costs), dry_run=dry_run)


def _invalid(parameter: str, reason: str) -> InvalidParameterError:
    return InvalidParameterError(f"{parameter}: {reason}", errors=(ErrorItem(parameter, reason),))


def _place(pin: StoredPin) -> tuple[str, str]:
    return pin.job or "", pin.stream or ""
