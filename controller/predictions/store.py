"""Predictions for published bounds: stored when a bound is published, scored against the ledger while it is in use."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields

from sqlalchemy import ColumnElement, and_, bindparam, false, func, or_, select
from sqlalchemy.orm import InstrumentedAttribute, Session

from tidemark.controller.db.tables import PredictionRow, PublishedRow, ReportRow
from tidemark.models.prediction import Judged, score
from tidemark.models.transition import Transition


def keep_prediction(
    session: Session, stream_id: int, published: PublishedRow, transition: Transition, now_us: int
) -> None:
    """Store the prediction for a published bound, once a generation."""
    columns = PredictionRow.__table__.columns
    same = {
        field.name: getattr(transition, field.name) for field in fields(transition) if field.name in columns
    }
    session.add(
        PredictionRow(
            stream_id=stream_id,
            generation=published.generation,
            bound_ms=transition.bound_us // 1_000,
            from_bound_ms=transition.from_bound_us // 1_000,
            made_us=now_us,
            **same,
        )
    )


def newest_prediction(session: Session, stream_id: int) -> PredictionRow | None:
    """Return the newest prediction; None without any."""
    return session.scalars(_NEWEST, {"stream": stream_id}).one_or_none()


# Built once: building it takes longer than running it.
_NEWEST = (
    select(PredictionRow)
    .where(PredictionRow.stream_id == bindparam("stream"))
    .order_by(PredictionRow.generation.desc())
    .limit(1)
)


def list_predictions(
    session: Session, stream_id: int, before_generation: int | None, limit: int
) -> Sequence[PredictionRow]:
    """Return up to ``limit`` predictions of generations before ``before_generation``, the newest first."""
    query = (
        select(PredictionRow)
        .where(PredictionRow.stream_id == stream_id)
        .order_by(PredictionRow.generation.desc())
        .limit(limit)
    )
    if before_generation is not None:
        query = query.where(PredictionRow.generation < before_generation)
    return session.scalars(query).all()


def score_predictions(session: Session, newest: ReportRow, horizon_ms: int, now_us: int) -> None:
    """Score the prediction for the bound that the newest batch runs with; the stream is locked.

    It is scored over as much time as it rests on: the first ``horizon_ms`` under the bound.
    """
    if newest.generation is None:
        return
    prediction = session.get(PredictionRow, (newest.stream_id, newest.generation))
    if prediction is None:
        return
    under = (
        ReportRow.stream_id == newest.stream_id,
        ReportRow.generation == newest.generation,
        ReportRow.bound_ms == prediction.bound_ms,
    )
    restored_ms = _restored_watermarks_ms(session, under)
    since_us: int | None = session.scalars(
        select(func.min(ReportRow.seen_us)).where(*under, _above(ReportRow.watermark_ms, restored_ms))
    ).one()
    if since_us is None:
        return
    result = session.execute(
        select(func.sum(ReportRow.pairs), func.sum(ReportRow.late_min), func.sum(ReportRow.late_max)).where(
            *under,
            _above(ReportRow.late_watermark_ms, restored_ms),
            ReportRow.seen_us <= since_us + horizon_ms * 1_000,
        )
    ).one()
    # PostgreSQL sums to an exact decimal, and nothing to null.
    judged = Judged(*(int(number or 0) for number in result))
    prediction.became_effective_us = since_us
    prediction.judged_rows = judged.rows
    prediction.judged_late_min = judged.late_min
    prediction.judged_late_max = judged.late_max
    found = score(prediction.rows, prediction.late, judged)
    if found is not None:
        prediction.scored_us = now_us
        prediction.realised_ppm, prediction.error_ppm = found.completeness_ppm, found.error_ppm


def _restored_watermarks_ms(session: Session, under: tuple[ColumnElement[bool], ...]) -> dict[str, int]:
    """Return by query the watermark that its first batch under the bound restored.

    Rows judged by it belong to the bound before; a higher watermark has moved under this bound.
    """
    firsts = select(ReportRow.query_id, func.min(ReportRow.watermark_ms)).where(*under)
    return dict(session.execute(firsts.group_by(ReportRow.query_id)).all())


def _above(
    watermark_ms: InstrumentedAttribute[int] | InstrumentedAttribute[int | None], restored_ms: dict[str, int]
) -> ColumnElement[bool]:
    """Return the condition that a batch's watermark is above the one that its query restored."""
    return or_(
        false(),
        *(and_(ReportRow.query_id == query, watermark_ms > mark) for query, mark in restored_ms.items()),
    )
