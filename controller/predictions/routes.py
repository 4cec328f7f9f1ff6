"""The predictions for a stream's published bounds, and how each came out."""

from __future__ import annotations

from fastapi import APIRouter

from tidemark.controller.api.cursors import Cursor, Limit, decode_number_cursor, encode_cursor
from tidemark.controller.api.dependencies import TheService
from tidemark.controller.api.documented import answers
from tidemark.controller.api.names import WhichStream
from tidemark.controller.api.schemas import Prediction, PredictionPage, Realised
from tidemark.controller.api.units import milliseconds, share_ppm
from tidemark.controller.db.tables import PredictionRow
from tidemark.controller.predictions.store import list_predictions
from tidemark.controller.streams.store import get_stream
from tidemark.models.defaults import PREDICTION_MIN_ROWS

router = APIRouter(prefix="/v1/jobs/{job}/streams/{stream}", tags=["streams"])


@router.get(
    "/predictions",
    operation_id="listPredictions",
    summary="List predictions",
    responses=answers("PredictionPage", 404, 422, 503),
)
def list_all(
    which: WhichStream, service: TheService, limit: Limit = 100, cursor: Cursor = None
) -> PredictionPage:
    """List the prediction for each published bound and how it came out, the newest first."""
    before = decode_number_cursor(cursor)
    with service.database.read() as session:
        stream_id = get_stream(session, which.job, which.stream).id
        rows = list_predictions(session, stream_id, before, limit + 1)
    page = rows[:limit]
    return PredictionPage(
        predictions=[_prediction(row) for row in page],
        min_rows=PREDICTION_MIN_ROWS,
        next_cursor=encode_cursor(str(page[-1].generation)) if len(rows) > limit else None,
    )


def _prediction(row: PredictionRow) -> Prediction:
    return Prediction(
        generation=row.generation,
        made_us=row.made_us,
        from_bound_ms=row.from_bound_ms,
        bound_ms=row.bound_ms,
        stands_still_ms=milliseconds(row.stands_still_us),
        effective_us=row.effective_us,
        windows_closing=row.windows_closing,
        rows_closing=row.rows_closing,
        state_rows=row.state_rows,
        state_bytes=row.state_bytes,
        rows=row.rows,
        late=row.late,
        completeness_ppm=share_ppm(row.rows - row.late, row.rows),
        min_ppm=row.min_ppm,
        max_ppm=row.max_ppm,
        latency_base_ms=milliseconds(row.latency_base_us),
        latency_wall_ms=milliseconds(row.latency_wall_us),
        text=row.text,
        realised=Realised(
            became_effective_us=row.became_effective_us,
            rows=row.judged_rows,
            late_min=row.judged_late_min,
            late_max=row.judged_late_max,
            completeness_ppm=row.realised_ppm,
            error_ppm=row.error_ppm,
            scored_us=row.scored_us,
        ),
    )
