"""Routes of pins: kill switches on a stream, a job, or the whole fleet."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request

from tidemark.controller.base.answer import made_of
from tidemark.controller.base.db.epoch import epoch_of
from tidemark.controller.base.errors import ErrorItem, InvalidParameterError
from tidemark.controller.control.rollout.pinned import publish_pinned
from tidemark.controller.server.http.authorize import ThePrincipal
from tidemark.controller.server.http.bodies import PinBody
from tidemark.controller.server.http.cursors import ThePaging, decode_cursor, in_reach
from tidemark.controller.server.http.openapi import says
from tidemark.controller.server.http.parameters import TheService, check_names
from tidemark.controller.server.schemas.pins import PinAnswer, PinnedStream, PinPage
from tidemark.controller.server.spec_routes.pin_cost import cost_of
from tidemark.controller.server.spec_routes.routes import Operation, SpecRequest, SpecRoutes, routes_of
from tidemark.controller.specs.kinds import Write
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


def _invalid(parameter: str, reason: str) -> InvalidParameterError:
    return InvalidParameterError(f"{parameter}: {reason}", errors=(ErrorItem(parameter, reason),))


def _place(pin: StoredPin) -> tuple[str, str]:
    return pin.job or "", pin.stream or ""


def _answer(request: SpecRequest, pin: StoredPin) -> PinAnswer:
    service, session = request.service, request.session
    until = time.monotonic() + (_DRY_RUN_SECONDS if request.dry_run else COST_SECONDS)
    found: list[PinnedStream] = []
    rows = [row for row in streams_in(session, pin.on_what, lock=False) if request.principal.sees(row.job)]
    for row in rows:
        if found and time.monotonic() > until:
            break
        found.append(cost_of(session, service.cache, row, pin.on_what))
    more = len(rows) - len(found)
    return made_of(PinAnswer, pin, streams=found, more_streams=more, dry_run=request.dry_run)


def _read(request: SpecRequest, which: PinScope) -> tuple[object, str]:
    pin = existing_pin(request.session, which)
    return _answer(request, pin), version_of(pin, epoch_of(request.session))


def _write(request: SpecRequest, which: PinScope, value: PinBody) -> Write[StoredPin]:
    pin = StoredPin.on(which, value.to, value.reason, request.now_us)
    # One flush for the whole fleet: no stream reads what is written for another.
    with request.session.no_autoflush:
        return _published(request, set_pin(request, pin, request.service.database.limits))


def _remove(request: SpecRequest, which: PinScope) -> Write[StoredPin]:
    with request.session.no_autoflush:
        return _published(request, remove_pin(request, which))


def _published(request: SpecRequest, done: Write[StoredPin]) -> Write[StoredPin]:
    """Publish to the streams that a write changed, and decide nothing: the pin is in force by now."""
    publish_pinned(request.session, done.streams, request.now_us)
    return replace(done, streams=())


_ROUTES = SpecRoutes(
    path="/v1/pin",
    noun="Pin",
    body=PinBody,
    which=_TheScope,
    answers=(PinAnswer, PinAnswer),
    read=_read,
    write=_write,
    remove=_remove,
    answer=lambda request, done, _: _answer(request, done.stored),
    reason_in_body=True,
    deletes_any=True,
    get=Operation(
        "Read a pin",
        "Return the pin on just this scope, and what it does to each stream in reach.\n\n"
        "Without `job` it is the fleet's pin. The status of a stream has the pin in force. The ETag is the pin's: what "
        "it does may change without it.",
        {404: "pin-not-set"},
    ),
    put=Operation(
        "Set a pin",
        "Hold a stream, all streams of a job, or without `job` the whole fleet; the answer says what it costs.\n\n"
        "A pin also holds streams that appear later. The most specific one wins: the stream's, then its job's, then "
        "the fleet's.",
    ),
    delete=Operation(
        "Take a pin away",
        "Take a pin away; return it, and what that does to each stream. The next wider pin, if any, holds them then."
        "\n\nIf-Match may be left out: then whatever pin is there is taken away.",
        {404: "pin-not-set"},
    ),
)

router.include_router(routes_of(_ROUTES))
