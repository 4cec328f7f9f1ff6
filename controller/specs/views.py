"""SLOs and policies as the API answers them."""

from __future__ import annotations

from tidemark.controller.api import schemas
from tidemark.controller.specs.store import Spec
from tidemark.models.slo import Policy, Slo
from tidemark.models.target import format_target

__all__ = ["policy_answer", "slo_answer"]


def slo_answer(slo: Spec[Slo]) -> schemas.SloAnswer:
    """Return an SLO as it is answered."""
    value = slo.value
    return schemas.SloAnswer(
        target=format_target(value.target_ppm),
        target_ppm=value.target_ppm,
        latency_cap_ms=value.latency_cap_ms,
        on_conflict=value.on_conflict,
        confidence_ppm=value.confidence_ppm,
        horizon_ms=value.horizon_ms,
        objective=value.objective,
        good_windows_ppm=value.good_windows_ppm,
        window_ms=value.window_ms,
        state_cap_rows=value.state_cap_rows,
        worst_window_ppm=value.worst_window_ppm,
        generation=slo.generation,
        updated_us=slo.updated_us,
    )


def policy_answer(policy: Spec[Policy]) -> schemas.PolicyAnswer:
    """Return a policy as it is answered."""
    value = policy.value
    return schemas.PolicyAnswer(
        mode=value.mode,
        min_bound_ms=value.min_bound_ms,
        max_bound_ms=value.max_bound_ms,
        directions=list(value.directions),
        margin_ppm=value.margin_ppm,
        cooldown_ms=value.cooldown_ms,
        max_narrowings_a_day=value.max_narrowings_a_day,
        max_narrowing_ppm=value.max_narrowing_ppm,
        evidence_ms=value.evidence_ms,
        evidence_windows=value.evidence_windows,
        freeze_windows=[
            schemas.Freeze(days=list(window.days), from_minute=window.from_minute, to_minute=window.to_minute)
            for window in value.freeze_windows
        ],
        paused=value.paused,
        on_no_data=value.on_no_data,
        approval=value.approval,
        generation=policy.generation,
        updated_us=policy.updated_us,
    )
