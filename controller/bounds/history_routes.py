"""The history of a stream: the bounds published and the acknowledgements."""

from __future__ import annotations

from fastapi import APIRouter

from tidemark.controller.api.cursors import ThePaging, decode_number_cursor, decode_numbers_cursor
from tidemark.controller.api.dependencies import TheService
from tidemark.controller.api.documented import answers
from tidemark.controller.api.parameters import WhichStream
from tidemark.controller.api.schemas.bounds import (
    AcknowledgementFacts,
    AcknowledgementPage,
    BoundPage,
    PublishedBound,
)
from tidemark.controller.bounds.acknowledgements import list_acknowledgements
from tidemark.controller.bounds.publication import answer_of, list_published
from tidemark.controller.db.tables import PublishedRow
from tidemark.controller.streams.store import get_stream

router = APIRouter(prefix="/v1/jobs/{job}/streams/{stream}", tags=["streams"])


@router.get(
    "/acks",
    operation_id="listAcknowledgements",
    summary="List acknowledgements",
    responses=answers("AcknowledgementPage", 404, 422, 503),
)
def list_acks(which: WhichStream, service: TheService, paging: ThePaging) -> AcknowledgementPage:
    """List what runs of the job acknowledged, the last applied first."""
    position = decode_numbers_cursor(paging.cursor, 2)
    before = None if position is None else (position[0], position[1])
    with service.database.read() as session:
        stream_id = get_stream(session, which.job, which.stream).id
        rows = list_acknowledgements(session, stream_id, before, paging.rows)
    page, next_cursor = paging.cut(rows, lambda row: (row.applied_us, row.id))
    return AcknowledgementPage(
        acknowledgements=[AcknowledgementFacts.of(row) for row in page], next_cursor=next_cursor
    )


@router.get(
    "/bounds",
    operation_id="listBounds",
    summary="List the bounds published",
    responses=answers("BoundPage", 404, 422, 503),
)
def list_bounds(which: WhichStream, service: TheService, paging: ThePaging) -> BoundPage:
    """List the published bounds, the newest generation first."""
    before = decode_number_cursor(paging.cursor)
    with service.database.read() as session:
        stream_id = get_stream(session, which.job, which.stream).id
        rows = list_published(session, stream_id, before, paging.rows)
    page, next_cursor = paging.cut(rows, lambda row: (row.generation,))
    return BoundPage(bounds=[_bound(row) for row in page], next_cursor=next_cursor)


def _bound(row: PublishedRow) -> PublishedBound:
    return PublishedBound.of(answer_of(row), generation=row.generation, published_us=row.published_us)
