"""A preview: what would happen if a bound were in force."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from tidemark.controller.api import schemas
from tidemark.controller.api.dependencies import TheService
from tidemark.controller.api.documented import answers
from tidemark.controller.api.names import WhichStream
from tidemark.controller.api.units import milliseconds, share_ppm
from tidemark.controller.bounds.acknowledgements import last_acknowledgement
from tidemark.controller.charts.latency import latency_answer
from tidemark.controller.charts.what_if import BoundOutcome, WhatIf, outcome_at
from tidemark.controller.specs.store import get_policy
from tidemark.controller.streams.store import get_stream
from tidemark.models.base.duration import format_about, format_duration
from tidemark.models.base.ranges import MAX_TIME_MS
from tidemark.models.base.target import PPM
from tidemark.models.base.text import format_number, plural
from tidemark.models.evidence.curve import Curve
from tidemark.models.recommend.choice import percent_of
from tidemark.models.recommend.transition import transition_to
from tidemark.models.specs.slo import Policy, Slo

router = APIRouter(prefix="/v1/jobs/{job}/streams/{stream}", tags=["streams"])

_DAY_US = 86_400_000_000

_MIN_SPAN_US = 60_000_000
"""Minimum reported time from which late rows a day are estimated, in microseconds."""

_BoundMs = Annotated[int, Query(ge=0, le=MAX_TIME_MS, description="The bound to preview, in milliseconds.")]


@router.get(
    "/preview",
    operation_id="getPreview",
    summary="What would happen under a bound",
    responses=answers("Preview", 404, 422, 503),
)
def get_preview(which: WhichStream, service: TheService, bound_ms: _BoundMs) -> schemas.Preview:
    """Return what would happen if a bound were in force: rows admitted, latency of results, and rows of state."""
    with service.database.read() as session:
        stream_id = get_stream(session, which.job, which.stream).id
        what_if = service.what_if.of(session, stream_id, service.clock())
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
    return schemas.Preview.of(
        found,
        job=which.job,
        stream=which.stream,
        bound_ms=bound_ms,
        horizon_ms=what_if.horizon_ms,
        rows=point.rows,
        late=found.admission.late,
        late_a_day=a_day,
        completeness_ppm=share_ppm(point.rows - found.admission.late, point.rows),
        completeness_min_ppm=found.admission.min_ppm,
        completeness_max_ppm=found.admission.max_ppm,
        beyond_evidence=beyond,
        latency_base_ms=_rounded(point.latency_base_us),
        **latency_answer(point),
        windows_closing=change.windows_closing,
        stands_still_ms=_rounded(change.stands_still_us),
        text="; ".join([*_admitted(found, what_if.basis.curve, bound_ms, a_day), *closing, *verdict, *notes]),
        notes=[*closing, *uncertain, *notes],
        transition=change.text if changes else None,
    )


def _unknown(job: str, stream: str, bound_ms: int, what_if: WhatIf) -> schemas.Preview:
    return schemas.Preview(
        job=job,
        stream=stream,
        bound_ms=bound_ms,
        horizon_ms=what_if.horizon_ms,
        rows=0,
        late=0,
        late_a_day=None,
        completeness_ppm=None,
        completeness_min_ppm=None,
        completeness_max_ppm=None,
        beyond_evidence=False,
        latency_base_ms=None,
        latency_wall_ms=None,
        latency_at_least_ms=None,
        latency_unknown="NoWindows",
        state_rows=None,
        state_bytes=None,
        windows_closing=None,
        stands_still_ms=None,
        meets_target=None,
        meets_latency_cap=None,
        meets_state_cap=None,
        text="nothing is known about the rows of this stream yet: there are no reports",
        notes=[],
        transition=None,
    )


def _late_a_day(what_if: WhatIf, late: int) -> int | None:
    assert what_if.basis is not None
    facts, situation = what_if.basis.facts, what_if.situation
    gap_us = 0 if situation is None or situation.batch_gap_us is None else situation.batch_gap_us
    span_us = facts.to_us - facts.from_us + gap_us
    return None if span_us < _MIN_SPAN_US else late * _DAY_US // span_us


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


def _rounded(time_us: float | None) -> int | None:
    return milliseconds(None if time_us is None else round(time_us))
