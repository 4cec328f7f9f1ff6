"""Spans of time in requests for charts."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query
from sqlalchemy.orm import Session

from tidemark.controller.errors import ErrorItem, InvalidParameterError
from tidemark.controller.evidence.horizon import horizon_of
from tidemark.models.base.ranges import MAX_TIME_US
from tidemark.models.evidence.slots import DAY_US

FromUs = Annotated[
    int | None,
    Query(
        ge=0,
        le=MAX_TIME_US,
        description="Start of the span, in microseconds since the epoch; the default is a day before its end.",
    ),
]
ToUs = Annotated[
    int | None,
    Query(
        ge=0,
        le=MAX_TIME_US,
        description="End of the span, in microseconds since the epoch; the default is the newest batch.",
    ),
]


def span_of(
    session: Session, stream_id: int, from_us: int | None, to_us: int | None, now_us: int
) -> tuple[int, int]:
    """Return start and end of the requested span.

    Raises:
        InvalidParameterError: when it ends before it begins.
    """
    if to_us is None:
        newest = horizon_of(session, stream_id, 0)
        to_us = (now_us if newest is None else newest.newest.seen_us) + 1
        if from_us is not None:
            # A span that begins after the newest batch is empty, but valid.
            to_us = max(to_us, from_us + 1)
    if from_us is None:
        from_us = max(to_us - DAY_US, 0)
    if from_us >= to_us:
        reason = f"the span begins at {from_us} and ends at {to_us}; it must end after it begins"
        raise InvalidParameterError(f"from_us: {reason}", errors=(ErrorItem("from_us", reason),))
    return from_us, to_us
