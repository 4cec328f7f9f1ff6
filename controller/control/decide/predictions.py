"""Predictions for published bounds, as the store has them, and how each comes out by the ledger.

A prediction is scored over as much time as it rests on: the first horizon under the bound. What was counted before is
kept, so that a decision reads only the reports since the last one. A report that came out of order may change what
counts; then all are counted again.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from sqlalchemy import ColumnElement, and_, bindparam, false, func, or_, select
from sqlalchemy.orm import InstrumentedAttribute, Session

from tidemark.controller.base.answer import made_of
from tidemark.controller.base.db.tables import BY_BOUND, PredictionRow, PublishedRow, ReportRow
from tidemark.models.recommend.promise import Expected, Transition
from tidemark.models.rollout.evidence import Judged, UnderBound, rows_per_event, score


def keep_prediction(
    session: Session,
    published: PublishedRow,
    transition: Transition,
    horizon_ms: int,
    now_us: int,
) -> None:
    """Store the prediction for a published bound, once a generation.

    Args:
        horizon_ms: length of the evidence that this rests on, in milliseconds.
    """
    session.add(
        PredictionRow(
            stream_id=published.stream_id,
            generation=published.generation,
            made_us=now_us,
            horizon_ms=horizon_ms,
            expected=made_of(Expected, transition),
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


def score_predictions(
    session: Session, newest: ReportRow, newest_report_id: int, confidence_ppm: int, now_us: int
) -> None:
    """Score the prediction for the bound that the newest batch runs with; the stream is locked.

    Args:
        newest_report_id: the report stored last; later ones are left to the next decision.
    """
    if newest.generation is None:
        return
    prediction = session.get(PredictionRow, (newest.stream_id, newest.generation))
    if prediction is None:
        return
    counted = _counted_on(session, prediction, newest_report_id)
    if counted is None:
        counted = _counted_again(session, prediction, newest_report_id)
    prediction.counted_report_id = newest_report_id
    prediction.restored_ms = json.dumps(counted.restored_ms)
    prediction.became_effective_us = counted.since_us
    prediction.judged = counted.judged
    rows = prediction.expected.rows
    per_event = rows_per_event(rows, prediction.expected.events)
    outcome = score(rows, prediction.expected.late, counted.judged, confidence_ppm, per_event)
    if outcome is not None:
        prediction.scored_us = now_us
        prediction.realised_ppm, prediction.error_ppm = outcome.completeness_ppm, outcome.error_ppm
        prediction.realised_max_ppm = outcome.max_ppm


def _counted_on(session: Session, prediction: PredictionRow, newest_report_id: int) -> UnderBound | None:
    """Return what is counted with the reports since the last time; None when that takes counting all again."""
    if not prediction.counted_report_id:
        return None
    read = {
        "stream": prediction.stream_id,
        "after": prediction.counted_report_id,
        "last": newest_report_id,
    }
    new = session.connection().execute(_NEW, read).all()
    counted = UnderBound(
        json.loads(prediction.restored_ms),
        prediction.became_effective_us,
        prediction.judged,
    )
    under = (prediction.generation, prediction.expected.bound_ms)
    return counted.with_batches(
        (row for row in new if (row.generation, row.bound_ms) == under), prediction.horizon_ms * 1_000
    )


# Not by generation: SQLite would then read all batches of the generation instead of the new ones.
_NEW = (
    select(
        ReportRow.query_id,
        ReportRow.generation,
        ReportRow.bound_ms,
        ReportRow.watermark_ms,
        ReportRow.late_watermark_ms,
        ReportRow.seen_us,
        *BY_BOUND,
    )
    .where(
        ReportRow.stream_id == bindparam("stream"),
        ReportRow.id > bindparam("after"),
        ReportRow.id <= bindparam("last"),
    )
    .order_by(ReportRow.id)
)


def _counted_again(session: Session, prediction: PredictionRow, newest_report_id: int) -> UnderBound:
    """Return what all reports add up to."""
    under = (
        ReportRow.stream_id == prediction.stream_id,
        ReportRow.generation == prediction.generation,
        ReportRow.bound_ms == prediction.expected.bound_ms,
        ReportRow.id <= newest_report_id,
    )
    lowest = select(ReportRow.query_id, func.min(ReportRow.watermark_ms)).where(*under)
    restored_ms: dict[str, int] = dict(session.execute(lowest.group_by(ReportRow.query_id)).all())
    first = select(func.min(ReportRow.seen_us)).where(*under, _above(ReportRow.watermark_ms, restored_ms))
    since_us: int | None = session.scalars(first).one()
    if since_us is None:
        return UnderBound(restored_ms)
    sums = select(*map(func.sum, BY_BOUND)).where(
        *under,
        _above(ReportRow.late_watermark_ms, restored_ms),
        ReportRow.seen_us <= since_us + prediction.horizon_ms * 1_000,
    )
    # PostgreSQL sums to an exact decimal, and nothing to null.
    judged = Judged(*(int(number or 0) for number in session.execute(sums).one()))
    return UnderBound(restored_ms, since_us, judged)


def _above(
    watermark_ms: InstrumentedAttribute[int] | InstrumentedAttribute[int | None], restored_ms: dict[str, int]
) -> ColumnElement[bool]:
    """Return the condition that a batch's watermark is above the one that its query restored."""
    return or_(
        false(),
        *(and_(ReportRow.query_id == query, watermark_ms > mark) for query, mark in restored_ms.items()),
    )
