"""Bounds for all streams of a query together."""

from __future__ import annotations

from tidemark.controller.api.schemas.answer import Answer


class JointSide(Answer):
    """The bound of one stream among those of its query."""

    stream: str
    """Name of the stream."""
    bound_ms: int | None
    """Its bound, in milliseconds; null when there is too little evidence, or no other stream."""
    rows: int
    """Rows that it rests on."""
    late: int | None
    """How many of them would be late under all these bounds, at most; null without bounds."""
    reason: str
    """Why this bound, or why none."""


class JointBoundsAnswer(Answer):
    """Bounds for all streams of a query, by one SLO on its joined output."""

    job: str
    """Name of the job."""
    query_id: str | None
    """Spark's persistent id of the query; null without a report."""
    target_ppm: int
    """Share of the joined pairs to come out, in parts per million."""
    confidence_ppm: int
    """Confidence with which it is certified, in parts per million."""
    batches: int
    """Batches that count."""
    from_us: int | None
    """Trigger time of the first of them, in microseconds since the epoch; null without any."""
    to_us: int | None
    """Trigger time of the last."""
    unknown_rows: int
    """Rows in them whose need is not known; they do not count."""
    common_bound_ms: int | None
    """The lowest bound that meets the target when every stream has it, in milliseconds; null without bounds."""
    sides: list[JointSide]
    """The streams of the query by name."""
