"""Routes of partitions, and of rows and losses by the values of a dimension."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request, Response, status
from pydantic import TypeAdapter

from tidemark.controller.base.db.tables import PartitionRow
from tidemark.controller.base.errors import InvalidBodyError
from tidemark.controller.control.decide.load import read_progress
from tidemark.controller.evidence.horizon import horizon_of
from tidemark.controller.evidence.lost import counted_up_to, dimensions_of, lost_in_window, take_counts
from tidemark.controller.reports.partitions import last_event_time_us, list_partitions
from tidemark.controller.reports.sent_bodies import parse_sent
from tidemark.controller.server.http.cursors import ThePaging, decode_cursor
from tidemark.controller.server.http.openapi import says
from tidemark.controller.server.http.parameters import TheService, WhichStream
from tidemark.controller.server.http.request_body import JsonBody, parse_aside, receipt_answer
from tidemark.controller.server.schemas.bounds import Receipt
from tidemark.controller.server.schemas.charts import PartitionCurve, PartitionPoint
from tidemark.controller.server.schemas.partitions import (
    LostAnswer,
    Partition,
    PartitionPage,
)
from tidemark.controller.specs.store import DEFAULT_SHARE_PPM, horizon_ms_of, window_ms_of
from tidemark.controller.specs.streams import get_stream, lock_stream
from tidemark.controller.view.state.load import load_state
from tidemark.controller.view.state.partition_rows import read_partitions
from tidemark.controller.view.state.snapshots import PartitionSnapshot, take_snapshot
from tidemark.models.base.ranges import MAX_TIME_MS, MAX_VALUE_LENGTH
from tidemark.models.base.target import PPM
from tidemark.models.evidence.curve import Curve
from tidemark.models.evidence.late_counts import (
    LATE_COUNTS_SCHEMA,
    MAX_VALUES,
    ByValue,
    LateCounts,
    losses,
    totals_of,
)
from tidemark.models.evidence.partition_counts import SkewCost

_partitions = APIRouter(prefix="/v1/jobs/{job}/streams/{stream}", tags=["streams"])


@_partitions.get("/partitions", **says("listPartitions", "List partitions", "PartitionPage", 404))
def list_all(which: WhichStream, service: TheService, paging: ThePaging) -> PartitionPage:
    """List the stream's partitions by name, each with its effect on the bound."""
    position = decode_cursor(paging.cursor, 1)
    with service.database.read() as session:
        stream_id = get_stream(session, which.job, which.stream).id
        state = load_state(session, stream_id)
        horizon = state.horizon
        rows = list_partitions(session, stream_id, None if position is None else position[0], paging.rows)
        page, next_cursor = paging.cut(rows, lambda row: (row.partition,))
        snapshot = None
        if horizon is not None:
            snapshot = take_snapshot(
                service.cache.partition_needs(session, horizon),
                horizon,
                None if state.slo is None else state.slo.value,
                partitions=read_partitions(session, stream_id),
                live=state.live,
                batch_gap_us=read_progress(session, horizon, service.clock(), service.cache).batch_gap_us,
                overdispersion=service.cache.facts(session, horizon)[1],
                rule=service.overviews.rule,
            )
        max_us = last_event_time_us(session, stream_id)
        return PartitionPage(
            partitions=[
                _partition(row, max_us, None if snapshot is None else snapshot.partitions.get(row.partition))
                for row in page
            ],
            share_ppm=DEFAULT_SHARE_PPM if state.slo is None else state.slo.value.target_ppm,
            bound_ms=None if snapshot is None else snapshot.bound_ms,
            next_cursor=next_cursor,
        )


def _partition(row: PartitionRow, max_us: int | None, snapshot: PartitionSnapshot | None) -> Partition:
    effect = None if snapshot is None else snapshot.effect
    costs_ms = None if effect is None else effect.costs_ms
    without_ms = None if effect is None else effect.without_ms
    text = None
    # Skewed is as of the newest snapshot, on which events and alerts rest; the figures are as of now.
    if row.skewed and costs_ms is not None and without_ms is not None:
        text = SkewCost.of(row.partition, costs_ms, without_ms).text
    return Partition.of(
        row,
        behind_ms=0 if max_us is None else (max_us - row.last_event_time_us) // 1_000,
        pairs=0 if snapshot is None else snapshot.pairs,
        need_ms=None if snapshot is None else snapshot.need_ms,
        skew_ms=None if row.behind_us is None else row.behind_us // 1_000,
        future=snapshot is not None and snapshot.future,
        misdated=snapshot is not None and snapshot.misdated,
        state="Gone" if snapshot is None else snapshot.state,
        without_bound_ms=without_ms,
        costs_ms=costs_ms,
        text=text,
    )


_Partition = Annotated[str, Query(max_length=200, description="Name of the partition.")]
_Bounds = Annotated[
    list[Annotated[int, Query(ge=0, le=MAX_TIME_MS)]],
    Query(min_length=1, max_length=1_000, description="Bounds in milliseconds."),
]


@_partitions.get(
    "/partition-curve",
    **says("getPartitionCurve", "Completeness of a partition by bound", "PartitionCurve", 404),
)
def get_partition_curve(
    which: WhichStream, service: TheService, partition: _Partition, bound_ms: _Bounds
) -> PartitionCurve:
    """Return what share of a partition's rows over the SLO's horizon each bound admits; no points without any row."""
    with service.database.read() as session:
        stream_id = get_stream(session, which.job, which.stream).id
        horizon = horizon_of(session, stream_id, horizon_ms_of(session, stream_id))
        needs = None if horizon is None else service.cache.partition_needs(session, horizon)
    found = [] if needs is None else _points(Curve(needs.sketch(partition), None), sorted(set(bound_ms)))
    return PartitionCurve(job=which.job, stream=which.stream, partition=partition, points=found)


def _points(curve: Curve, bounds: list[int]) -> list[PartitionPoint]:
    points = [curve.at(bound * 1_000) for bound in bounds]
    return [
        PartitionPoint(
            bound_ms=bound,
            rows=point.rows,
            late=point.late,
            completeness_ppm=(point.rows - point.late) * PPM // point.rows,
        )
        for bound, point in zip(bounds, points, strict=True)
        if point.rows
    ]


_lost_router = APIRouter(prefix="/v1/jobs/{job}/streams/{stream}")

_COUNTS = TypeAdapter(LateCounts)

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
    counts = parse_sent(_COUNTS, body, LATE_COUNTS_SCHEMA)
    texts = {"/query_id": counts.query_id, "/source": counts.source, "/dimension": counts.dimension}
    for name, values in (("values", counts.values), ("partitions", counts.partitions)):
        texts |= {f"/{name}/{index}/value": each.value or "" for index, each in enumerate(values)}
    for pointer, text in texts.items():
        if "\0" in text:
            # PostgreSQL cannot store it.
            reason = "the character U+0000 is not allowed"
            raise InvalidBodyError.at(pointer, reason)
    return counts


@_lost_router.post(
    "/late-rows",
    tags=["jobs"],
    **says("postLateRows", "Report rows and losses by a dimension", "Receipt", 200, 201, body="LateCounts"),
)
def post_late_rows(
    which: WhichStream,
    counts: Annotated[LateCounts, Depends(_counts_of)],
    service: TheService,
    request: Request,
    response: Response,
) -> Receipt:
    """Count the rows of some batches by the values of a dimension, once: batches that overlap counted ones get 200."""
    now_us = service.clock()
    with service.database.write() as session:
        stream = lock_stream(session, which.job, which.stream, service.database.limits)
        receipt = take_counts(session, stream.id, counts, now_us)
    if receipt.duplicate:
        response.status_code = status.HTTP_200_OK
    else:
        service.database.answers_changed()
    return receipt_answer(request, receipt)


@_lost_router.get("/lost", tags=["streams"], **says("getLost", "Who is lost", "LostAnswer", 404))
def get_lost(
    which: WhichStream,
    service: TheService,
    dimension: _Dimension = None,
    window_ms: _WindowMs = None,
    limit: _Limit = 100,
) -> LostAnswer:
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
    counted = ByValue({}) if found is None else found
    values = losses(counted)
    named = [each for each in values if not each.other]
    shown = named[:limit] + [each for each in values if each.other]
    return LostAnswer.of(
        found,
        job=which.job,
        stream=which.stream,
        dimensions=[*dimensions],
        counted=None if found is None else reached,
        total=totals_of(counted.total),
        values=shown,
        more_values=max(len(named) - limit, 0),
    )


router = APIRouter()
for _part in (_partitions, _lost_router):
    router.include_router(_part)
