"""Reads the data of charts over any span: a series by slot, and a heat map of what each partition needed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from sqlalchemy import func, or_, select
from sqlalchemy.orm import Session

from tidemark.controller.base.db.tables import PartitionRow, PublishedRow, ReportRow, RolloutRow
from tidemark.controller.evidence.rollups import (
    Rollup,
    Span,
    needs_of,
    partition_needs_in,
    rollups_in,
    sums_of,
)
from tidemark.controller.reports.store import effective_bound_of
from tidemark.models.base.target import PPM
from tidemark.models.evidence.partition_needs import PartitionNeeds
from tidemark.models.evidence.sketch import Sketch
from tidemark.models.evidence.slots import Slots, edge_us

MAX_MINUTES = 90
"""Maximum slots of a minute in a map: longer spans are read by ten minutes, a tenth of the work."""

_SHARES_PPM = {"need_p50_ms": 500_000, "need_p90_ms": 900_000}
_COUNTED = ("rows", "pairs", "late_min", "late_max", "unjudged_rows", "future_rows")


@dataclass(frozen=True, slots=True)
class SlotCells:
    """What partitions needed in one slot."""

    names: Sequence[str]
    """The partitions with rows in the slot."""
    need_ms: Sequence[int]
    """For each, the bound that admits the share of its pairs, in milliseconds, at least 0."""
    pairs: Sequence[int]
    """For each, the number of (row, key) pairs with a known need."""


def history_by_slot(
    session: Session, stream_id: int, slots: Slots, share_ppm: int
) -> dict[int, dict[str, int | None]]:
    """Return what is known of each slot that has batches, by its start and then by the fields of ``HistorySlot``."""
    by_slot: dict[int, list[Rollup]] = {}
    for part in rollups_in(session, Span(stream_id, slots.from_us, slots.until_us), slots.width_us):
        by_slot.setdefault(edge_us(part.slot_us, slots.width_us), []).append(part)
    return {slot_us: _facts(session, parts, share_ppm) for slot_us, parts in by_slot.items()}


def _facts(session: Session, parts: Sequence[Rollup], share_ppm: int) -> dict[str, int | None]:
    newest = max(reversed(parts), key=lambda part: part.newest_us)
    sums = sums_of(parts)
    assert sums is not None, "a rollup has a batch"
    bound_ms = newest.effective_bound_ms
    if newest.report_id is not None:
        bound_ms = effective_bound_of(session, session.get_one(ReportRow, newest.report_id))
    needs = needs_of(parts)
    shares = {**_SHARES_PPM, "need_target_ms": share_ppm, "need_max_ms": PPM}
    return {
        **{name: sums.sums[name] for name in _COUNTED},
        "in_use_bound_ms": newest.bound_ms,
        "effective_bound_ms": bound_ms,
        **{name: _need_ms(needs, share) for name, share in shares.items()},
    }


def _need_ms(needs: Sketch, share_ppm: int) -> int | None:
    need_us = needs.value_at_rank(max(-(-share_ppm * round(needs.weight) // PPM), 1))
    return None if need_us is None else math.ceil(need_us / 1_000)


def published_by_slot(session: Session, stream_id: int, slots: Slots) -> dict[int, int | None]:
    """Return the bound published at the end of each slot, by its start; slots before the first one are left out."""
    rows = session.execute(
        select(PublishedRow.published_us, PublishedRow.bound_ms)
        .where(PublishedRow.stream_id == stream_id, PublishedRow.published_us < slots.until_us)
        .order_by(PublishedRow.generation)
    ).all()
    by_slot: dict[int, int | None] = {}
    number = -1
    for start_us in slots.starts_us:
        while number + 1 < len(rows) and rows[number + 1][0] < start_us + slots.width_us:
            number += 1
        if number >= 0:
            by_slot[start_us] = rows[number][1]
    return by_slot


def rollouts_in(session: Session, stream_id: int, slots: Slots, limit: int) -> Sequence[RolloutRow]:
    """Return up to ``limit`` rollouts that were published, took effect or ended within a span, the newest first."""
    times = (RolloutRow.published_us, RolloutRow.effective_us, RolloutRow.ended_us)
    return session.scalars(
        select(RolloutRow)
        .where(
            RolloutRow.stream_id == stream_id,
            RolloutRow.published_us.is_not(None),
            or_(*((time >= slots.from_us) & (time < slots.until_us) for time in times)),
        )
        .order_by(RolloutRow.id.desc())
        .limit(limit)
    ).all()


def map_rows(
    session: Session, stream_id: int, slots: Slots, limit: int
) -> tuple[Sequence[PartitionRow], int]:
    """Return up to ``limit`` partitions that may have rows in a span, the most costly first, and how many there are."""
    seen = (
        PartitionRow.stream_id == stream_id,
        PartitionRow.last_seen_us >= slots.from_us,
        PartitionRow.first_seen_us < slots.until_us,
    )
    total = session.scalars(select(func.count()).select_from(PartitionRow).where(*seen)).one()
    cost, need = PartitionRow.costs_ms, PartitionRow.need_ms
    rows = session.scalars(
        select(PartitionRow)
        .where(*seen)
        .order_by(cost.is_(None), cost.desc(), need.is_(None), need.desc(), PartitionRow.partition)
        .limit(limit)
    ).all()
    return rows, total


def need_map(session: Session, stream_id: int, slots: Slots, share_ppm: int) -> Mapping[int, SlotCells]:
    """Return what partitions needed, by the start of the slot; slots without a known need are left out."""
    by_slot: dict[int, list[PartitionNeeds]] = {}
    span = Span(stream_id, slots.from_us, slots.until_us)
    for slot_us, needs in partition_needs_in(session, span, slots.width_us):
        by_slot.setdefault(edge_us(slot_us, slots.width_us), []).append(needs)
    merged = {slot_us: PartitionNeeds.merged(some) for slot_us, some in by_slot.items()}
    return {slot_us: cells_of(needs, share_ppm) for slot_us, needs in merged.items() if needs.names}


def cells_of(needs: PartitionNeeds, share_ppm: int) -> SlotCells:
    """Return what each partition needs."""
    bounds = np.maximum(np.ceil(needs.needs_at(share_ppm) / 1_000), 0).astype(np.int64)
    return SlotCells(needs.names, bounds.tolist(), needs.pairs.tolist())
