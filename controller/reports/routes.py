"""Reports: the facts of each reported batch."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path

from tidemark.controller.api import schemas
from tidemark.controller.api.cursors import ThePaging, decode_numbers_cursor
from tidemark.controller.api.dependencies import TheService
from tidemark.controller.api.documented import answers
from tidemark.controller.api.names import WhichStream
from tidemark.controller.reports.store import body_of, get_report, list_reports
from tidemark.controller.streams.store import get_stream
from tidemark.models.granule_counts import PartitionCounts
from tidemark.models.wire import Report

router = APIRouter(prefix="/v1/jobs/{job}/streams/{stream}", tags=["streams"])

_QueryId = Annotated[
    str,
    Path(
        description="Spark's persistent id of the query, percent-encoded; no slash.",
        examples=["5c9a6a52-6d5e-4f0a-9a55-0d2f6f6f9c11"],
        max_length=64,
        pattern=r"^[^\x00]+$",
    ),
]
_BatchId = Annotated[int, Path(description="Spark's batch id.", examples=[17], ge=0, le=2**63 - 1)]


@router.get(
    "/reports",
    operation_id="listReports",
    summary="List reports",
    responses=answers("ReportPage", 404, 422, 503),
)
def list_all(which: WhichStream, service: TheService, paging: ThePaging) -> schemas.ReportPage:
    """List the facts of each reported batch that is kept, the newest first."""
    position = decode_numbers_cursor(paging.cursor, 2)
    before = None if position is None else (position[0], position[1])
    with service.database.read() as session:
        stream_id = get_stream(session, which.job, which.stream).id
        rows = list_reports(session, stream_id, before, paging.rows)
    page, next_cursor = paging.cut(rows, lambda row: (row.seen_us, row.id))
    return schemas.ReportPage(
        reports=[schemas.ReportSummary.of(row) for row in page], next_cursor=next_cursor
    )


@router.get(
    "/reports/{query_id}/{batch_id}",
    operation_id="getReport",
    summary="Read one report",
    responses=answers("ReportDetail", 404, 422, 503, kinds={404: "report-not-found"}),
)
def read(
    which: WhichStream, query_id: _QueryId, batch_id: _BatchId, service: TheService
) -> schemas.ReportDetail:
    """Return the facts of one reported batch, and its partitions."""
    with service.database.read() as session:
        row = get_report(session, get_stream(session, which.job, which.stream), query_id, batch_id)
        sent = body_of(session, row)
    return schemas.ReportDetail.of(
        row,
        granule_us=None if sent is None else sent.granule_us,
        partitions=None if sent is None else [_partition(sent, part) for part in sent.counts.by_partition()],
    )


def _partition(report: Report, part: PartitionCounts) -> schemas.ReportedPartition:
    width_us = report.granule_us
    return schemas.ReportedPartition(
        partition=part.partition,
        rows=part.rows,
        future_rows=part.future_rows,
        first_us=part.granules[0] * width_us if part.granules else None,
        last_us=(part.granules[-1] + 1) * width_us if part.granules else None,
    )
