"""Examples of SLOs, policies, and what follows from setting them."""

from __future__ import annotations

from tidemark.controller.api.examples.bounds import PUBLISHED, RECOMMENDED, STATUS_TRANSITION
from tidemark.controller.api.examples.common import STARTED_US, Example

_SLO = {
    "target_ppm": 995_000,
    "latency_cap_ms": 900_000,
    "on_conflict": "exceed_latency_cap",
    "confidence_ppm": 950_000,
    "horizon_ms": 86_400_000,
    "objective": "occurrences",
    "good_windows_ppm": 990_000,
    "window_ms": 2_592_000_000,
    "state_cap_rows": None,
    "worst_window_ppm": 900_000,
}

_POLICY = {
    "mode": "OnRestart",
    "min_bound_ms": 0,
    "max_bound_ms": 3_600_000,
    "directions": ["Widen", "Narrow"],
    "margin_ppm": 100_000,
    "cooldown_ms": 3_600_000,
    "max_narrowings_a_day": 4,
    "max_narrowing_ppm": 500_000,
    "evidence_ms": 3_600_000,
    "evidence_windows": 100,
    "freeze_windows": [{"days": ["Fri", "Sat", "Sun"], "from_minute": 960, "to_minute": 1_440}],
    "paused": False,
    "on_no_data": "hold",
    "approval": "narrow",
    "late": "side",
}

_CONSEQUENCES = {
    "dry_run": False,
    "recommended": RECOMMENDED,
    "transition": STATUS_TRANSITION,
    "published": PUBLISHED,
}

_SLO_ANSWER = {**_SLO, "generation": 3, "updated_us": STARTED_US}
_POLICY_ANSWER = {**_POLICY, "generation": 2, "updated_us": STARTED_US}

EXAMPLES: dict[str, Example] = {
    "Slo": _SLO,
    "SloAnswer": _SLO_ANSWER,
    "SloSet": {**_SLO_ANSWER, **_CONSEQUENCES},
    "Policy": _POLICY,
    "PolicyAnswer": _POLICY_ANSWER,
    "PolicySet": {**_POLICY_ANSWER, **_CONSEQUENCES},
}
