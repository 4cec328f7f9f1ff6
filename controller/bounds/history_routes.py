"""The history of a stream: the bounds published and the acknowledgements."""

from __future__ import annotations

from typing import cast

from fastapi import APIRouter

from tidemark.controller.api import schemas
from tidemark.controller.api.cursors import (
    Cursor,
    Limit,
    decode_number_cursor,
    decode_numbers_cursor,
    encode_cursor,
)
from tidemark.controller.api.dependencies import TheService
from tidemark.controller.api.documented import answers
from tidemark.controller.api.names import WhichStream
from tidemark.controller.bounds.acknowledgements import list_acknowledgements
from tidemark.controller.bounds.publication import answer_of, list_published
from tidemark.controller.bounds.views import applied_answer
from tidemark.controller.db.tables import AcknowledgementRow, PublishedRow
from tidemark.controller.streams.store import get_stream
from tidemark.models.wire import Mode

router = APIRouter(prefix="/v1/jobs/{job}/streams/{stream}", tags=["streams"])


@router.get(
    "/acks",
    operation_id="listAcknowledgements",
    summary="List acknowledgements",
    responses=answers("AcknowledgementPage", 404, 422, 503),
)
def list_acks(
    which: WhichStream, service: TheService, limit: Limit = 100, cursor: Cursor = None
) -> schemas.AcknowledgementPage:
    """List what runs of the job acknowledged, the last applied first."""
    position = decode_numbers_cursor(cursor, 2)
    before = None if position is None else (position[0], position[1])
    with service.database.read() as session:
        stream_id = get_stream(session, which.job, which.stream).id
        rows = list_acknowledgements(session, stream_id, before, limit + 1)
    page = rows[:limit]
    last = page[-1] if len(rows) > limit else None
    return schemas.AcknowledgementPage(
        acknowledgements=[_acknowledgement(row) for row in page],
        next_cursor=None if last is None else encode_cursor(str(last.applied_us), str(last.id)),
    )


@router.get(
    "/bounds",
    operation_id="listBounds",
    summary="List the bounds published",
    responses=answers("BoundPage", 404, 422, 503),
)
def list_bounds(
    which: WhichStream, service: TheService, limit: Limit = 100, cursor: Cursor = None
) -> schemas.BoundPage:
    """List the published bounds, the newest generation first."""
    before = decode_number_cursor(cursor)
    with service.database.read() as session:
        stream_id = get_stream(session, which.job, which.stream).id
        rows = list_published(session, stream_id, before, limit + 1)
    page = rows[:limit]
    return schemas.BoundPage(
        bounds=[_bound(row) for row in page],
        next_cursor=encode_cursor(str(page[-1].generation)) if len(rows) > limit else None,
    )


def _acknowledgement(row: AcknowledgementRow) -> schemas.AcknowledgementFacts:
    return schemas.AcknowledgementFacts(
        **dict(applied_answer(row)), mode=cast("Mode", row.mode), received_us=row.received_us
    )


def _bound(row: PublishedRow) -> schemas.PublishedBound:
    answer = answer_of(row)
    return schemas.PublishedBound(
        bound_ms=answer.bound_ms,
        generation=row.generation,
        reason=answer.reason,
        envelope=answer.envelope,
        pin=answer.pin,
        mode=answer.mode,
        published_us=row.published_us,
    )
