"""Partitions of a stream: how far each is behind and what its rows need, so that a slow one stands out."""

from __future__ import annotations

import math

from fastapi import APIRouter

from tidemark.controller.api.cursors import Cursor, Limit, decode_cursor, encode_cursor
from tidemark.controller.api.dependencies import TheService
from tidemark.controller.api.documented import answers
from tidemark.controller.api.names import WhichStream
from tidemark.controller.api.schemas import Partition, PartitionPage
from tidemark.controller.store.horizon import horizon_of
from tidemark.controller.store.needs import partition_sketches
from tidemark.controller.store.partitions import last_event_time_us, list_partitions
from tidemark.controller.store.specs import DEFAULT_HORIZON_MS, get_slo
from tidemark.controller.store.streams import get_stream
from tidemark.controller.store.tables import PartitionRow
from tidemark.models.sketch import Sketch
from tidemark.models.target import PPM

__all__ = ["router"]

router = APIRouter(prefix="/v1/jobs/{job}/streams/{stream}", tags=["streams"])

DEFAULT_SHARE_PPM = 990_000
"""The share that is asked about for a stream without an SLO, in parts per million."""


@router.get(
    "/partitions",
    operation_id="listPartitions",
    summary="List partitions",
    responses=answers("PartitionPage", 404, 422, 503),
)
def list_all(
    which: WhichStream, service: TheService, limit: Limit = 100, cursor: Cursor = None
) -> PartitionPage:
    """List the stream's partitions by name."""
    position = decode_cursor(cursor, 1)
    with service.database.read() as session:
        stream_id = get_stream(session, which.job, which.stream).id
        slo = get_slo(session, stream_id)
        horizon = horizon_of(session, stream_id, DEFAULT_HORIZON_MS if slo is None else slo.value.horizon_ms)
        rows = list_partitions(session, stream_id, None if position is None else position[0], limit + 1)
        page = rows[:limit]
        names = [row.partition for row in page]
        needs = {} if horizon is None else partition_sketches(session, stream_id, horizon.from_us, names)
        greatest_us = last_event_time_us(session, stream_id)
    share_ppm = DEFAULT_SHARE_PPM if slo is None else slo.value.target_ppm
    return PartitionPage(
        partitions=[
            _partition(row, greatest_us, needs.get(row.partition, Sketch()), share_ppm) for row in page
        ],
        share_ppm=share_ppm,
        next_cursor=encode_cursor(page[-1].partition) if len(rows) > limit else None,
    )


def _partition(row: PartitionRow, greatest_us: int | None, needs: Sketch, share_ppm: int) -> Partition:
    pairs = round(needs.weight)
    need_us = needs.value_at_rank(-(-share_ppm * pairs // PPM))
    return Partition(
        partition=row.partition,
        rows=row.rows,
        last_event_time_us=row.last_event_time_us,
        behind_ms=0 if greatest_us is None else (greatest_us - row.last_event_time_us) // 1_000,
        last_seen_us=row.last_seen_us,
        pairs=pairs,
        need_ms=None if need_us is None else math.ceil(need_us / 1_000),
        skew_ms=None if row.behind_us is None else row.behind_us // 1_000,
        future_rows=row.future_rows,
    )
