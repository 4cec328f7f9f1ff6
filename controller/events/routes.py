"""Events: what changed, when, why, and by whom."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from fastapi import APIRouter, Query

from tidemark.controller.access.authorize import ThePrincipal
from tidemark.controller.api.cursors import Paging, ThePaging, decode_number_cursor, in_reach
from tidemark.controller.api.dependencies import TheService
from tidemark.controller.api.documented import answers
from tidemark.controller.api.parameters import WhichStream
from tidemark.controller.api.schemas.rollouts import EventPage
from tidemark.controller.api.views import event_answer
from tidemark.controller.db.tables import EventRow, StreamRow
from tidemark.controller.events.store import list_events
from tidemark.controller.streams.store import get_stream

router = APIRouter(tags=["events"])
_of_stream = APIRouter(prefix="/v1/jobs/{job}/streams/{stream}", tags=["events"])

_OfKind = Annotated[
    str | None,
    Query(
        max_length=40,
        pattern="^[A-Za-z]+$",
        description="Only events of this kind.",
        examples=["RolloutRolledBack"],
    ),
]


@router.get(
    "/v1/events",
    operation_id="listEvents",
    summary="List events of the fleet",
    responses=answers("EventPage", 422, 503),
)
def list_all(
    service: TheService, principal: ThePrincipal, paging: ThePaging, kind: _OfKind = None
) -> EventPage:
    """List the events of every stream in reach, the newest first."""
    before = decode_number_cursor(paging.cursor)
    with service.database.read() as session:
        pairs = in_reach(
            principal,
            lambda position, limit: list_events(session, position, limit, kind=kind),
            job=lambda pair: pair[1].job,
            position=lambda pair: pair[0].id,
            after=before,
            limit=paging.rows,
        )
    return _page(paging, pairs)


@_of_stream.get(
    "/events",
    operation_id="listStreamEvents",
    summary="List a stream's events",
    responses=answers("EventPage", 404, 422, 503),
)
def list_of_stream(
    which: WhichStream, service: TheService, paging: ThePaging, kind: _OfKind = None
) -> EventPage:
    """List the stream's events, the newest first."""
    before = decode_number_cursor(paging.cursor)
    with service.database.read() as session:
        stream = get_stream(session, which.job, which.stream)
        pairs = list_events(session, before, paging.rows, stream_id=stream.id, kind=kind)
    return _page(paging, pairs)


router.include_router(_of_stream)


def _page(paging: Paging, pairs: Sequence[tuple[EventRow, StreamRow]]) -> EventPage:
    page, next_cursor = paging.cut(pairs, lambda pair: (pair[0].id,))
    return EventPage(events=[event_answer(event, stream) for event, stream in page], next_cursor=next_cursor)
