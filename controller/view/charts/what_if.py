"""What a stream would do under any bound, from the reports of its horizon."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy.orm import Session

from tidemark.controller.control.bounds.acknowledgements import read_downstream
from tidemark.controller.control.decide.load import (
    HorizonEvidence,
    read_evidence,
    read_progress,
    read_situation,
)
from tidemark.controller.evidence.evidence_cache import EvidenceCache
from tidemark.controller.specs.store import (
    DEFAULT_CONFIDENCE_PPM,
    DEFAULT_SHARE_PPM,
    get_slo,
    horizon_ms_of,
)
from tidemark.models.base.target import PPM
from tidemark.models.evidence.curve import latency_of
from tidemark.models.protocol.downstream import Downstream
from tidemark.models.recommend.choice import needed_rank
from tidemark.models.recommend.transition import Admission, Situation, admission_at, state_at
from tidemark.models.specs.slo import Slo


@dataclass(frozen=True, slots=True)
class WhatIf:
    """The evidence from which the effect of a bound on a stream is computed."""

    slo: Slo | None
    """Its SLO."""
    horizon_ms: int
    """How far back evidence counts."""
    basis: HorizonEvidence | None
    """Needs, latencies and facts; None without reports."""
    situation: Situation | None
    """The stream after its newest batch; None without reports."""
    downstream: Downstream | None = None
    """What the bound decides behind the stream's own operator; None when nothing, or when it is not known."""

    @property
    def target_ppm(self) -> int:
        """The SLO's target or the default, in parts per million."""
        return DEFAULT_SHARE_PPM if self.slo is None else self.slo.target_ppm

    @property
    def confidence_ppm(self) -> int:
        """The SLO's confidence or the default, in parts per million."""
        return DEFAULT_CONFIDENCE_PPM if self.slo is None else self.slo.confidence_ppm


@dataclass(frozen=True, slots=True)
class BoundOutcome:
    """What a bound would do. None is unknown, or not required."""

    admission: Admission
    """How many rows it would admit."""
    state_rows: int | None
    """Rows of state."""
    state_bytes: int | None
    """Bytes of state."""
    meets_target: bool | None
    """Whether it certifies the target; None without an SLO or with too few rows."""
    meets_latency_cap: bool | None
    """Whether it is within the latency cap; None without one, and while the latency is not known."""
    meets_state_cap: bool | None
    """Whether it is within the state cap; None without one."""

    @property
    def meets_all(self) -> bool | None:
        """Whether it certifies the target within the caps; None when ``meets_target`` is None."""
        if self.meets_target is None:
            return None
        return self.meets_target and self.meets_latency_cap is not False and self.meets_state_cap is not False


def what_if_of(session: Session, stream_id: int, now_us: int, cache: EvidenceCache) -> WhatIf:
    """Return the current evidence of a stream."""
    spec = get_slo(session, stream_id)
    slo = None if spec is None else spec.value
    horizon_ms = horizon_ms_of(session, stream_id)
    basis = read_evidence(session, stream_id, horizon_ms, cache)
    if basis is None:
        return WhatIf(slo, horizon_ms, None, None)
    downstream = read_downstream(session, stream_id)
    situation = read_situation(
        session,
        basis.horizon,
        basis.curve,
        read_progress(session, basis.horizon, now_us, cache),
        target_ppm=DEFAULT_SHARE_PPM if slo is None else slo.target_ppm,
        confidence_ppm=DEFAULT_CONFIDENCE_PPM if slo is None else slo.confidence_ppm,
        downstream=downstream,
    )
    return WhatIf(slo, horizon_ms, basis, situation, downstream)


_MIN_SPAN_US = 60_000_000
"""Minimum reported time from which what comes in a day is estimated, in microseconds."""


def reported_us(what_if: WhatIf) -> int | None:
    """Return over how much time the evidence was reported, in microseconds; None when it is too little for a rate."""
    if what_if.basis is None:
        return None
    facts, situation = what_if.basis.facts, what_if.situation
    gap_us = 0 if situation is None or situation.batch_gap_us is None else situation.batch_gap_us
    span_us = facts.to_us - facts.from_us + gap_us
    return None if span_us < _MIN_SPAN_US else span_us


def outcome_at(what_if: WhatIf, bound_us: int) -> BoundOutcome | None:
    """Return what a bound would do; None without reports."""
    if what_if.basis is None or what_if.situation is None:
        return None
    per_event = what_if.situation.rows_per_event
    admission = admission_at(what_if.basis.curve, bound_us, what_if.confidence_ppm, rows_per_event=per_event)
    rows, size = state_at(what_if.situation, bound_us)
    slo, point = what_if.slo, admission.point
    meets_target = meets_latency = meets_state = None
    if slo is not None:
        rank = (
            needed_rank(point.rows, slo.target_ppm, slo.confidence_ppm / PPM, per_event)
            if point.rows
            else None
        )
        meets_target = None if rank is None else point.rows - point.late >= rank
        latency = latency_of(point.latency_wall, what_if.downstream, bound_us // 1_000)
        if slo.latency_cap_ms is not None and latency is not None:
            above = latency.is_above(slo.latency_cap_ms * 1_000)
            meets_latency = None if above is None else not above
        if slo.state_cap_rows is not None and rows is not None:
            meets_state = rows <= slo.state_cap_rows
    return BoundOutcome(admission, rows, size, meets_target, meets_latency, meets_state)
