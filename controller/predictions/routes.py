"""The predictions for a stream's published bounds, and how each came out."""

from __future__ import annotations

from fastapi import APIRouter

from tidemark.controller.api.cursors import ThePaging, decode_number_cursor
from tidemark.controller.api.dependencies import TheService
from tidemark.controller.api.documented import answers
from tidemark.controller.api.names import WhichStream
from tidemark.controller.api.schemas import Prediction, PredictionPage, Realised
from tidemark.controller.api.units import milliseconds, share_ppm
from tidemark.controller.db.tables import PredictionRow
from tidemark.controller.predictions.store import list_predictions
from tidemark.controller.streams.store import get_stream
from tidemark.models.base.defaults import PREDICTION_MIN_ROWS

router = APIRouter(prefix="/v1/jobs/{job}/streams/{stream}", tags=["streams"])


@router.get(
    "/predictions",
    operation_id="listPredictions",
    summary="List predictions",
    responses=answers("PredictionPage", 404, 422, 503),
)
def list_all(which: WhichStream, service: TheService, paging: ThePaging) -> PredictionPage:
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
