"""The budget of a stream over the SLO's window: how it was used up, and how fast."""

from __future__ import annotations

from itertools import accumulate
from typing import Annotated

from fastapi import APIRouter, Query

from tidemark.controller.api import schemas
from tidemark.controller.api.dependencies import TheService
from tidemark.controller.api.documented import answers
from tidemark.controller.api.names import WhichStream
from tidemark.controller.charts.spent_slots import SpentSlot, spent_by_slot
from tidemark.controller.db.tables import RollupRow
from tidemark.controller.evidence.horizon import Horizon, horizon_of, open_keys
from tidemark.controller.evidence.needs import levels_of
from tidemark.controller.specs.store import get_slo
from tidemark.controller.stream_state.budget import Spent, budget_of, spent_in
from tidemark.controller.streams.store import get_stream
from tidemark.models.base.target import PPM, burn_rate_ppm, exhausted_in_ms
from tidemark.models.evidence.slots import Slots, slots_of

router = APIRouter(prefix="/v1/jobs/{job}/streams/{stream}", tags=["streams"])

_SPANS_MS = (300_000, 3_600_000, 21_600_000, 86_400_000)
"""Spans over which the burn rate is answered, as far as they are shorter than the SLO's window, in milliseconds."""

_EXHAUSTED_BY_MS = 3_600_000
"""The span whose burn rate foretells when nothing is left, in milliseconds."""

_Points = Annotated[
    int, Query(ge=2, le=2_000, description="Maximum number of slots; the oldest are left out first.")
]


@router.get(
    "/budget",
    operation_id="getBudget",
    summary="The budget over the SLO's window",
    responses=answers("BudgetHistory", 404, 422, 503),
)
def get_budget(which: WhichStream, service: TheService, points: _Points = 240) -> schemas.BudgetHistory:
    """Return how the budget was used up over the SLO's window, slot by slot, and how fast it is used up now."""
    with service.database.read() as session:
        stream_id = get_stream(session, which.job, which.stream).id
        spec = get_slo(session, stream_id)
        horizon = None if spec is None else horizon_of(session, stream_id, spec.value.window_ms)
        if spec is None or horizon is None:
            return _unknown(which.job, which.stream)
        slo, newest = spec.value, horizon.newest
        budget = budget_of(session, newest, slo, service.decider.kept, provisional=open_keys(session, newest))
        levels = levels_of(session.get(RollupRow, stream_id))
        slots = slots_of(horizon.from_us, newest.seen_us + 1, points, levels)
        spent = spent_by_slot(session, horizon, slo, slots)
        by_span = {
            span_ms: spent_in(session, Horizon(stream_id, span_ms, newest), slo)
            for span_ms in _SPANS_MS
            if span_ms < slo.window_ms
        }
    share_ppm = slo.good_windows_ppm if slo.objective == "timeslices" else slo.target_ppm
    by_span[slo.window_ms] = Spent(budget.counted, budget.bad_min, budget.bad_max, share_ppm)
    rates = [_rate(*each) for each in by_span.items()]
    newest_rate = next((rate for rate in rates if rate.span_ms >= _EXHAUSTED_BY_MS), rates[-1])
    return schemas.BudgetHistory(
        job=which.job,
        stream=which.stream,
        budget=budget,
        from_us=slots.from_us,
        to_us=slots.until_us,
        slot_us=slots.width_us,
        slots=_slots(slots, spent, budget),
        rates=rates,
        exhausted_in_ms=exhausted_in_ms(budget.remaining_ppm, newest_rate.rate_ppm, slo.window_ms),
    )


def _unknown(job: str, stream: str) -> schemas.BudgetHistory:
    return schemas.BudgetHistory(
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


def _rate(span_ms: int, spent: Spent) -> schemas.BurnRate:
    return schemas.BurnRate(
        span_ms=span_ms,
        counted=spent.counted,
        bad_max=spent.bad_max,
        rate_ppm=burn_rate_ppm(spent.bad_max, spent.counted, spent.share_ppm),
    )


def _slots(slots: Slots, spent: dict[int, SpentSlot], budget: schemas.Budget) -> list[schemas.BudgetSlot]:
    """Return the slots with what was left at the end of each.

    It is counted back from what is left now, so that the last slot agrees with the budget to the row.
    """
    starts = list(slots.starts_us)
    later = list(
        accumulate((spent[start].bad_max if start in spent else 0 for start in reversed(starts)), initial=0)
    )
    found = []
    for start, bad_later in zip(starts, reversed(later[:-1]), strict=True):
        seen = spent.get(start)
        used = budget.bad_max - bad_later
        found.append(
            schemas.BudgetSlot(
                from_us=start,
                counted=None if seen is None else seen.counted,
                bad_min=None if seen is None else seen.bad_min,
                bad_max=None if seen is None else seen.bad_max,
                remaining_ppm=(budget.allowed - used) * PPM // budget.allowed if budget.allowed else None,
            )
        )
    return found
