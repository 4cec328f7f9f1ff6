"""Partitions of a stream: how far behind each is and what its rows need, so that a slow one stands out."""

from __future__ import annotations

from fastapi import APIRouter

from tidemark.controller.api.cursors import ThePaging, decode_cursor
from tidemark.controller.api.dependencies import TheService
from tidemark.controller.api.documented import answers
from tidemark.controller.api.names import WhichStream
from tidemark.controller.api.schemas import Partition, PartitionPage
from tidemark.controller.db.tables import PartitionRow
from tidemark.controller.decide.load import progress_in
from tidemark.controller.partitions.store import last_event_time_us, list_partitions
from tidemark.controller.specs.store import DEFAULT_SHARE_PPM
from tidemark.controller.stream_state.load import load_state
from tidemark.controller.stream_state.partition_rows import partitions_of
from tidemark.controller.stream_state.snapshots import PartitionSnapshot, take_snapshot
from tidemark.controller.streams.store import get_stream
from tidemark.models.evidence.skew import skew_text

router = APIRouter(prefix="/v1/jobs/{job}/streams/{stream}", tags=["streams"])


@router.get(
    "/partitions",
    operation_id="listPartitions",
    summary="List partitions",
    responses=answers("PartitionPage", 404, 422, 503),
)
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
                session,
                horizon,
                None if state.slo is None else state.slo.value,
                partitions=partitions_of(session, stream_id),
                live=state.live,
                batch_gap_us=progress_in(session, horizon, service.clock(), service.kept).batch_gap_us,
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
        text = skew_text(row.partition, costs_ms, without_ms)
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
