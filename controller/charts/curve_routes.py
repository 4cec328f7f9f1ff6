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
from tidemark.controller.api.units import share_ppm
from tidemark.controller.charts.latency import latency_answer
from tidemark.controller.charts.what_if import WhatIf, outcome_at
from tidemark.controller.db.tables import RecommendationRow
from tidemark.controller.decide.load import HorizonEvidence, bound_held
from tidemark.controller.evidence.horizon import Horizon, effective_bound_of, horizon_of
from tidemark.controller.evidence.past import past_of
from tidemark.controller.specs.store import DEFAULT_HORIZON_MS, get_slo
from tidemark.controller.streams.store import get_stream
from tidemark.models.base.ranges import MAX_TIME_MS, MAX_TIME_US
from tidemark.models.base.target import PPM
from tidemark.models.evidence.curve import Curve
from tidemark.models.evidence.sketch import DEFAULT_RELATIVE_ACCURACY_PPM
from tidemark.models.recommend.choice import needed_rank
from tidemark.models.recommend.transition import admission_at

router = APIRouter(prefix="/v1/jobs/{job}/streams/{stream}", tags=["streams"])

_LADDER = (0.5, 0.75, 0.9, 0.95, 0.98, 0.99, 0.995, 0.998, 0.999, 0.9999, 1.0)
"""Shares of rows whose needs are the default bounds; denser where targets usually are."""

_EVEN_STEPS = 24
"""Number of even steps that the default bounds add, beside those where the curve bends."""

_Bounds = Annotated[
    list[Annotated[int, Query(ge=0, le=MAX_TIME_MS)]],
    Query(
        max_length=1_000,
        description="Bounds in milliseconds; by default, a ladder over the needs.",
    ),
]


_MAX_HORIZON_MS = 10 * 366 * 86_400_000
"""The maximum horizon, some ten years: nothing is stored longer."""

_HorizonMs = Annotated[
    int | None,
    Query(
        gt=0,
        le=_MAX_HORIZON_MS,
        description="How far back to count, in milliseconds; the default is the SLO's horizon.",
    ),
]
_UntilUs = Annotated[
    int | None,
    Query(
        ge=-MAX_TIME_US,
        le=MAX_TIME_US,
        description="End of the span, in microseconds since the epoch; the default is the newest batch.",
    ),
]


@router.get(
    "/curve",
    operation_id="getCurve",
    summary="Completeness and latency by bound",
    responses=answers("CurveAnswer", 404, 422, 503),
)
def get_curve(
    which: WhichStream,
    service: TheService,
    bound_ms: _Bounds = [],  # noqa: B006 - never changed
    horizon_ms: _HorizonMs = None,
    until_us: _UntilUs = None,
) -> schemas.CurveAnswer:
    """Return completeness and latency by bound, over the SLO's horizon, another one, or a span of the past.

    Latency is null where the reports of the span are no longer stored.
    """
    with service.database.read() as session:
        stream_id = get_stream(session, which.job, which.stream).id
        spec = get_slo(session, stream_id)
        slo = None if spec is None else spec.value
        requested_ms = horizon_ms or (DEFAULT_HORIZON_MS if slo is None else slo.horizon_ms)
        if horizon_ms is None and until_us is None:
            what_if = service.what_if.of(session, stream_id, service.clock())
            seen = _of_horizon(what_if.basis, horizon_of(session, stream_id, requested_ms))
        else:
            seen = _of_past(session, stream_id, requested_ms, until_us)
            what_if = WhatIf(slo, requested_ms, None, None)
        operating = _operating(session, stream_id)
        recommendation = session.get(RecommendationRow, stream_id)
    recommended_ms = None if recommendation is None else recommendation.bound_ms
    bounds = sorted(set(bound_ms)) or _ladder(seen, what_if, recommended_ms)
    return schemas.CurveAnswer(
        job=which.job,
        stream=which.stream,
        basis=schemas.CurveBasis(
            horizon_ms=requested_ms,
            covers_from_us=seen.covers_from_us if seen else None,
            covers_until_us=seen.covers_until_us if seen else None,
            from_us=seen.from_us if seen else None,
            to_us=seen.to_us if seen else None,
            relative_error_ppm=DEFAULT_RELATIVE_ACCURACY_PPM,
            unknown_rows=seen.unknown_rows if seen else 0,
        ),
        points=[] if seen is None else [_point(seen.curve, bound, what_if) for bound in bounds],
        target_ppm=None if slo is None else slo.target_ppm,
        latency_cap_ms=None if slo is None else slo.latency_cap_ms,
        state_cap_rows=None if slo is None else slo.state_cap_rows,
        operating=operating,
        recommended_bound_ms=recommended_ms,
    )


def _operating(session: Session, stream_id: int) -> schemas.Operating:
    horizon = horizon_of(session, stream_id, 0)
    if horizon is None:
        return schemas.Operating(bound_ms=None, is_published=False, effective_bound_ms=None)
    return schemas.Operating.of(
        bound_held(session, horizon),
        effective_bound_ms=effective_bound_of(session, horizon.newest),
    )


@dataclass(frozen=True, slots=True)
class _Seen:
    """The evidence of a span."""

    curve: Curve
    covers_from_us: int
    covers_until_us: int | None
    from_us: int
    to_us: int
    unknown_rows: int
    bound_ms: int | None
    """The bound in use at its end, if it is still stored."""


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


def _ladder(seen: _Seen | None, what_if: WhatIf, recommended_ms: int | None) -> list[int]:
    """Return bounds in milliseconds that show the curve.

    They are 0, the needs at round shares, the smallest bound that certifies the target, the bound in use and the
    recommended one, and even steps.
    """
    if seen is None:
        return []
    needs = seen.curve.needs
    ranks = [math.ceil(share * needs.weight) for share in _LADDER]
    if what_if.slo is not None:
        certified = needed_rank(round(needs.weight), what_if.slo.target_ppm, what_if.confidence_ppm / PPM)
        ranks += [] if certified is None else [certified]
    found = map(needs.value_at_rank, ranks)
    bends = {
        0,
        *(bound for bound in (seen.bound_ms, recommended_ms) if bound is not None),
        *(max(math.ceil(need / 1_000), 0) for need in found if need is not None),
    }
    # Even steps between them, so that a line through the points follows the curve.
    return sorted(bends | {max(bends) * step // _EVEN_STEPS for step in range(1, _EVEN_STEPS)})


def _point(curve: Curve, bound_ms: int, what_if: WhatIf) -> schemas.CurvePointAnswer:
    outcome = outcome_at(what_if, bound_ms * 1_000)
    admission = (
        admission_at(curve, bound_ms * 1_000, what_if.confidence_ppm)
        if outcome is None
        else outcome.admission
    )
    point = admission.point
    return schemas.CurvePointAnswer(
        bound_ms=bound_ms,
        rows=point.rows,
        late=point.late,
        completeness_ppm=share_ppm(point.rows - point.late, point.rows),
        latency_base_ms=_milliseconds(point.latency_base_us),
        **latency_answer(point),
        windows_emitted=point.windows_emitted,
        completeness_min_ppm=admission.min_ppm,
        completeness_max_ppm=admission.max_ppm,
        state_rows=None if outcome is None else outcome.state_rows,
        meets_all=None if outcome is None else outcome.meets_all,
    )


def _milliseconds(time_us: float | None) -> int | None:
    return None if time_us is None else round(time_us / 1_000)
