"""Routes of what was reported, acknowledged and published."""

from __future__ import annotations

import json
from typing import Annotated

from fastapi import APIRouter, Query, Response

from tidemark.controller.base.answer import made_of
from tidemark.controller.base.db.tables import PublishedRow
from tidemark.controller.control.bounds.acknowledgements import list_acknowledgements
from tidemark.controller.control.bounds.publication import answer_of, list_published
from tidemark.controller.reports.store import list_bodies, list_reports, missing_ranges
from tidemark.controller.server.http.cursors import (
    ThePaging,
    decode_number_cursor,
    decode_numbers_cursor,
    encode_cursor,
)
from tidemark.controller.server.http.openapi import says
from tidemark.controller.server.http.parameters import TheService, WhichStream
from tidemark.controller.server.schemas.bounds import (
    AcknowledgementFacts,
    AcknowledgementPage,
    BoundPage,
    Published,
)
from tidemark.controller.server.schemas.reports import (
    MissingBatches,
    ReportPage,
    ReportSummary,
)
from tidemark.controller.server.schemas.streams import MissingRange
from tidemark.controller.specs.store import get_policy
from tidemark.controller.specs.streams import find_stream, get_stream

router = APIRouter(prefix="/v1/jobs/{job}/streams/{stream}", tags=["streams"])

_WhichQuery = Annotated[
    str, Query(description="Spark's persistent id of the query.", max_length=64, pattern=r"^[^\x00]+$")
]
_FromBatch = Annotated[int, Query(description="Batches before this one are left out.", ge=0, le=2**63 - 1)]
_MAX_PAGE_BYTES = 4_000_000
_MAX_RANGES = 100
"""How many ranges of missing batches are listed, the newest ones."""


@router.get("/reports", **says("listReports", "List reports", "ReportPage", 404))
def list_all(which: WhichStream, service: TheService, paging: ThePaging) -> ReportPage:
    """List the facts of each reported batch that is kept, the newest first."""
    position = decode_numbers_cursor(paging.cursor, 2)
    before = None if position is None else (position[0], position[1])
    with service.database.read() as session:
        stream_id = get_stream(session, which.job, which.stream).id
        rows = list_reports(session, stream_id, before, paging.rows)
    page, next_cursor = paging.cut(rows, lambda row: (row.seen_us, row.id))
    return ReportPage(
        reports=[ReportSummary.of(row, operator=row.operator.kind) for row in page], next_cursor=next_cursor
    )


@router.get(
    "/reports/bodies", **says("listReportBodies", "List reports as they were sent", "ReportBodyPage", 404)
)
def list_sent(which: WhichStream, service: TheService, paging: ThePaging) -> Response:
    """List reports as they were sent, with all counts, the newest first: a job's live policy begins with them.

    A page ends at ``limit`` reports or at 4 MB. Reports are kept for ``TIDEMARK_RETENTION_BODIES_DAYS``.
    """
    position = decode_numbers_cursor(paging.cursor, 2)
    before = None if position is None else (position[0], position[1])
    with service.database.read() as session:
        stream_id = get_stream(session, which.job, which.stream).id
        page, ended = list_bodies(session, stream_id, before, paging.limit, _MAX_PAGE_BYTES)
    cursor = json.dumps(None if ended is None else encode_cursor(*map(str, ended)))
    content = b'{"reports":[%b],"next_cursor":%b}' % (b",".join(page), cursor.encode())
    return Response(content, media_type="application/json")


@router.get("/missing", **says("listMissingBatches", "List missing batches", "MissingBatches"))
def list_missing(
    which: WhichStream, service: TheService, query_id: _WhichQuery, from_batch: _FromBatch = 0
) -> MissingBatches:
    """List the batches of a query that were never reported, between some that were: a job may read them again.

    A stream that is not known has none. Jobs that can keep late rows ask every minute, so the answer also has what the
    policy says of those.
    """
    with service.database.read() as session:
        row = find_stream(session, which.job, which.stream)
        found = missing_ranges(session, (which.job, which.stream), query_id, from_batch, _MAX_RANGES)
        policy = None if row is None else get_policy(session, row.id)
    return MissingBatches(
        query_id=query_id,
        missing=[MissingRange(first=first, last=last) for first, last in found],
        late=None if policy is None else policy.value.late,
    )


@router.get("/acks", **says("listAcknowledgements", "List acknowledgements", "AcknowledgementPage", 404))
def list_acks(which: WhichStream, service: TheService, paging: ThePaging) -> AcknowledgementPage:
    """List what runs of the job acknowledged, the last applied first."""
    position = decode_numbers_cursor(paging.cursor, 2)
    before = None if position is None else (position[0], position[1])
    with service.database.read() as session:
        stream_id = get_stream(session, which.job, which.stream).id
        rows = list_acknowledgements(session, stream_id, before, paging.rows)
    page, next_cursor = paging.cut(rows, lambda row: (row.applied_us, row.id))
    return AcknowledgementPage(
        acknowledgements=[made_of(AcknowledgementFacts, row) for row in page], next_cursor=next_cursor
    )


@router.get("/bounds", **says("listBounds", "List the bounds published", "BoundPage", 404))
def list_bounds(which: WhichStream, service: TheService, paging: ThePaging) -> BoundPage:
    """List the published bounds, the newest generation first."""
    before = decode_number_cursor(paging.cursor)
    with service.database.read() as session:
        stream_id = get_stream(session, which.job, which.stream).id
        rows = list_published(session, stream_id, before, paging.rows)
    page, next_cursor = paging.cut(rows, lambda row: (row.generation,))
    return BoundPage(bounds=[_bound(row) for row in page], next_cursor=next_cursor)


def _bound(row: PublishedRow) -> Published:
    return made_of(Published, answer_of(row), generation=row.generation, published_us=row.published_us)
