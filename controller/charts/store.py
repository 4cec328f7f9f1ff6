"""Reads the data of charts over any span: a series by slot, and a heat map of what each partition needed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import case, func, or_, select
from sqlalchemy.orm import Session

from tidemark.controller.db.tables import (
    LedgerKeyRow,
    NeedBlockRow,
    NeedSlotRow,
    PartitionRow,
    PublishedRow,
    RolloutRow,
    RollupRow,
    SeriesRow,
)
from tidemark.controller.evidence.blocks import TEN_MINUTES_US, SlotCells, cells_of, stored_cells
from tidemark.controller.evidence.horizon import Horizon
from tidemark.controller.evidence.needs import Span, rest_by_slot
from tidemark.controller.evidence.partition_sums import needs_of_slots
from tidemark.controller.evidence.series import series_in
from tidemark.models.base.granules import SPARK_TICK_US
from tidemark.models.base.target import PPM
from tidemark.models.evidence.partition_needs import PartitionNeeds
from tidemark.models.evidence.sketch import Sketch
from tidemark.models.evidence.slots import DAY_US, HOUR_US, SLOT_US, Slots, edge_us, merge_all
from tidemark.models.specs.slo import Slo

MAP_WIDTHS_US = (SLOT_US, TEN_MINUTES_US, HOUR_US, DAY_US)
"""Widths of the slots of a map, those by which the needs of partitions are stored, in microseconds."""

MAX_MINUTES = 90
"""Maximum slots of a minute in a map: they have no blocks, and cost a millisecond each."""

_SHARES_PPM = (500_000, 900_000)


@dataclass(slots=True)
class SlotFacts:
    """Sums of the batches of one slot."""

    rows: int = 0
    pairs: int = 0
    late_min: int = 0
    late_max: int = 0
    unjudged_rows: int = 0
    future_rows: int = 0
    newest_us: int = 0
    bound_ms: int | None = None
    effective_bound_ms: int | None = None


@dataclass(frozen=True, slots=True)
class NeedsOfSlot:
    """What the rows of one slot needed, in milliseconds. None is unknown."""

    p50_ms: int | None = None
    p90_ms: int | None = None
    target_ms: int | None = None
    """The need of the requested share."""
    max_ms: int | None = None


def series_by_slot(session: Session, stream_id: int, slots: Slots) -> dict[int, SlotFacts]:
    """Return the sums of batches, by the start of their slot; slots without a batch are left out."""
    found: dict[int, SlotFacts] = {}
    for row in series_in(session, Span(stream_id, slots.from_us, slots.until_us)):
        _add(found.setdefault(edge_us(row.slot_us, slots.width_us), SlotFacts()), row)
    return found


def _add(facts: SlotFacts, row: SeriesRow) -> None:
    facts.rows += row.rows
    facts.pairs += row.pairs
    facts.late_min += row.late_min
    facts.late_max += row.late_max
    facts.unjudged_rows += row.unjudged_rows
    facts.future_rows += row.future_rows
    if row.newest_us >= facts.newest_us:
        facts.newest_us, facts.bound_ms, facts.effective_bound_ms = (
            row.newest_us,
            row.bound_ms,
            row.effective_bound_ms,
        )


def needs_by_slot(session: Session, stream_id: int, slots: Slots, share_ppm: int) -> dict[int, NeedsOfSlot]:
    """Return what rows needed, by the start of their slot; slots without a known need are left out."""
    sketches: dict[int, list[Sketch]] = {}
    sketched = select(NeedSlotRow.slot_us, NeedSlotRow.sketch)
    for slot_us, data in session.execute(
        sketched.where(*Span(stream_id, slots.from_us, slots.until_us).slots)
    ):
        sketches.setdefault(edge_us(slot_us, slots.width_us), []).append(Sketch.from_bytes(data))
    merged = {slot_us: some[0] if len(some) == 1 else merge_all(some) for slot_us, some in sketches.items()}
    return {
        slot_us: NeedsOfSlot(*(_need_ms(needs, share) for share in (*_SHARES_PPM, share_ppm, PPM)))
        for slot_us, needs in merged.items()
        if needs.weight
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
    found: dict[int, int | None] = {}
    number = -1
    for start_us in slots.starts_us:
        while number + 1 < len(rows) and rows[number + 1][0] < start_us + slots.width_us:
            number += 1
        if number >= 0:
            found[start_us] = rows[number][1]
    return found


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
    width_us, from_us, until_us = slots.width_us, slots.from_us, slots.until_us
    rollup = session.get(RollupRow, stream_id)
    made_us = from_us
    found: dict[int, SlotCells] = {}
    if rollup is not None and width_us > SLOT_US:
        found = stored_cells(
            session, stream_id, width_us, from_us=from_us, until_us=until_us, share_ppm=share_ppm
        )
        mark = {
            TEN_MINUTES_US: rollup.tens_until_us,
            HOUR_US: rollup.hour_blocks_until_us,
            DAY_US: rollup.day_blocks_until_us,
        }[width_us]
        made_us = min(max(edge_us(mark, width_us), from_us), until_us)
        found = {slot_us: cells for slot_us, cells in found.items() if slot_us < made_us}
    waiting: dict[int, list[PartitionNeeds]] = {}
    for slot_us, needs in _not_made(session, stream_id, width_us, made_us, until_us):
        waiting.setdefault(edge_us(slot_us, width_us), []).append(needs)
    rest = rest_by_slot(session, stream_id, from_us, until_us)
    for seen_us, needs in rest:
        slot_us = edge_us(seen_us, width_us)
        if slot_us >= made_us:
            waiting.setdefault(slot_us, []).append(needs)
    for slot_us, some in waiting.items():
        merged = PartitionNeeds.merged(some)
        if merged.names:
            found[slot_us] = cells_of(merged, share_ppm)
    return found


def _not_made(
    session: Session, stream_id: int, width_us: int, from_us: int, until_us: int
) -> list[tuple[int, PartitionNeeds]]:
    """Return the needs of partitions in a span without blocks, by slots of ``width_us`` or narrower."""
    found: list[tuple[int, PartitionNeeds]] = []
    if width_us == DAY_US:
        # Whole hours have blocks; the rest is less than one hour, unless blocks are still to be made.
        hours = session.execute(
            select(NeedBlockRow.slot_us, NeedBlockRow.needs).where(
                NeedBlockRow.stream_id == stream_id,
                NeedBlockRow.width_us == HOUR_US,
                NeedBlockRow.slot_us >= from_us,
                NeedBlockRow.slot_us < until_us,
            )
        )
        rollup = session.get(RollupRow, stream_id)
        mark_us = 0 if rollup is None else rollup.hour_blocks_until_us
        found = [
            (slot_us, PartitionNeeds.from_bytes(data))
            for slot_us, data in hours
            if data is not None and slot_us < mark_us
        ]
        from_us = max(from_us, mark_us)
    found += needs_of_slots(session, stream_id, from_us, until_us).items()
    return found


@dataclass(slots=True)
class SpentSlot:
    """One slot of a budget."""

    counted: int = 0
    """(Row, key) pairs that arrived, or windows that the watermark has passed."""
    bad_min: int = 0
    """How many were bad for sure."""
    bad_max: int = 0
    """How many may have been."""


def spent_by_slot(session: Session, horizon: Horizon, slo: Slo, slots: Slots) -> dict[int, SpentSlot]:
    """Return what counted, by the start of its slot; slots in which nothing did are left out.

    Rows are placed by when their batch was triggered, windows by their end.
    """
    if slo.objective == "timeslices":
        return _windows(session, horizon, slo, slots)
    found: dict[int, SpentSlot] = {}
    for row in series_in(session, Span(horizon.stream_id, slots.from_us, slots.until_us)):
        slot = found.setdefault(edge_us(row.slot_us, slots.width_us), SpentSlot())
        unjudged = row.unjudged_rows * row.keys_per_row
        slot.counted += row.pairs + unjudged
        slot.bad_min += row.late_min
        slot.bad_max += row.late_max + unjudged
    return found


def _windows(session: Session, horizon: Horizon, slo: Slo, slots: Slots) -> dict[int, SpentSlot]:
    until_us = horizon.newest.watermark_ms * SPARK_TICK_US
    rows, late_min, late_max = (
        func.sum(column) for column in (LedgerKeyRow.rows, LedgerKeyRow.late_min, LedgerKeyRow.late_max)
    )
    by_window = (
        select(
            # Whole slots of positive times, which both databases divide alike.
            (LedgerKeyRow.key_us // slots.width_us).label("slot"),
            rows.label("rows"),
            late_min.label("late_min"),
            late_max.label("late_max"),
        )
        .where(
            LedgerKeyRow.stream_id == horizon.stream_id,
            LedgerKeyRow.key_us > until_us - slo.window_ms * 1_000,
            LedgerKeyRow.key_us <= until_us,
        )
        .group_by(LedgerKeyRow.key_us)
        .subquery()
    )
    window = by_window.c
    found = session.execute(
        select(
            window.slot,
            func.count(),
            func.sum(
                case(((window.rows - window.late_min) * PPM >= slo.target_ppm * window.rows, 0), else_=1)
            ),
            func.sum(
                case(((window.rows - window.late_max) * PPM >= slo.target_ppm * window.rows, 0), else_=1)
            ),
        ).group_by(window.slot)
    )
    return {
        int(slot) * slots.width_us: SpentSlot(counted, int(bad_min), int(bad_max))
        for slot, counted, bad_min, bad_max in found
    }
