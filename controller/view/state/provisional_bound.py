"""What a stream's status says of the bound while too little is known to act on it."""

from __future__ import annotations

from sqlalchemy.orm import Session

from tidemark.controller.control.rollout.facts import read_evidence_span
from tidemark.controller.evidence.evidence_cache import EvidenceCache
from tidemark.controller.view.state.state import StreamState
from tidemark.models.rollout.provisional_bound import ProvisionalBound, provisional_bound_of


def read_provisional_bound(
    session: Session, state: StreamState, cache: EvidenceCache
) -> ProvisionalBound | None:
    """Return the estimate of a stream's bound.

    None without an SLO or rows, once a recommended bound may be acted on, and where something else decides: a
    cap that conflicts with the target, or the output of a join.
    """
    slo, horizon, recommended = state.slo, state.horizon, state.recommendation
    if slo is None or horizon is None or state.join_id is not None:
        return None
    certified = state.required_ms is not None
    if recommended is not None and certified:
        widens = recommended.bound_ms is not None and recommended.bound_ms >= horizon.newest.bound_ms
        if widens or recommended.conflict:
            return None
    span = read_evidence_span(session, horizon.newest, state.policy.value)
    facts, curve, _ = cache.everything(session, horizon)
    return provisional_bound_of(curve, slo.value, facts.to_us - facts.from_us, span, certified=certified)
