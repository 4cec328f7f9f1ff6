"""The history of a stream: bounds, needs and late rows over time."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from tidemark.controller.api import schemas
from tidemark.controller.api.dependencies import TheService
from tidemark.controller.api.documented import answers
from tidemark.controller.api.names import WhichStream
from tidemark.controller.charts.spans import FromUs, ToUs, span_of
from tidemark.controller.charts.store import (
    NeedsOfSlot,
    SlotFacts,
    needs_by_slot,
    published_by_slot,
    rollouts_in,
    series_by_slot,
)
from tidemark.controller.db.tables import RollupRow
from tidemark.controller.evidence.needs import levels_of
from tidemark.controller.specs.store import share_ppm_of
from tidemark.controller.streams.store import get_stream
from tidemark.models.evidence.slots import slots_of

router = APIRouter(prefix="/v1/jobs/{job}/streams/{stream}", tags=["streams"])

_MAX_ROLLOUTS = 200
"""Maximum number of rollouts in an answer."""

_Points = Annotated[
    int, Query(ge=2, le=2_000, description="Maximum number of slots; the oldest are left out first.")
]


@router.get(
    "/history",
    operation_id="getHistory",
    summary="Bounds, needs and late rows over time",
    responses=answers("History", 404, 422, 503),
)
def get_history(
    which: WhichStream,
    service: TheService,
    from_us: FromUs = None,
    to_us: ToUs = None,
    points: _Points = 300,
) -> schemas.History:
    """Return, by slots of time, the bound in use, what rows needed and how many were late."""
    now_us = service.clock()
    with service.database.read() as session:
        stream_id = get_stream(session, which.job, which.stream).id
        start_us, end_us = span_of(session, stream_id, from_us, to_us, now_us)
        slots = slots_of(start_us, end_us, points, levels_of(session.get(RollupRow, stream_id)))
        share_ppm = share_ppm_of(session, stream_id)
        facts = series_by_slot(session, stream_id, slots)
        needs = needs_by_slot(session, stream_id, slots, share_ppm)
        published = published_by_slot(session, stream_id, slots)
        rollouts = [
            schemas.HistoryRollout.of(row) for row in rollouts_in(session, stream_id, slots, _MAX_ROLLOUTS)
        ]
    return schemas.History(
        job=which.job,
        stream=which.stream,
        from_us=slots.from_us,
        to_us=slots.until_us,
        slot_us=slots.width_us,
        target_ppm=share_ppm,
        slots=[
            _slot(
                slot_us,
                facts.get(slot_us),
                needs.get(slot_us, NeedsOfSlot()),
                published.get(slot_us) if slot_us <= now_us else None,
            )
            for slot_us in slots.starts_us
        ],
        rollouts=rollouts,
    )


def _slot(
    slot_us: int, facts: SlotFacts | None, needs: NeedsOfSlot, published_bound_ms: int | None
) -> schemas.HistorySlot:
    return schemas.HistorySlot(
        from_us=slot_us,
        rows=None if facts is None else facts.rows,
        pairs=None if facts is None else facts.pairs,
        late_min=None if facts is None else facts.late_min,
        late_max=None if facts is None else facts.late_max,
        unjudged_rows=None if facts is None else facts.unjudged_rows,
        future_rows=None if facts is None else facts.future_rows,
        in_use_bound_ms=None if facts is None else facts.bound_ms,
        effective_bound_ms=None if facts is None else facts.effective_bound_ms,
        published_bound_ms=published_bound_ms,
        need_p50_ms=needs.p50_ms,
        need_p90_ms=needs.p90_ms,
        need_target_ms=needs.target_ms,
        need_max_ms=needs.max_ms,
    )
