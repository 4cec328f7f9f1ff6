"""Takes the counts that drivers send, and answers who is lost."""

from __future__ import annotations

from dataclasses import fields
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Response, status
from pydantic import TypeAdapter

from tidemark.controller.api import schemas
from tidemark.controller.api.dependencies import TheService
from tidemark.controller.api.documented import answers, takes
from tidemark.controller.api.names import WhichStream
from tidemark.controller.api.request_body import JsonBody, parse_aside
from tidemark.controller.errors import ErrorItem, InvalidBodyError
from tidemark.controller.intake.sent_bodies import parse_sent
from tidemark.controller.lost.store import counted_up_to, dimensions_of, lost_in_window, take_counts
from tidemark.controller.specs.store import window_ms_of
from tidemark.controller.streams.store import get_stream, lock_stream
from tidemark.models.base.target import PPM
from tidemark.models.evidence.late_counts import (
    LATE_COUNTS_SCHEMA,
    MAX_VALUE_LENGTH,
    MAX_VALUES,
    ByValue,
    LateCounts,
    LossCounts,
    losses,
)

router = APIRouter(prefix="/v1/jobs/{job}/streams/{stream}")

_COUNTS = {LATE_COUNTS_SCHEMA: TypeAdapter(LateCounts)}

_Dimension = Annotated[
    str | None,
    Query(
        min_length=1,
        max_length=MAX_VALUE_LENGTH,
        description="The dimension, or partition; the default is the newest one.",
    ),
]
_WindowMs = Annotated[
    int | None,
    Query(
        gt=0,
        le=31 * 86_400_000,
        description="How far back to count, in milliseconds; the default is the SLO's window.",
    ),
]
_Limit = Annotated[int, Query(ge=1, le=MAX_VALUES, description="How many values to list at most.")]


async def _counts_of(body: JsonBody) -> LateCounts:
    return await parse_aside(_checked, body)


def _checked(body: bytes) -> LateCounts:
    counts = parse_sent(_COUNTS, body)
    texts = {"/query_id": counts.query_id, "/source": counts.source, "/dimension": counts.dimension}
    for name, values in (("values", counts.values), ("partitions", counts.partitions)):
        texts |= {f"/{name}/{index}/value": each.value or "" for index, each in enumerate(values)}
    for pointer, text in texts.items():
        if "\0" in text:
            # PostgreSQL cannot store it.
            reason = "the character U+0000 is not allowed"
            raise InvalidBodyError(f"{pointer}: {reason}", errors=(ErrorItem(pointer, reason),))
    return counts


@router.post(
    "/late-rows",
    operation_id="postLateRows",
    tags=["jobs"],
    summary="Report rows and losses by a dimension",
    status_code=status.HTTP_201_CREATED,
    responses=answers("Receipt", 200, 201, 400, 408, 413, 415, 422, 503),
    openapi_extra=takes("LateCounts"),
)
def post_late_rows(
    which: WhichStream,
    counts: Annotated[LateCounts, Depends(_counts_of)],
    service: TheService,
    response: Response,
) -> schemas.Receipt:
    """Count the rows of some batches by the values of a dimension, once: batches that overlap counted ones get 200."""
    now_us = service.clock()
    with service.database.write() as session:
        stream = lock_stream(session, which.job, which.stream, service.database.limits)
        receipt = take_counts(session, stream.id, counts, now_us)
    if receipt.duplicate:
        response.status_code = status.HTTP_200_OK
    else:
        service.database.answers_changed()
    return schemas.Receipt(
        job=which.job, stream=which.stream, received_us=receipt.received_us, duplicate=receipt.duplicate
    )


@router.get(
    "/lost",
    operation_id="getLost",
    tags=["streams"],
    summary="Who is lost",
    responses=answers("LostAnswer", 404, 422, 503),
)
def get_lost(
    which: WhichStream,
    service: TheService,
    dimension: _Dimension = None,
    window_ms: _WindowMs = None,
    limit: _Limit = 100,
) -> schemas.LostAnswer:
    """Return which values of a dimension lose rows, and which of them far more often than all other rows.

    The counts are the job's own, by the hour, up to the newest hour with counts. They are exact for all batches that
    could be read again. The job sends them some batches later than its reports, so that the budget is ahead of them:
    `counted` says by how much.
    """
    with service.database.read() as session:
        stream_id = get_stream(session, which.job, which.stream).id
        window_ms = window_ms_of(session, stream_id) if window_ms is None else window_ms
        found = lost_in_window(session, stream_id, window_ms, dimension)
        dimensions = dimensions_of(session, stream_id)
        reached = counted_up_to(session, stream_id)
    counted = ByValue({}) if found is None else found.counted
    values = losses(counted)
    named = [each for each in values if not each.other]
    shown = named[:limit] + [each for each in values if each.other]
    return schemas.LostAnswer(
        job=which.job,
        stream=which.stream,
        dimension=None if found is None else found.dimension,
        dimensions=[*dimensions],
        from_us=None if found is None else found.from_us,
        to_us=None if found is None else found.to_us,
        counted=None if found is None or reached is None else schemas.LossCounted.of(reached),
        total=schemas.LossTotals(**_counts(counted.total)),
        values=[schemas.LostValue.of(each, **_counts(each.counts)) for each in shown],
        more_values=max(len(named) - limit, 0),
    )


_SENT = [each.name for each in fields(LossCounts) if each.name != "late_by_age"]


def _counts(counts: LossCounts) -> dict[str, Any]:
    return {
        **{name: getattr(counts, name) for name in _SENT},
        "median_late_ms": counts.late_within_ms(PPM // 2),
        "p99_late_ms": counts.late_within_ms(PPM * 99 // 100),
        "lost": counts.lost,
        "lost_ppm": counts.lost * PPM // counts.rows if counts.rows else None,
    }
