"""Routes of what a bound would do: the curve, and the preview of one bound."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import APIRouter, Query
from sqlalchemy.orm import Session

from tidemark.controller.base.answer import milliseconds, share_ppm
from tidemark.controller.base.db.tables import RecommendationRow
from tidemark.controller.control.bounds.acknowledgements import last_acknowledgement
from tidemark.controller.control.decide.load import HorizonEvidence, read_replaced_bound
from tidemark.controller.evidence.horizon import Horizon, horizon_of, past_of
from tidemark.controller.reports.store import effective_bound_of
from tidemark.controller.server.http.openapi import says
from tidemark.controller.server.http.parameters import TheService, WhichStream
from tidemark.controller.server.schemas.charts import (
    CurveAnswer,
    CurveBasis,
    CurvePointAnswer,
    Operating,
    Preview,
)
from tidemark.controller.specs.store import get_policy, get_slo, horizon_ms_of
from tidemark.controller.specs.streams import get_stream
from tidemark.controller.view.charts.what_if import (
    BoundOutcome,
    WhatIf,
    outcome_at,
    reported_us,
    what_if_of,
)
from tidemark.models.base.duration import format_about, format_duration
from tidemark.models.base.ranges import MAX_TIME_MS, MAX_TIME_US
from tidemark.models.base.target import PPM
from tidemark.models.base.text import format_number, plural
from tidemark.models.evidence.curve import Curve
from tidemark.models.evidence.sketch import DEFAULT_RELATIVE_ACCURACY_PPM
from tidemark.models.recommend.choice import needed_rank, percent_of
from tidemark.models.recommend.transition import Admission, admission_at, transition_to
from tidemark.models.specs.slo import Policy, Slo

router = APIRouter(prefix="/v1/jobs/{job}/streams/{stream}", tags=["streams"])

_LADDER = (0.5, 0.75, 0.9, 0.95, 0.98, 0.99, 0.995, 0.998, 0.999, 0.9999, 1.0)
"""Shares of rows whose needs are the default bounds; denser where targets usually are."""

_EVEN_STEPS = 24
"""Number of even steps that the default bounds add, beside those where the curve bends."""

_Bounds = Annotated[
    list[Annotated[int, Query(ge=0, le=MAX_TIME_MS)]],
    Query(max_length=1_000, description="Bounds in milliseconds; by default, a ladder over the needs."),
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


@router.get("/curve", **says("getCurve", "Completeness and latency by bound", "CurveAnswer", 404))
def get_curve(
    which: WhichStream,
    service: TheService,
    bound_ms: _Bounds = [],  # noqa: B006 - never changed
    horizon_ms: _HorizonMs = None,
    until_us: _UntilUs = None,
) -> CurveAnswer:
    """Return completeness and latency by bound, over the SLO's horizon, another one, or a span of the past.

    Latency is null where the reports of the span are no longer stored.
    """
    with service.database.read() as session:
        stream_id = get_stream(session, which.job, which.stream).id
        spec = get_slo(session, stream_id)
        slo = None if spec is None else spec.value
        requested_ms = horizon_ms or horizon_ms_of(session, stream_id)
        if horizon_ms is None and until_us is None:
            what_if = what_if_of(session, stream_id, service.clock(), service.cache)
            seen = _of_horizon(what_if.basis, horizon_of(session, stream_id, requested_ms), requested_ms)
        else:
            seen = _of_past(session, stream_id, requested_ms, until_us)
            what_if = WhatIf(slo, requested_ms, None, None)
        operating = _operating(session, stream_id)
        recommendation = session.get(RecommendationRow, stream_id)
    recommended_ms = None if recommendation is None else recommendation.bound_ms
    bounds = sorted(set(bound_ms)) or _ladder(seen, what_if, recommended_ms)
    return CurveAnswer.of(
        slo,
        job=which.job,
        stream=which.stream,
        basis=_basis(requested_ms) if seen is None else seen.basis,
        points=[] if seen is None else [_point(seen.curve, bound, what_if) for bound in bounds],
        operating=operating,
        recommended_bound_ms=recommended_ms,
    )


def _operating(session: Session, stream_id: int) -> Operating:
    horizon = horizon_of(session, stream_id, 0)
    if horizon is None:
        return Operating(bound_ms=None, is_published=False, effective_bound_ms=None)
    return Operating.of(
        read_replaced_bound(session, horizon),
        effective_bound_ms=effective_bound_of(session, horizon.newest),
    )


def _basis(horizon_ms: int, **seen: int | None) -> CurveBasis:
    """Return what a curve rests on; what was not seen is not known."""
    error_ppm, found = DEFAULT_RELATIVE_ACCURACY_PPM, {"unknown_rows": 0, **seen}
    return CurveBasis.of(None, horizon_ms=horizon_ms, relative_error_ppm=error_ppm, **found)


@dataclass(frozen=True, slots=True)
class _Seen:
    """The evidence of a span."""

    curve: Curve
    basis: CurveBasis
    bound_ms: int | None
    """The bound in use at its end, if it is still stored."""


def _effect(bound_ms: int, admission: Admission, late: int) -> dict[str, Any]:
    """Return what a bound does to rows and windows, as far as it is known; ``late`` of the rows are late."""
    point, wall = admission.point, admission.point.latency_wall
    return {
        "bound_ms": bound_ms,
        "rows": point.rows,
        "late": late,
        "completeness_ppm": share_ppm(point.rows - late, point.rows),
        "completeness_min_ppm": admission.min_ppm,
        "completeness_max_ppm": admission.max_ppm,
        "latency_base_ms": milliseconds(point.latency_base_us),
        "latency_wall_ms": None if wall is None or wall.censored else round(wall.mean_us / 1_000),
        "latency_at_least_ms": round(wall.mean_us / 1_000) if wall is not None and wall.censored else None,
        "latency_unknown": point.latency_unknown,
        "windows_emitted": point.windows_emitted,
    }


def _of_horizon(basis: HorizonEvidence | None, horizon: Horizon | None, horizon_ms: int) -> _Seen | None:
    if basis is None or horizon is None:
        return None
    facts = basis.facts
    seen = _basis(
        horizon_ms,
        covers_from_us=horizon.from_us,
        from_us=facts.from_us,
        to_us=facts.to_us,
        unknown_rows=facts.need_unknown_rows,
    )
    return _Seen(basis.curve, seen, horizon.newest.bound_ms)


def _of_past(session: Session, stream_id: int, horizon_ms: int, until_us: int | None) -> _Seen | None:
    newest = horizon_of(session, stream_id, 0)
    if newest is None:
        return None
    end_us = newest.newest.seen_us + 1 if until_us is None else until_us
    past = past_of(session, stream_id, end_us - horizon_ms * 1_000, end_us)
    if past.sums is None:
        return None
    seen = _basis(
        horizon_ms,
        covers_from_us=past.span.from_us,
        covers_until_us=past.span.until_us,
        from_us=past.sums.from_us,
        to_us=past.sums.to_us,
        unknown_rows=past.sums.sums["need_unknown_rows"],
    )
    return _Seen(past.curve, seen, past.bound_ms)


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
        target_ppm, rows = what_if.slo.target_ppm, round(needs.weight)
        per_event = seen.curve.rows_per_event(target_ppm)
        certified = needed_rank(rows, target_ppm, what_if.confidence_ppm / PPM, per_event)
        ranks += [] if certified is None else [certified]
    found = map(needs.value_at_rank, ranks)
    bends = {
        0,
        *(bound for bound in (seen.bound_ms, recommended_ms) if bound is not None),
        *(max(math.ceil(need / 1_000), 0) for need in found if need is not None),
    }
    # Even steps between them, so that a line through the points follows the curve.
    return sorted(bends | {max(bends) * step // _EVEN_STEPS for step in range(1, _EVEN_STEPS)})


def _point(curve: Curve, bound_ms: int, what_if: WhatIf) -> CurvePointAnswer:
    outcome = outcome_at(what_if, bound_ms * 1_000)
    admission = (
        admission_at(
            curve,
            bound_ms * 1_000,
            what_if.confidence_ppm,
            rows_per_event=curve.rows_per_event(what_if.target_ppm),
        )
        if outcome is None
        else outcome.admission
    )
    return CurvePointAnswer.of(outcome, **_effect(bound_ms, admission, admission.point.late))


_DAY_US = 86_400_000_000

_BoundMs = Annotated[int, Query(ge=0, le=MAX_TIME_MS, description="The bound to preview, in milliseconds.")]


@router.get("/preview", **says("getPreview", "What would happen under a bound", "Preview", 404))
def get_preview(which: WhichStream, service: TheService, bound_ms: _BoundMs) -> Preview:
    """Return what would happen if a bound were in force: rows admitted, latency of results, and rows of state."""
    with service.database.read() as session:
        stream_id = get_stream(session, which.job, which.stream).id
        what_if = what_if_of(session, stream_id, service.clock(), service.cache)
        policy = get_policy(session, stream_id).value
        applied = last_acknowledgement(session, stream_id)
    ceiling_ms = None if applied is None else applied.ceiling_ms
    found = outcome_at(what_if, bound_ms * 1_000)
    if found is None or what_if.basis is None or what_if.situation is None:
        return _unknown(which.job, which.stream, bound_ms, what_if)
    point, situation = found.admission.point, what_if.situation
    max_us = what_if.basis.curve.needs.value_at_rank(point.rows) if point.rows else None
    beyond = max_us is not None and bound_ms * 1_000 > max_us
    change = transition_to(situation, bound_ms * 1_000)
    changes = bound_ms * 1_000 != situation.bound_us
    a_day = _late_a_day(what_if, found.admission.late)
    closing = [] if what_if.downstream is None else [*what_if.downstream.texts(bound_ms)]
    verdict = _verdict(found, what_if.slo)
    notes = _notes(bound_ms, max_us if beyond else None, policy, ceiling_ms)
    uncertain = verdict[:1] if found.meets_target is None else []
    return Preview.of(
        found,
        job=which.job,
        stream=which.stream,
        **_effect(bound_ms, found.admission, found.admission.late),
        horizon_ms=what_if.horizon_ms,
        late_a_day=a_day,
        beyond_evidence=beyond,
        windows_closing=change.windows_closing,
        stands_still_ms=change.stands_still_ms,
        text="; ".join([*_admitted(found, what_if.basis.curve, bound_ms, a_day), *closing, *verdict, *notes]),
        notes=[*closing, *uncertain, *notes],
        transition=change.text if changes else None,
    )


def _unknown(job: str, stream: str, bound_ms: int, what_if: WhatIf) -> Preview:
    return Preview.of(
        None,
        job=job,
        stream=stream,
        bound_ms=bound_ms,
        horizon_ms=what_if.horizon_ms,
        rows=0,
        late=0,
        beyond_evidence=False,
        latency_unknown="NoWindows",
        windows_emitted=0,
        text="nothing is known about the rows of this stream yet: there are no reports",
        notes=[],
    )


def _late_a_day(what_if: WhatIf, late: int) -> int | None:
    span_us = reported_us(what_if)
    return None if span_us is None else late * _DAY_US // span_us


def _admitted(found: BoundOutcome, curve: Curve, bound_ms: int, a_day: int | None) -> list[str]:
    point, late = found.admission.point, found.admission.late
    bound = format_duration(bound_ms * 1_000)
    if not point.rows:
        return [f"how many rows a bound of {bound} would admit is not known: no row has a known need"]
    lost = f"{late:,} of {plural(point.rows, 'row')} would be late"
    result = [
        f"a bound of {bound} would admit {percent_of(point.rows - late, point.rows)}: {lost}"
        + ("" if a_day is None else f", about {a_day:,} a day")
    ]
    if point.latency_wall is not None:
        latency = f"windows would come {point.latency_wall.text()} after their end on average"
        if point.latency_wall.censored:
            at_once = curve.at(0).windows_emitted
            latency += f": {at_once - point.windows_emitted:,} of {at_once:,} would still be open"
        result.append(latency)
    if found.state_rows is not None:
        result.append(f"about {plural(found.state_rows, 'row')} of state")
    return result


def _verdict(found: BoundOutcome, slo: Slo | None) -> list[str]:
    if slo is None:
        return ["there is no SLO to compare it with"]
    target = f"{format_number(slo.target_ppm * 100 / PPM)} %"
    result = []
    if found.meets_target is None:
        result.append(f"there are too few rows to certify the target of {target}")
    else:
        result.append(f"it {'meets' if found.meets_target else 'misses'} the target of {target}")
    if found.meets_latency_cap is not None:
        cap = format_duration((slo.latency_cap_ms or 0) * 1_000)
        result.append(f"it is {'within' if found.meets_latency_cap else 'above'} the latency cap of {cap}")
    if found.meets_state_cap is not None:
        within = "within" if found.meets_state_cap else "above"
        result.append(f"it is {within} the state cap of {plural(slo.state_cap_rows or 0, 'row')}")
    return result


def _notes(bound_ms: int, max_us: float | None, policy: Policy, ceiling_ms: int | None) -> list[str]:
    """Return further remarks; ``max_us`` is the maximum need if the bound is beyond it, else None."""
    found = []
    if max_us is not None:
        seen = format_about(max(max_us, 0))
        found.append(f"no row needed more than {seen}, so the evidence says nothing about a wider bound")
    if ceiling_ms is not None and bound_ms > ceiling_ms:
        found.append(
            f"the job's ceiling, {format_duration(ceiling_ms * 1_000)}, would close windows before it"
        )
    max_ms = policy.max_bound_ms
    if max_ms is not None and bound_ms > max_ms:
        found.append(f"the policy's maximum bound, {format_duration(max_ms * 1_000)}, is below it")
    if bound_ms < policy.min_bound_ms:
        found.append(
            f"the policy's minimum bound, {format_duration(policy.min_bound_ms * 1_000)}, is above it"
        )
    return found
