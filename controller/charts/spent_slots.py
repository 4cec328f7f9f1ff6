"""What counted for a budget, and how much of it was bad, by slots of time."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import case, func, select
from sqlalchemy.orm import Session

from tidemark.controller.db.tables import LedgerKeyRow
from tidemark.controller.evidence.horizon import Horizon
from tidemark.controller.evidence.needs import Span
from tidemark.controller.evidence.series import series_in
from tidemark.models.base.granules import SPARK_TICK_US
from tidemark.models.base.target import PPM
from tidemark.models.evidence.slots import Slots, edge_us
from tidemark.models.specs.slo import Slo


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
