"""Routes of what a stream did over time: its history, its budget, the heat map of its partitions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate
from typing import Annotated

from fastapi import APIRouter, Query
from sqlalchemy import case, func, select
from sqlalchemy.orm import Session

from tidemark.controller.base.answer import made_of
from tidemark.controller.base.db.tables import LedgerKeyRow, PartitionRow
from tidemark.controller.base.errors import InvalidParameterError
from tidemark.controller.evidence.horizon import Horizon, horizon_of, open_keys
from tidemark.controller.evidence.rollups import WIDTHS_US, Span, levels_in, rollups_in
from tidemark.controller.evidence.windows import passed_us
from tidemark.controller.reports.store import effective_bound_of
from tidemark.controller.server.http.openapi import says
from tidemark.controller.server.http.parameters import TheService, WhichStream
from tidemark.controller.server.schemas.charts import (
    BudgetHistory,
    BudgetSlot,
    BurnRate,
    Heatmap,
    HeatmapCell,
    HeatmapPartition,
    History,
    HistorySlot,
)
from tidemark.controller.specs.store import get_slo, share_ppm_of
from tidemark.controller.specs.streams import get_stream
from tidemark.controller.view.charts.store import (
    MAX_MINUTES,
    SlotCells,
    history_by_slot,
    map_rows,
    need_map,
    published_by_slot,
    rollouts_in,
)
from tidemark.controller.view.state.answers import Budget
from tidemark.controller.view.state.budget import Spent, read_budget, read_spent
from tidemark.models.base.ranges import MAX_TIME_US
from tidemark.models.base.target import PPM, burn_rate_ppm, exhausted_in_ms
from tidemark.models.evidence.slots import DAY_US, SLOT_US, Levels, Slots, edge_us, slots_of
from tidemark.models.rollout.states import RolloutTimes
from tidemark.models.specs.slo import Slo

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
        raise InvalidParameterError.at("from_us", reason)
    return from_us, to_us


router = APIRouter(prefix="/v1/jobs/{job}/streams/{stream}", tags=["streams"])

_MAX_ROLLOUTS = 200
"""Maximum number of rollouts in an answer."""

_Points = Annotated[
    int, Query(ge=2, le=2_000, description="Maximum number of slots; the oldest are left out first.")
]


@router.get("/history", **says("getHistory", "Bounds, needs and late rows over time", "History", 404))
def get_history(
    which: WhichStream, service: TheService, from_us: FromUs = None, to_us: ToUs = None, points: _Points = 300
) -> History:
    """Return, by slots of time, the bound in use, what rows needed and how many were late."""
    now_us = service.clock()
    with service.database.read() as session:
        stream_id = get_stream(session, which.job, which.stream).id
        start_us, end_us = span_of(session, stream_id, from_us, to_us, now_us)
        slots = slots_of(start_us, end_us, points, levels_in(session, stream_id))
        share_ppm = share_ppm_of(session, stream_id)
        found = history_by_slot(session, stream_id, slots, share_ppm)
        published = published_by_slot(session, stream_id, slots)
        rollouts = [
            made_of(RolloutTimes, row) for row in rollouts_in(session, stream_id, slots, _MAX_ROLLOUTS)
        ]
    return History(
        job=which.job,
        stream=which.stream,
        from_us=slots.from_us,
        to_us=slots.until_us,
        slot_us=slots.width_us,
        target_ppm=share_ppm,
        slots=[
            HistorySlot.of(
                None,
                from_us=slot_us,
                published_bound_ms=published.get(slot_us) if slot_us <= now_us else None,
                **found.get(slot_us, {}),
            )
            for slot_us in slots.starts_us
        ],
        rollouts=rollouts,
    )


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


@router.get("/heatmap", **says("getHeatmap", "What partitions needed over time", "Heatmap", 404))
def get_heatmap(
    which: WhichStream,
    service: TheService,
    from_us: FromUs = None,
    to_us: ToUs = None,
    *,
    slots: _MaxSlots = 168,
    limit: _MaxPartitions = 64,
) -> Heatmap:
    """Return what each partition needed by slots of time, the most costly partitions first."""
    with service.database.read() as session:
        stream_id = get_stream(session, which.job, which.stream).id
        start_us, end_us = span_of(session, stream_id, from_us, to_us, service.clock())
        found = _slots(start_us, end_us, slots, levels_in(session, stream_id))
        share_ppm = share_ppm_of(session, stream_id)
        rows, total = map_rows(session, stream_id, found, limit)
        cells = _by_partition(need_map(session, stream_id, found, share_ppm))
        horizon = horizon_of(session, stream_id, 0)
        bound_ms = None if horizon is None else effective_bound_of(session, horizon.newest)
        partitions = [_partition(row, found, cells.get(row.partition, {})) for row in rows]
    return Heatmap(
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


def _slots(from_us: int, until_us: int, limit: int, levels: Levels) -> Slots:
    by_minute = min(limit, MAX_MINUTES)
    if -(-until_us // SLOT_US) - from_us // SLOT_US <= by_minute:
        return slots_of(from_us, until_us, by_minute, levels, WIDTHS_US)
    return slots_of(from_us, until_us, limit, levels, WIDTHS_US[1:])


def _by_partition(cells: Mapping[int, SlotCells]) -> dict[str, dict[int, HeatmapCell]]:
    found: dict[str, dict[int, HeatmapCell]] = {}
    for slot_us, slot in cells.items():
        for name, need_ms, pairs in zip(slot.names, slot.need_ms, slot.pairs, strict=True):
            # Thousands of them, from trusted numbers: validation would take most of the time.
            found.setdefault(name, {})[slot_us] = HeatmapCell.model_construct(need_ms=need_ms, pairs=pairs)
    return found


def _partition(row: PartitionRow, slots: Slots, cells: Mapping[int, HeatmapCell]) -> HeatmapPartition:
    return HeatmapPartition.of(
        row,
        future=row.last_future_us is not None and row.last_future_us >= slots.from_us,
        cells=[cells.get(slot_us) for slot_us in slots.starts_us],
    )


_SPANS_MS = (300_000, 3_600_000, 21_600_000, 86_400_000)
"""Spans over which the burn rate is answered, as far as they are shorter than the SLO's window, in milliseconds."""

_EXHAUSTED_BY_MS = 3_600_000
"""The span whose burn rate foretells when nothing is left, in milliseconds."""


@router.get("/budget", **says("getBudget", "The budget over the SLO's window", "BudgetHistory", 404))
def get_budget(which: WhichStream, service: TheService, points: _Points = 240) -> BudgetHistory:
    """Return how the budget was used up over the SLO's window, slot by slot, and how fast it is used up now."""
    with service.database.read() as session:
        stream_id = get_stream(session, which.job, which.stream).id
        spec = get_slo(session, stream_id)
        horizon = None if spec is None else horizon_of(session, stream_id, spec.value.window_ms)
        if spec is None or horizon is None:
            return _unknown(which.job, which.stream)
        slo, newest = spec.value, horizon.newest
        budget = read_budget(session, newest, slo, provisional=open_keys(session, newest))
        levels = levels_in(session, stream_id)
        slots = slots_of(horizon.from_us, newest.seen_us + 1, points, levels)
        spent = _spent_by_slot(session, horizon, slo, slots)
        by_span = {
            span_ms: read_spent(session, Horizon(stream_id, span_ms, newest), slo)
            for span_ms in _SPANS_MS
            if span_ms < slo.window_ms
        }
    share_ppm = slo.good_windows_ppm if slo.objective == "timeslices" else slo.target_ppm
    by_span[slo.window_ms] = Spent(budget.counted, budget.bad_min, budget.bad_max, share_ppm)
    rates = [_rate(*each) for each in by_span.items()]
    newest_rate = next((rate for rate in rates if rate.span_ms >= _EXHAUSTED_BY_MS), rates[-1])
    return BudgetHistory(
        job=which.job,
        stream=which.stream,
        budget=budget,
        from_us=slots.from_us,
        to_us=slots.until_us,
        slot_us=slots.width_us,
        slots=_budget_slots(slots, spent, budget),
        rates=rates,
        exhausted_in_ms=exhausted_in_ms(budget.remaining_ppm, newest_rate.rate_ppm, slo.window_ms),
    )


def _unknown(job: str, stream: str) -> BudgetHistory:
    return BudgetHistory(
        job=job,
        stream=stream,
        budget=None,
        from_us=0,
        to_us=0,
        slot_us=0,
        slots=[],
        rates=[],
        exhausted_in_ms=None,
    )


def _rate(span_ms: int, spent: Spent) -> BurnRate:
    return BurnRate(
        span_ms=span_ms,
        counted=spent.counted,
        bad_max=spent.bad_max,
        rate_ppm=burn_rate_ppm(spent.bad_max, spent.counted, spent.share_ppm),
    )


def _budget_slots(slots: Slots, spent: dict[int, _SpentSlot], budget: Budget) -> list[BudgetSlot]:
    """Return the slots with what was left at the end of each.

    It is counted back from what is left now, so that the last slot agrees with the budget to the row.
    """
    starts = list(slots.starts_us)
    later = list(
        accumulate((spent[start].bad_max if start in spent else 0 for start in reversed(starts)), initial=0)
    )
    found = []
    for start, bad_later in zip(starts, reversed(later[:-1]), strict=True):
        left = budget.allowed - (budget.bad_max - bad_later)
        remaining_ppm = left * PPM // budget.allowed if budget.allowed else None
        found.append(BudgetSlot.of(spent.get(start), from_us=start, remaining_ppm=remaining_ppm))
    return found


@dataclass(slots=True)
class _SpentSlot:
    """One slot of a budget."""

    counted: int = 0
    """(Row, key) pairs that arrived, or windows that the watermark has passed."""
    bad_min: int = 0
    """How many were bad for sure."""
    bad_max: int = 0
    """How many may have been."""


def _spent_by_slot(session: Session, horizon: Horizon, slo: Slo, slots: Slots) -> dict[int, _SpentSlot]:
    """Return what counted, by the start of its slot; slots in which nothing did are left out.

    Rows are placed by when their batch was triggered, windows by their end.
    """
    if slo.objective == "timeslices":
        return _windows_by_slot(session, horizon, slo, slots)
    found: dict[int, _SpentSlot] = {}
    for part in rollups_in(session, Span(horizon.stream_id, slots.from_us, slots.until_us), slots.width_us):
        slot = found.setdefault(edge_us(part.slot_us, slots.width_us), _SpentSlot())
        unjudged = part.sums["unjudged_rows"] * part.keys_per_row
        slot.counted += part.sums["pairs"] + unjudged
        slot.bad_min += part.sums["late_min"]
        slot.bad_max += part.sums["late_max"] + unjudged
    return found


def _windows_by_slot(session: Session, horizon: Horizon, slo: Slo, slots: Slots) -> dict[int, _SpentSlot]:
    until_us = passed_us(horizon.newest)
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
        int(slot) * slots.width_us: _SpentSlot(counted, int(bad_min), int(bad_max))
        for slot, counted, bad_min, bad_max in found
    }
