"""Examples of SLOs, policies, and what follows from setting them."""

from __future__ import annotations

from tidemark.controller.api.examples.bounds import PUBLISHED, RECOMMENDED, STATUS_TRANSITION
from tidemark.controller.api.examples.common import QUERY, STARTED_US, Example, page

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
    "gates": ["error-rate"],
    "late": "side",
    "labels": {"team": "web"},
}

_CONSEQUENCES = {
    "dry_run": False,
    "recommended": RECOMMENDED,
    "transition": STATUS_TRANSITION,
    "published": PUBLISHED,
    "held": None,
}

_SLO_ANSWER = {**_SLO, "generation": 3, "updated_us": STARTED_US}
_POLICY_ANSWER = {**_POLICY, "generation": 2, "updated_us": STARTED_US}

_JOIN = {
    "streams": ["impressions", "views"],
    "target_ppm": 990_000,
    "confidence_ppm": 950_000,
    "horizon_ms": 3_600_000,
    "window_ms": 2_592_000_000,
}

_JOIN_STATE = {
    "query_id": QUERY,
    "batches": 720,
    "missing_batches": 0,
    "from_us": STARTED_US - 3_600_000_000,
    "to_us": STARTED_US,
    "unknown_rows": 0,
    "common_bound_ms": 28_600,
    "lost_min_ppm": 5_208,
    "lost_max_ppm": 5_624,
    "remaining_ppm": 437_600,
    "sides": [
        {
            "stream": "impressions",
            "bound_ms": 37_400,
            "in_use_bound_ms": 37_400,
            "rows": 36_000,
            "late": 274,
            "judged_rows": 120_000,
            "late_min": 625,
            "late_max": 625,
            "reason": "wider than the lowest common bound, 28.6 s, so that the others can be lowered by more",
        },
        {
            "stream": "views",
            "bound_ms": 0,
            "in_use_bound_ms": 28_600,
            "rows": 36_000,
            "late": 12,
            "judged_rows": 120_000,
            "late_min": 50,
            "late_max": 50,
            "reason": "lower than the lowest common bound, 28.6 s: the others' bounds admit enough of the rows",
        },
    ],
}

_JOIN_ANSWER = {**_JOIN, "updated_us": STARTED_US, "dry_run": False, "state": _JOIN_STATE}

EXAMPLES: dict[str, Example] = {
    "Slo": _SLO,
    "SloAnswer": _SLO_ANSWER,
    "SloSet": {**_SLO_ANSWER, **_CONSEQUENCES},
    "JoinSlo": _JOIN,
    "JoinAnswer": _JOIN_ANSWER,
    "GateList": {
        "gates": [
            {
                "name": "change-calendar",
                "kind": "webhook",
                "asks": "whether it answers the rollout with an HTTP status of 200 to 299",
            },
            {
                "name": "error-rate",
                "kind": "prometheus",
                "asks": "whether sum(rate(errors_total[5m])) is at most 0.01",
            },
        ]
    },
    "JoinPage": page("joins", {"join": "attribution", **_JOIN_ANSWER}),
    "Policy": _POLICY,
    "PolicyAnswer": _POLICY_ANSWER,
    "PolicySet": {**_POLICY_ANSWER, **_CONSEQUENCES},
}
