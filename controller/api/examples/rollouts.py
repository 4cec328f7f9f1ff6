"""Examples of rollouts and events."""

from __future__ import annotations

from tidemark.controller.api.examples.common import JOB, STARTED_US, Example, page

ROLLOUT = {
    "id": 12,
    **JOB,
    "state": "Effective",
    "reason": "in effect: 1,180 of the 2,000 rows are judged that verify it",
    "held_by": None,
    "cause": "Decision",
    "direction": "Narrow",
    "first": False,
    "mode": "OnRestart",
    "from_bound_ms": 600_000,
    "to_bound_ms": 420_000,
    "from_envelope": None,
    "to_envelope": None,
    "in_use_bound_ms": 600_000,
    "generation": 4,
    "newest_report": 1_742,
    "predicted": {
        "rows": 120_000,
        "late": 412,
        "min_ppm": 996_217,
        "max_ppm": 996_889,
        "latency_wall_ms": 424_900,
        "state_rows": 6_540,
    },
    "judged": {
        "rows": 1_180,
        "at_risk_rows": 940,
        "needed_rows": 2_000,
        "event_ms": 310_000,
        "needed_event_ms": 900_000,
        "late_min": 4,
        "late_max": 4,
    },
    "approved": {"at_us": STARTED_US + 60_000_000, "by": "sre", "reason": "looked at the curve"},
    "gate_answers": [
        {
            "gate": "error-rate",
            "phase": "verify",
            "verdict": "yes",
            "said": "0.0012",
            "bound_ms": 420_000,
            "failures": 0,
            "at_us": STARTED_US + 450_000_000,
        }
    ],
    "vetoed": False,
    "created_us": STARTED_US,
    "changed_us": STARTED_US + 420_000_000,
    "published_us": STARTED_US + 60_000_000,
    "acknowledged_us": STARTED_US + 120_000_000,
    "effective_us": STARTED_US + 420_000_000,
    "ended_us": None,
    "may": ["rollback"],
}

_EVENT = {
    "id": 311,
    **JOB,
    "at_us": STARTED_US + 60_000_000,
    "last_us": STARTED_US + 60_000_000,
    "count": 1,
    "kind": "RolloutPublished",
    "reason": "published: nothing holds it",
    "by": None,
    "before": '{"rollout": 12, "state": "Recommended", "from_bound_ms": 600000, "to_bound_ms": 420000}',
    "after": '{"rollout": 12, "state": "Published", "from_bound_ms": 600000, "to_bound_ms": 420000}',
    "evidence": {"rows": 120_000, "newest_report": 1_742, "rollout": 12},
}

EXAMPLES: dict[str, Example] = {
    "ReasonBody": {"reason": "INC-1042: the new region is late"},
    "RolloutAnswer": ROLLOUT,
    "RolloutDetail": {**ROLLOUT, "history": [_EVENT]},
    "RolloutPage": page("rollouts", ROLLOUT),
    "EventPage": page("events", _EVENT),
}
