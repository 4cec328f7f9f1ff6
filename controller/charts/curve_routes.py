"""The completeness-latency curve of a stream."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Query
from sqlalchemy.orm import Session

from tidemark.controller.api import schemas
from tidemark.controller.api.dependencies import TheService
from tidemark.controller.api.documented import answers
from tidemark.controller.api.names import WhichStream
from tidemark.controller.charts.what_if import Ground, outcome_at
from tidemark.controller.db.tables import RecommendationRow
from tidemark.controller.decide.load import HorizonEvidence, in_use_bound_ms
from tidemark.controller.evidence.horizon import Horizon, effective_bound_of, horizon_of
from tidemark.controller.evidence.past import past_of
from tidemark.controller.intake.checks import MAX_DURATION_MS, MAX_TIME_US
from tidemark.controller.specs.store import DEFAULT_HORIZON_MS, get_slo
from tidemark.controller.stream_state.views import latency_answer, share_ppm
from tidemark.controller.streams.store import get_stream
from tidemark.models.curve import Curve
from tidemark.models.sketch import DEFAULT_RELATIVE_ACCURACY_PPM
from tidemark.models.transition import kept_at

__all__ = ["router"]

router = APIRouter(prefix="/v1/jobs/{job}/streams/{stream}", tags=["streams"])

LADDER = (0.5, 0.75, 0.9, 0.95, 0.98, 0.99, 0.995, 0.998, 0.999, 0.9999, 1.0)
"""Shares of the rows whose needs make the default bounds: denser where targets are set."""

EVEN_STEPS = 24
"""Into how many even steps the default bounds divide the curve, beside those where it bends."""

Bounds = Annotated[
    list[Annotated[int, Query(ge=0, le=MAX_DURATION_MS)]],
    Query(
        max_length=1_000,
        description="Bounds to ask about, in milliseconds; a ladder over the needs without any.",
    ),
]


LONGEST_HORIZON_MS = 10 * 366 * 86_400_000
"""The longest horizon that can be asked for, some ten years: longer than anything is kept."""

HorizonMs = Annotated[
    int | None,
    Query(
        gt=0,
        le=LONGEST_HORIZON_MS,
        description="How far back to count, in milliseconds; as far as the SLO says without it.",
    ),
]
UntilUs = Annotated[
    int | None,
    Query(
        ge=-MAX_TIME_US,
        le=MAX_TIME_US,
        description="Where the span ends, in microseconds since the epoch; with the newest batch without it.",
    ),
]


@router.get(
    "/curve",
    operation_id="getCurve",
    summary="Completeness and latency by bound",
    responses=answers("Curve", 404, 422, 503),
)
def get_curve(
    which: WhichStream,
    service: TheService,
    bound_ms: Bounds = [],  # noqa: B006 - never changed
    horizon_ms: HorizonMs = None,
    until_us: UntilUs = None,
) -> schemas.Curve:
    """Say what each bound would have cost and kept: over the SLO's horizon, another one, or any span of the past.

    Latency is null where the reports of the span are not kept any more.
    """
    with service.database.read() as session:
        stream_id = get_stream(session, which.job, which.stream).id
        spec = get_slo(session, stream_id)
        slo = None if spec is None else spec.value
        asked_ms = horizon_ms or (DEFAULT_HORIZON_MS if slo is None else slo.horizon_ms)
        if horizon_ms is None and until_us is None:
            ground = service.grounds.of(session, stream_id, service.clock())
            seen = _of_horizon(ground.basis, horizon_of(session, stream_id, asked_ms))
        else:
            seen = _of_past(session, stream_id, asked_ms, until_us)
            ground = Ground(slo, asked_ms, None, None)
        operating = _operating(session, stream_id)
        recommendation = session.get(RecommendationRow, stream_id)
    bounds = sorted(set(bound_ms)) or ladder(seen)
    return schemas.Curve(
        job=which.job,
        stream=which.stream,
        basis=schemas.CurveBasis(
            horizon_ms=asked_ms,
            covers_from_us=seen.covers_from_us if seen else None,
            covers_until_us=seen.covers_until_us if seen else None,
            from_us=seen.from_us if seen else None,
            to_us=seen.to_us if seen else None,
            relative_error_ppm=DEFAULT_RELATIVE_ACCURACY_PPM,
            unknown_rows=seen.unknown_rows if seen else 0,
        ),
        points=[] if seen is None else [_point(seen.curve, bound, ground) for bound in bounds],
        target_ppm=None if slo is None else slo.target_ppm,
        latency_cap_ms=None if slo is None else slo.latency_cap_ms,
        state_cap_rows=None if slo is None else slo.state_cap_rows,
        operating=operating,
        recommended_bound_ms=None if recommendation is None else recommendation.bound_ms,
    )


def _operating(session: Session, stream_id: int) -> schemas.Operating:
    horizon = horizon_of(session, stream_id, 0)
    if horizon is None:
        return schemas.Operating(bound_ms=None, effective_bound_ms=None)
    return schemas.Operating(
        bound_ms=in_use_bound_ms(session, horizon),
        effective_bound_ms=effective_bound_of(session, horizon.newest),
    )


@dataclass(frozen=True, slots=True)
class _Seen:
    """What is answered of a span."""

    curve: Curve
    covers_from_us: int
    covers_until_us: int | None
    from_us: int
    to_us: int
    unknown_rows: int
    bound_ms: int | None
    """The bound in use at its end, as far as it is kept."""


def _of_horizon(basis: HorizonEvidence | None, horizon: Horizon | None) -> _Seen | None:
    if basis is None or horizon is None:
        return None
    facts = basis.facts
    return _Seen(
        basis.curve,
        horizon.from_us,
        None,
        facts.from_us,
        facts.to_us,
        facts.unknown_rows,
        horizon.newest.bound_ms,
    )


def _of_past(session: Session, stream_id: int, horizon_ms: int, until_us: int | None) -> _Seen | None:
    newest = horizon_of(session, stream_id, 0)
    if newest is None:
        return None
    end_us = newest.newest.seen_us + 1 if until_us is None else until_us
    past = past_of(session, stream_id, end_us - horizon_ms * 1_000, end_us)
    if past.sums is None:
        return None
    return _Seen(
        past.curve,
        past.span.from_us,
        past.span.until_us,
        past.sums.from_us,
        past.sums.to_us,
        past.sums.sums["need_unknown_rows"],
        past.bound_ms,
    )


def ladder(seen: _Seen | None) -> list[int]:
    """Return bounds in milliseconds that show the curve: 0, needs at round shares, the bound in use, and even steps."""
    if seen is None:
        return []
    needs = seen.curve.needs
    found = (needs.value_at_rank(math.ceil(share * needs.weight)) for share in LADDER)
    bends = {
        0,
        *([] if seen.bound_ms is None else [seen.bound_ms]),
        *(max(math.ceil(need / 1_000), 0) for need in found if need is not None),
    }
    # Between them in even steps, so that a line through the points is the curve.
    return sorted(bends | {max(bends) * step // EVEN_STEPS for step in range(1, EVEN_STEPS)})


def _point(curve: Curve, bound_ms: int, ground: Ground) -> schemas.CurvePoint:
    outcome = outcome_at(ground, bound_ms * 1_000)
    kept = kept_at(curve, bound_ms * 1_000, ground.confidence_ppm) if outcome is None else outcome.kept
    point = kept.point
    return schemas.CurvePoint(
        bound_ms=bound_ms,
        rows=point.rows,
        late=point.late,
        completeness_ppm=share_ppm(point.rows - point.late, point.rows),
        latency_base_ms=_milliseconds(point.latency_base_us),
        **latency_answer(point),
        windows_emitted=point.windows_emitted,
        completeness_min_ppm=kept.min_ppm,
        completeness_max_ppm=kept.max_ppm,
        state_rows=None if outcome is None else outcome.state_rows,
        meets_all=None if outcome is None else outcome.meets_all,
    )


def _milliseconds(time_us: float | None) -> int | None:
    return None if time_us is None else round(time_us / 1_000)
