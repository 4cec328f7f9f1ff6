"""Examples of streams, jobs and the fleet, and of the service's health."""

from __future__ import annotations

from tidemark.controller.api.examples.bounds import PUBLISHED, RECOMMENDED, STATUS_TRANSITION
from tidemark.controller.api.examples.charts import SKEW
from tidemark.controller.api.examples.common import JOB, QUERY, QUERY_RUN, STARTED_US, Example, page
from tidemark.controller.api.examples.rollouts import ROLLOUT
from tidemark.controller.api.examples.specs import EXAMPLES as SPECS

_GAP = {"type": "CoverageGap", "severity": "warning", "title": "Batches missing"}
_SKEWED = {"type": "PartitionSkewed", "severity": "warning", "title": "Skewed partition"}
_CONDITION = {**_GAP, "detail": "2 batches were never reported: completeness is unknown there"}

_JOB_SUMMARY = {
    "job": "orders",
    "streams": 2,
    "modes": [{"mode": "OnRestart", "streams": 2}],
    "worst": {**_GAP, "stream": "clicks"},
}

EXAMPLES: dict[str, Example] = {
    "FleetPage": {
        "streams": [
            {
                **JOB,
                "mode": "OnRestart",
                "registered_us": STARTED_US,
                "paused": False,
                "pin": None,
                "target_ppm": 995_000,
                "completeness_min_ppm": 996_310,
                "completeness_max_ppm": 996_310,
                "provisional": True,
                "window_min_ppm": 996_098,
                "window_max_ppm": 996_102,
                "budget_remaining_ppm": 219_600,
                "budget_course_ppm": [302_400, None, 261_000, 219_600],
                "recommended_bound_ms": 600_000,
                "published_bound_ms": 600_000,
                "applied_bound_ms": 600_000,
                "in_use_bound_ms": 600_000,
                "effective_bound_ms": 601_000,
                "rollout": {
                    "id": 12,
                    "state": "Effective",
                    "held_by": None,
                    "from_bound_ms": 300_000,
                    "to_bound_ms": 600_000,
                },
                "worst": _SKEWED,
                "alerts": ["PartitionSkewed"],
                "partitions": {"total": 64, "idle": 0, "behind": 0, "skewed": 1, "future": 0},
                "skewed": SKEW,
                "last_batch_us": STARTED_US,
                "updated_us": STARTED_US + 15_000_000,
            }
        ],
        "totals": {
            "streams": 2,
            "worst": [
                {**_SKEWED, "streams": 1},
                {"type": None, "severity": "ok", "title": "No condition", "streams": 1},
            ],
        },
        "next_cursor": None,
    },
    "JobPage": page("jobs", _JOB_SUMMARY),
    "JobStatus": {
        **_JOB_SUMMARY,
        "pin": None,
        "conditions": [{**_CONDITION, "stream": "clicks"}],
        "more_conditions": 0,
    },
    "StreamStatus": {
        **JOB,
        "summary": "widening to 10 min is under way: the job takes it when it next starts",
        "mode": "OnRestart",
        "registered_us": STARTED_US,
        "slo": SPECS["SloAnswer"],
        "recommended": RECOMMENDED,
        "transition": STATUS_TRANSITION,
        "published": PUBLISHED,
        "applied": {
            **QUERY_RUN,
            "bound_ms": 300_000,
            "generation": None,
            "source": "job",
            "applied_us": STARTED_US,
            "ceiling_ms": None,
        },
        "in_use_bound_ms": 300_000,
        "effective_bound_ms": 300_000,
        "windows_per_row": 1,
        "pin": None,
        "frozen_until_us": None,
        "live": None,
        "append_delay": {
            "rows": 1_200,
            "min_ms": 2,
            "mean_ms": 840,
            "max_ms": 109_000,
            "by_broker": True,
        },
        "late": {
            "policy": "side",
            "in_force": "side",
            "choices": ["drop", "side"],
            "text": "side, by the policy",
        },
        "evidence": {
            "rows": 120_000,
            "rows_needed": 598,
            "unknown_rows": 0,
            "early_rows": 300,
            "batches": 400,
            "missing_batches": 2,
            "partitions": 16,
            "horizon_ms": 86_400_000,
            "from_us": STARTED_US,
            "to_us": STARTED_US + 400_000_000,
        },
        "coverage": [
            {
                "query_id": QUERY,
                "first": 0,
                "last": 401,
                "missing_batches": 2,
                "missing": [{"first": 211, "last": 212}],
            }
        ],
        "completeness": {
            "rows": 120_300,
            "late_min": 1_805,
            "late_max": 1_805,
            "corrected_min": 0,
            "corrected_max": 0,
            "unjudged_rows": 0,
            "missing_batches": 2,
            "min_ppm": 984_995,
            "max_ppm": 984_995,
            "exact": False,
            "provisional": True,
        },
        "budget": {
            "objective": "occurrences",
            "window_ms": 2_592_000_000,
            "from_us": STARTED_US,
            "counted": 120_300,
            "bad_min": 448,
            "bad_max": 448,
            "min_ppm": 996_275,
            "max_ppm": 996_275,
            "allowed": 601,
            "remaining_ppm": 254_575,
            "missing_batches": 2,
            "provisional": True,
        },
        "rollout": ROLLOUT,
        "notified": {"labels": {"team": "web"}, "destinations": ["web", "default"], "unrouted": []},
        "conditions": [_CONDITION],
    },
    "StreamDeleted": {
        **JOB,
        "dry_run": False,
        "reports": 8_640,
        "quarantined_reports": 0,
        "queries": 1,
        "partitions": 12,
        "ledger_keys": 1_470,
        "published_bounds": 4,
        "rollouts": 3,
        "acknowledgements": 2,
        "events": 57,
        "slos": 1,
        "policies": 1,
        "pins": 0,
    },
    "Health": {
        "status": "ok",
        "checks": [{"name": "loop", "ok": True, "detail": "12 ticks, the last one ended 2 s ago"}],
    },
}
