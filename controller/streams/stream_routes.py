"""One stream: its status, and its history of published bounds, of predictions for them and of acknowledgements."""

from __future__ import annotations

from fastapi import APIRouter, Response

from tidemark.controller.api.cursors import ThePaging, decode_number_cursor, decode_numbers_cursor
from tidemark.controller.api.etags import IfNoneMatch, answered
from tidemark.controller.api.openapi import answers
from tidemark.controller.api.parameters import TheService, WhichStream
from tidemark.controller.api.schemas.bounds import (
    AcknowledgementFacts,
    AcknowledgementPage,
    BoundPage,
    Prediction,
    PredictionPage,
    PublishedBound,
    Realised,
)
from tidemark.controller.api.schemas.streams import StreamStatus
from tidemark.controller.api.views import stream_status
from tidemark.controller.bounds.acknowledgements import list_acknowledgements
from tidemark.controller.bounds.publication import answer_of, list_published
from tidemark.controller.db.tables import PredictionRow, PublishedRow
from tidemark.controller.decide.predictions import list_predictions
from tidemark.controller.runtime.answer import milliseconds, share_ppm
from tidemark.controller.streams.store import get_stream
from tidemark.models.base.defaults import PREDICTION_MIN_ROWS

router = APIRouter(prefix="/v1/jobs/{job}/streams/{stream}", tags=["streams"])


@router.get(
    "",
    operation_id="getStream",
    summary="Status of a stream",
    response_model=StreamStatus,
    responses=answers("StreamStatus", 304, 404, 422, 503),
)
def get_status(which: WhichStream, service: TheService, if_none_match: IfNoneMatch = None) -> Response:
    """Say all that is known of a stream: what is recommended, applied and effective, on what evidence and why."""
    with service.database.read() as session:
        stream_id = get_stream(session, which.job, which.stream).id
        found = stream_status(session, stream_id, service.clock(), service.kept, service.destinations)
    return answered(found, if_none_match)


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


@router.get(
    "/predictions",
    operation_id="listPredictions",
    summary="List predictions",
    responses=answers("PredictionPage", 404, 422, 503),
)
def list_predicted(which: WhichStream, service: TheService, paging: ThePaging) -> PredictionPage:
    """List the prediction for each published bound and how it came out, the newest first."""
    before = decode_number_cursor(paging.cursor)
    with service.database.read() as session:
        stream_id = get_stream(session, which.job, which.stream).id
        rows = list_predictions(session, stream_id, before, paging.rows)
    page, next_cursor = paging.cut(rows, lambda row: (row.generation,))
    return PredictionPage(
        predictions=[_prediction(row) for row in page],
        min_rows=PREDICTION_MIN_ROWS,
        next_cursor=next_cursor,
    )


def _prediction(row: PredictionRow) -> Prediction:
    return Prediction.of(
        row,
        stands_still_ms=milliseconds(row.stands_still_us),
        completeness_ppm=share_ppm(row.rows - row.late, row.rows),
        latency_base_ms=milliseconds(row.latency_base_us),
        latency_wall_ms=milliseconds(row.latency_wall_us),
        realised=Realised.of(
            row,
            rows=row.judged_rows,
            late_min=row.judged_late_min,
            late_max=row.judged_late_max,
            completeness_ppm=row.realised_ppm,
        ),
    )
