"""What a stream would do under any bound, by what was reported over its horizon.

A bound that somebody drags over a chart is asked about many times a second, so what the answers rest on is kept for
the streams asked about last, until a report comes.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass

from sqlalchemy.orm import Session

from tidemark.controller.decide.decider import Decider
from tidemark.controller.decide.load import HorizonEvidence, progress_in, situation_in
from tidemark.controller.evidence.horizon import horizon_of, newest_report_id
from tidemark.controller.specs.store import DEFAULT_CONFIDENCE_PPM, DEFAULT_HORIZON_MS, get_slo
from tidemark.models.choice import needed_rank
from tidemark.models.slo import Slo
from tidemark.models.target import PPM
from tidemark.models.transition import Kept, Situation, kept_at, state_at

__all__ = ["Ground", "Grounds", "Outcome", "outcome_at"]

MAX_KEPT = 16
"""Streams of which the ground is kept: as many as people look at; each takes up to some megabytes."""


@dataclass(frozen=True, slots=True)
class Ground:
    """What is known of a stream that tells what a bound would do."""

    slo: Slo | None
    """Its SLO."""
    horizon_ms: int
    """How far back evidence counts."""
    basis: HorizonEvidence | None
    """Needs, latencies and facts; None without reports."""
    situation: Situation | None
    """The stream after its newest batch; None without reports."""

    @property
    def confidence_ppm(self) -> int:
        """The confidence that is asked for, in parts per million."""
        return DEFAULT_CONFIDENCE_PPM if self.slo is None else self.slo.confidence_ppm


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a bound would do. None is unknown, or not asked for."""

    kept: Kept
    """What it would keep."""
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
        """Whether it certifies the target within the caps; None when the target tells nothing."""
        if self.meets_target is None:
            return None
        return self.meets_target and self.meets_latency_cap is not False and self.meets_state_cap is not False


class Grounds:
    """The grounds of the streams asked about last. Safe to call from several threads.

    Args:
        decider: knows what decisions rest on.
    """

    def __init__(self, decider: Decider) -> None:
        self._decider = decider
        self._kept: OrderedDict[int, tuple[tuple[int, Slo | None], Ground]] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, session: Session, stream_id: int, now_us: int) -> Ground:
        """Return the ground of a stream as it is now."""
        spec = get_slo(session, stream_id)
        slo = None if spec is None else spec.value
        version = newest_report_id(session, stream_id), slo
        with self._lock:
            held = self._kept.get(stream_id)
            if held is not None and held[0] == version:
                self._kept.move_to_end(stream_id)
                return held[1]
        ground = self._read(session, stream_id, slo, now_us)
        with self._lock:
            self._kept[stream_id] = version, ground
            self._kept.move_to_end(stream_id)
            while len(self._kept) > MAX_KEPT:
                self._kept.popitem(last=False)
        return ground

    def _read(self, session: Session, stream_id: int, slo: Slo | None, now_us: int) -> Ground:
        horizon_ms = DEFAULT_HORIZON_MS if slo is None else slo.horizon_ms
        basis = self._decider.evidence(session, stream_id, horizon_ms)
        horizon = horizon_of(session, stream_id, horizon_ms)
        if basis is None or horizon is None:
            return Ground(slo, horizon_ms, None, None)
        confidence_ppm = DEFAULT_CONFIDENCE_PPM if slo is None else slo.confidence_ppm
        progress = progress_in(session, horizon, now_us)
        situation = situation_in(session, horizon, basis.curve, progress, confidence_ppm)
        return Ground(slo, horizon_ms, basis, situation)


def outcome_at(ground: Ground, bound_us: int) -> Outcome | None:
    """Return what a bound would do; None without reports."""
    if ground.basis is None or ground.situation is None:
        return None
    kept = kept_at(ground.basis.curve, bound_us, ground.confidence_ppm)
    rows, size = state_at(ground.situation, bound_us)
    slo, point = ground.slo, kept.point
    meets_target = meets_latency = meets_state = None
    if slo is not None:
        rank = needed_rank(point.rows, slo.target_ppm, slo.confidence_ppm / PPM) if point.rows else None
        meets_target = None if rank is None else point.rows - point.late >= rank
        if slo.latency_cap_ms is not None and point.latency_wall is not None:
            above = point.latency_wall.is_above(slo.latency_cap_ms * 1_000)
            meets_latency = None if above is None else not above
        if slo.state_cap_rows is not None and rows is not None:
            meets_state = rows <= slo.state_cap_rows
    return Outcome(kept, rows, size, meets_target, meets_latency, meets_state)
