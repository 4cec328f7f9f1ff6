"""Predictions for published bounds, as the store has them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields

from sqlalchemy import bindparam, select
from sqlalchemy.orm import Session

from tidemark.controller.db.tables import PredictionRow, PublishedRow
from tidemark.models.recommend.transition import Transition


def keep_prediction(
    session: Session,
    published: PublishedRow,
    transition: Transition,
    horizon_ms: int,
    now_us: int,
) -> None:
    """Store the prediction for a published bound, once a generation.

    Args:
        session: the session.
        published: what is published to the stream.
        transition: what going to its bound will do.
        horizon_ms: length of the evidence that this rests on, in milliseconds.
        now_us: the wall time in microseconds.
    """
    columns = PredictionRow.__table__.columns
    same = {
        field.name: getattr(transition, field.name) for field in fields(transition) if field.name in columns
    }
    session.add(
        PredictionRow(
            stream_id=published.stream_id,
            generation=published.generation,
            bound_ms=transition.bound_us // 1_000,
            from_bound_ms=transition.from_bound_us // 1_000,
            made_us=now_us,
            horizon_ms=horizon_ms,
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
