"""The heat map of a stream: what each partition needed over time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from fastapi import APIRouter, Query

from tidemark.controller.api import schemas
from tidemark.controller.api.dependencies import TheService
from tidemark.controller.api.documented import answers
from tidemark.controller.api.names import WhichStream
from tidemark.controller.charts.spans import FromUs, ToUs, span_of
from tidemark.controller.charts.store import MAP_WIDTHS_US, MAX_MINUTES, map_rows, need_map
from tidemark.controller.db.tables import PartitionRow, RollupRow
from tidemark.controller.evidence.blocks import SlotCells
from tidemark.controller.evidence.horizon import effective_bound_of, horizon_of
from tidemark.controller.evidence.needs import levels_of
from tidemark.controller.specs.store import share_ppm_of
from tidemark.controller.streams.store import get_stream
from tidemark.models.evidence.slots import SLOT_US, Slots, slots_of

router = APIRouter(prefix="/v1/jobs/{job}/streams/{stream}", tags=["streams"])

_MaxSlots = Annotated[
    int,
    Query(
        ge=2,
        le=1_000,
        description="Maximum number of slots (minutes, ten minutes, hours or days); the oldest are left out first.",
    ),
]
_MaxPartitions = Annotated[
    int, Query(ge=1, le=256, description="Maximum number of partitions, the most costly first.")
]


@router.get(
    "/heatmap",
    operation_id="getHeatmap",
    summary="What partitions needed over time",
    responses=answers("Heatmap", 404, 422, 503),
)
def get_heatmap(
    which: WhichStream,
    service: TheService,
    from_us: FromUs = None,
    to_us: ToUs = None,
    *,
    slots: _MaxSlots = 168,
    limit: _MaxPartitions = 64,
) -> schemas.Heatmap:
    """Return what each partition needed by slots of time, the most costly partitions first."""
    with service.database.read() as session:
        stream_id = get_stream(session, which.job, which.stream).id
        start_us, end_us = span_of(session, stream_id, from_us, to_us, service.clock())
        found = _slots(start_us, end_us, slots, session.get(RollupRow, stream_id))
        share_ppm = share_ppm_of(session, stream_id)
        rows, total = map_rows(session, stream_id, found, limit)
        cells = _by_partition(need_map(session, stream_id, found, share_ppm))
        horizon = horizon_of(session, stream_id, 0)
        bound_ms = None if horizon is None else effective_bound_of(session, horizon.newest)
        partitions = [_partition(row, found, cells.get(row.partition, {})) for row in rows]
    return schemas.Heatmap(
        job=which.job,
        stream=which.stream,
        from_us=found.from_us,
        to_us=found.until_us,
        slot_us=found.width_us,
        slots=list(found.starts_us),
        share_ppm=share_ppm,
        effective_bound_ms=bound_ms,
        total=total,
        partitions=partitions,
    )


def _slots(from_us: int, until_us: int, limit: int, rollup: RollupRow | None) -> Slots:
    by_minute = min(limit, MAX_MINUTES)
    if -(-until_us // SLOT_US) - from_us // SLOT_US <= by_minute:
        return slots_of(from_us, until_us, by_minute, levels_of(rollup), MAP_WIDTHS_US)
    return slots_of(from_us, until_us, limit, levels_of(rollup), MAP_WIDTHS_US[1:])


def _by_partition(cells: Mapping[int, SlotCells]) -> dict[str, dict[int, schemas.HeatmapCell]]:
    found: dict[str, dict[int, schemas.HeatmapCell]] = {}
    for slot_us, slot in cells.items():
        for name, need_ms, pairs in zip(slot.names, slot.need_ms, slot.pairs, strict=True):
            # Thousands of them, from trusted numbers: validation would take most of the time.
            found.setdefault(name, {})[slot_us] = schemas.HeatmapCell.model_construct(
                need_ms=need_ms, pairs=pairs
            )
    return found


def _partition(
    row: PartitionRow, slots: Slots, cells: Mapping[int, schemas.HeatmapCell]
) -> schemas.HeatmapPartition:
    return schemas.HeatmapPartition.of(
        row,
        future=row.last_future_us is not None and row.last_future_us >= slots.from_us,
        cells=[cells.get(slot_us) for slot_us in slots.starts_us],
    )
