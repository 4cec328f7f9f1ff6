"""What a stream's status and the fleet say of the bound while too little is known to act on it."""

from __future__ import annotations

from sqlalchemy.orm import Session

from tidemark.controller.base.db.tables import ReportRow
from tidemark.controller.control.decide.join_sides import state_of
from tidemark.controller.control.rollout.facts import read_evidence_span
from tidemark.controller.evidence.evidence_cache import EvidenceCache
from tidemark.controller.specs.joins import join_of
from tidemark.controller.view.state.state import StreamState
from tidemark.models.recommend.promise import ProvisionalBound, Recommended
from tidemark.models.recommend.steps import StepKind, deciding_step
from tidemark.models.rollout.provisional_bound import (
    provisional_bound_of,
    provisional_joint_bound,
)
from tidemark.models.specs.slo import Policy


def read_provisional_bound(
    session: Session, state: StreamState, cache: EvidenceCache
) -> ProvisionalBound | None:
    """Return the estimate of a stream's bound.

    None without an SLO or rows, once a recommended bound may be acted on, where a cap conflicts with the target, and
    once bounds are chosen for the sides of its join.
    """
    slo, horizon, recommended = state.slo, state.horizon, state.recommendation
    if slo is None or horizon is None:
        return None
    if slo.join_id is not None:
        return _of_join(session, slo.join_id, cache, state.policy.value, horizon.newest)
    certified = None
    if recommended is not None and state.required_ms is not None:
        bound_ms = recommended.bound_ms
        if bound_ms is None or bound_ms >= horizon.newest.bound_ms or recommended.conflict:
            return None
        step = deciding_step(state.steps).kind
        certified = Recommended(bound_ms, None if step is StepKind.QUANTILE else step.label)
    span = read_evidence_span(session, horizon.newest, state.policy.value)
    facts, curve, _ = cache.everything(session, horizon)
    return provisional_bound_of(curve, slo.value, facts.to_us - facts.from_us, span, certified)


def _of_join(
    session: Session, join_id: int, cache: EvidenceCache, policy: Policy, newest: ReportRow
) -> ProvisionalBound | None:
    join = join_of(session, join_id)
    joint = state_of(session, join, cache.joins).evidence
    if joint.choice is not None or joint.from_us is None or joint.to_us is None:
        return None
    span = read_evidence_span(session, newest, policy)
    return provisional_joint_bound(join.name, joint.needs, join.slo, joint.to_us - joint.from_us, span)
