"""One example of every body and answer; a test validates each against its schema."""

from __future__ import annotations

from typing import Any

__all__ = ["EXAMPLES", "KIND_EXAMPLES", "PROBLEM_EXAMPLES"]

_JOB = {"job": "orders", "stream": "clicks"}
_QUERY = "5c9a6a52-6d5e-4f0a-9a55-0d2f6f6f9c11"
_RUN = "b8f2a3b0-1c57-4f40-8f5b-3c2b7f0e6a42"
_STARTED_US = 1_767_225_600_000_000

_SLO = {
    "target": "0.995",
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
    "generation": 3,
    "updated_us": _STARTED_US,
}

_FREEZE = {"days": ["Fri", "Sat", "Sun"], "from_minute": 960, "to_minute": 1_440}

_POLICY_BODY = {
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
    "freeze_windows": [_FREEZE],
    "paused": False,
    "on_no_data": "hold",
    "approval": "narrow",
}

_TEXT = (
    "widening from 5 min to 10 min makes the watermark stand still for 5 min 1 s after a restart; 99.62 % of the rows "
    "will be kept at a mean latency of 10 min 5 s; about 9,387 rows of state, where there are 5,120 (in proportion to "
    "the event time that is open)"
)

_SKEW_TEXT = "partition '7' costs 8 min of latency: without it the bound would be 2 min"

_TRANSITION = {
    "from_bound_ms": 300_000,
    "bound_ms": 600_000,
    "stands_still_ms": 300_900,
    "effective_us": _STARTED_US + 703_000_000,
    "windows_closing": 0,
    "rows_closing": 0,
    "state_rows": 9_387,
    "state_bytes": 1_922_389,
    "rows": 120_000,
    "late": 448,
    "completeness_ppm": 996_266,
    "min_ppm": 995_905,
    "max_ppm": 996_604,
    "latency_base_ms": 603_100,
    "latency_wall_ms": 604_900,
    "text": _TEXT,
}

_MEASURED = {"latency_at_least_ms": None, "latency_unknown": None}

_ENVELOPE = {
    "target_ppm": 995_000,
    "latency_cap_ms": None,
    "min_bound_ms": None,
    "max_bound_ms": 1_800_000,
}

_PIN = {
    "scope": "stream",
    **_JOB,
    "to": "Ceiling",
    "reason": "INC-1042: a clock is wrong upstream",
    "since_us": _STARTED_US,
}

_RECOMMENDED = {
    "bound_ms": 600_000,
    "generation": 3,
    "decided_us": _STARTED_US,
    "current": True,
    "steps": [
        {
            "name": "quantile",
            "bound_ms": 600_000,
            "reason": "119,552 of 120,000 rows need at most 10 min, which certifies 0.995 of the rows at a "
            "confidence of 0.95",
        },
        {"name": "limits", "bound_ms": 600_000, "reason": "within the policy's limits"},
    ],
}

_PUBLISHED = {
    "bound_ms": 600_000,
    "generation": 3,
    "reason": "within the policy's limits",
    "envelope": None,
    "pin": None,
}

_POLICY = {
    **_POLICY_BODY,
    "generation": 2,
    "updated_us": _STARTED_US,
}

_ROLLOUT = {
    "id": 12,
    **_JOB,
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
    "approved": {"at_us": _STARTED_US + 60_000_000, "by": "sre", "reason": "looked at the curve"},
    "created_us": _STARTED_US,
    "changed_us": _STARTED_US + 420_000_000,
    "published_us": _STARTED_US + 60_000_000,
    "acknowledged_us": _STARTED_US + 120_000_000,
    "effective_us": _STARTED_US + 420_000_000,
    "ended_us": None,
    "may": ["rollback"],
}

_EVENT = {
    "id": 311,
    **_JOB,
    "at_us": _STARTED_US + 60_000_000,
    "last_us": _STARTED_US + 60_000_000,
    "count": 1,
    "kind": "RolloutPublished",
    "reason": "published: nothing holds it",
    "by": None,
    "before": '{"rollout": 12, "state": "Recommended", "from_bound_ms": 600000, "to_bound_ms": 420000}',
    "after": '{"rollout": 12, "state": "Published", "from_bound_ms": 600000, "to_bound_ms": 420000}',
    "evidence": {"rows": 120_000, "newest_report": 1_742, "rollout": 12},
}

_CONSEQUENCES = {
    "dry_run": False,
    "recommended": _RECOMMENDED,
    "transition": {"kind": "widen", "at_us": _STARTED_US + 400_840_000, **_TRANSITION, **_MEASURED},
    "published": _PUBLISHED,
}

_CONDITION = {
    "type": "CoverageGap",
    "detail": "2 batches were never reported: completeness is unknown there",
    "stream": "clicks",
}

_JOB_SUMMARY = {
    "job": "orders",
    "streams": 2,
    "modes": [{"mode": "OnRestart", "streams": 2}],
    "worst": _CONDITION,
}

_REPORT_FACTS = {
    "query_id": _QUERY,
    "run_id": _RUN,
    "batch_id": 17,
    "received_us": _STARTED_US + 900_000,
    "started_us": _STARTED_US,
    "duration_ms": 840,
    "operator": "window",
    "output_mode": "append",
    "bound_ms": 600_000,
    "generation": 3,
    "late_watermark_ms": 1_767_224_990_000,
    "watermark_ms": 1_767_224_995_000,
    "max_event_time_us": 1_767_225_599_750_000,
    "rows": 1_204,
    "null_rows": 4,
    "future_rows": 3,
    "pairs": 1_200,
    "late_min": 1,
    "late_max": 1,
    "unjudged_rows": 0,
    "early_rows": 0,
    "state_rows": 5_120,
    "state_bytes": 1_048_576,
    "dropped_by_spark": 1,
    "dropped_reports": 0,
}

_TOKEN = {
    "id": 7,
    "name": "orders-job",
    "role": "job",
    "jobs": ["orders"],
    "live": True,
    "created_us": _STARTED_US,
    "created_by": "root",
    "expires_us": _STARTED_US + 7_776_000_000_000,
    "last_used_us": None,
    "revoked_us": None,
    "revoked_by": None,
}

EXAMPLES: dict[str, dict[str, Any]] = {
    "TokenBody": {"name": "orders-job", "role": "job", "jobs": ["orders"], "lifetime_ms": 7_776_000_000},
    "TokenAnswer": _TOKEN,
    # No real one: its check does not fit.
    "TokenMade": {**_TOKEN, "token": "tdm_job_" + "0" * 51},
    "TokenPage": {"tokens": [_TOKEN], "next_cursor": None},
    "ReportBody": {
        "schema_version": 1,
        **_JOB,
        "query_id": _QUERY,
        "run_id": _RUN,
        "batch_id": 17,
        "started_us": _STARTED_US,
        "duration_ms": 840,
        "operator": {"kind": "window", "size_us": 60_000_000, "slide_us": 60_000_000, "start_us": 0},
        "output_mode": "append",
        "bound_ms": 600_000,
        "generation": 3,
        "late_watermark_ms": 1_767_224_990_000,
        "watermark_ms": 1_767_224_995_000,
        "late_base_ms": 1_767_225_590_000,
        "granule_us": 6_000_000,
        "closed": "left",
        "rows": 1_204,
        "null_rows": 4,
        "min_event_time_us": 1_767_224_940_250_000,
        "max_event_time_us": 1_767_225_599_750_000,
        "partitions": [
            {
                "partition": "0",
                "granules": [294_537_598, 294_537_599],
                "counts": [380, 420],
                "future_rows": 0,
            },
            {
                "partition": "1",
                "granules": [294_537_490, 294_537_599],
                "counts": [1, 399],
                "future_rows": 3,
            },
        ],
        "state_rows": 5_120,
        "state_bytes": 1_048_576,
        "dropped_by_spark": 1,
        "dropped_reports": 0,
        "append_delay": {
            "rows": 1_200,
            "min_us": 2_000,
            "mean_us": 840_000,
            "max_us": 109_000_000,
            "by_broker": True,
        },
        "live": {
            "ceiling_ms": 1_800_000,
            "control_ms": 1_767_225_578_000,
            "reason": "waiting one trigger longer is worth 41 rows of a window",
            "behind": [],
            "idle": ["7"],
            "ceiling_used_ppm": 12_000,
            "last_contact_us": _STARTED_US - 4_000_000,
            "pin": None,
        },
    },
    "Acknowledgement": {
        "query_id": _QUERY,
        "run_id": _RUN,
        "bound_ms": 600_000,
        "generation": 3,
        "source": "controller",
        "mode": "OnRestart",
        "applied_us": _STARTED_US,
        "ceiling_ms": 1_800_000,
    },
    "SloBody": {
        "target": "0.995",
        "latency_cap_ms": 900_000,
        "on_conflict": "exceed_latency_cap",
        "confidence_ppm": 950_000,
        "horizon_ms": 86_400_000,
        "objective": "occurrences",
        "good_windows_ppm": 990_000,
        "window_ms": 2_592_000_000,
        "state_cap_rows": None,
        "worst_window_ppm": 900_000,
    },
    "ReasonBody": {"reason": "INC-1042: the new region is late"},
    "RolloutAnswer": _ROLLOUT,
    "RolloutDetail": {**_ROLLOUT, "history": [_EVENT]},
    "RolloutPage": {"rollouts": [_ROLLOUT], "next_cursor": None},
    "EventPage": {"events": [_EVENT], "next_cursor": None},
    "PinBody": {"to": "Ceiling", "reason": "INC-1042: a clock is wrong upstream"},
    "Policy": _POLICY_BODY,
    "SloAnswer": _SLO,
    "SloSet": {**_SLO, **_CONSEQUENCES},
    "PolicyAnswer": _POLICY,
    "PolicySet": {**_POLICY, **_CONSEQUENCES},
    "Receipt": {**_JOB, "received_us": _STARTED_US, "duplicate": False},
    "BoundAnswer": {
        **_JOB,
        "mode": "Live",
        "generation": 3,
        "bound_ms": 600_000,
        "reason": "119,552 of 120,000 rows need at most 10 min, which certifies 0.995 of the rows",
        "envelope": _ENVELOPE,
        "pin": None,
    },
    "FleetPage": {
        "streams": [
            {
                **_JOB,
                "mode": "OnRestart",
                "paused": False,
                "pin": None,
                "target_ppm": 995_000,
                "completeness_min_ppm": 996_310,
                "completeness_max_ppm": 996_310,
                "provisional": True,
                "window_min_ppm": 996_098,
                "window_max_ppm": 996_102,
                "budget_remaining_ppm": 219_600,
                "recommended_bound_ms": 600_000,
                "published_bound_ms": 600_000,
                "applied_bound_ms": 600_000,
                "in_use_bound_ms": 600_000,
                "effective_bound_ms": 601_000,
                "rollout": {"id": 12, "state": "Effective", "held_by": None},
                "worst": {"type": "PartitionSkewed", "detail": _SKEW_TEXT},
                "alerts": ["PartitionSkewed"],
                "partitions": {"total": 64, "idle": 0, "behind": 0, "skewed": 1, "future": 0},
                "skewed": {
                    "partition": "7",
                    "without_bound_ms": 120_000,
                    "costs_ms": 480_000,
                    "text": _SKEW_TEXT,
                },
                "last_batch_us": _STARTED_US,
                "updated_us": _STARTED_US + 15_000_000,
            }
        ],
        "totals": {
            "streams": 2,
            "worst": [{"type": "PartitionSkewed", "streams": 1}, {"type": None, "streams": 1}],
        },
        "next_cursor": None,
    },
    "StreamPage": {
        "streams": [
            {
                **_JOB,
                "mode": "OnRestart",
                "registered_us": _STARTED_US,
                "target": "0.995",
                "recommended_bound_ms": 600_000,
                "applied_bound_ms": 600_000,
            }
        ],
        "next_cursor": None,
    },
    "JobPage": {"jobs": [_JOB_SUMMARY], "next_cursor": None},
    "JobStatus": {**_JOB_SUMMARY, "pin": None, "conditions": [_CONDITION], "more_conditions": 0},
    "ReportPage": {"reports": [_REPORT_FACTS], "next_cursor": "WyIxNzY3MjI1NjAwMDAwMDAwIiwgIjE3Il0"},
    "ReportDetail": {
        **_REPORT_FACTS,
        "granule_us": 6_000_000,
        "partitions": [
            {
                "partition": "0",
                "rows": 800,
                "future_rows": 0,
                "first_us": 1_767_225_588_000_000,
                "last_us": 1_767_225_600_000_000,
            }
        ],
    },
    "AcknowledgementPage": {
        "acknowledgements": [
            {
                "bound_ms": 600_000,
                "generation": 3,
                "source": "controller",
                "query_id": _QUERY,
                "run_id": _RUN,
                "applied_us": _STARTED_US,
                "ceiling_ms": 1_800_000,
                "mode": "OnRestart",
                "received_us": _STARTED_US + 120_000,
            }
        ],
        "next_cursor": None,
    },
    "BoundPage": {
        "bounds": [{**_PUBLISHED, "mode": "OnRestart", "published_us": _STARTED_US}],
        "next_cursor": None,
    },
    "StreamStatus": {
        **_JOB,
        "mode": "OnRestart",
        "registered_us": _STARTED_US,
        "slo": _SLO,
        "recommended": _RECOMMENDED,
        "transition": {"kind": "widen", "at_us": _STARTED_US + 400_840_000, **_TRANSITION, **_MEASURED},
        "published": _PUBLISHED,
        "applied": {
            "bound_ms": 300_000,
            "generation": None,
            "source": "job",
            "query_id": _QUERY,
            "run_id": _RUN,
            "applied_us": _STARTED_US,
            "ceiling_ms": None,
        },
        "in_use_bound_ms": 300_000,
        "effective_bound_ms": 300_000,
        "pin": None,
        "live": None,
        "append_delay": {
            "rows": 1_200,
            "min_ms": 2,
            "mean_ms": 840,
            "max_ms": 109_000,
            "by_broker": True,
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
            "from_us": _STARTED_US,
            "to_us": _STARTED_US + 400_000_000,
        },
        "coverage": [
            {
                "query_id": _QUERY,
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
            "from_us": _STARTED_US,
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
        "rollout": _ROLLOUT,
        "conditions": [
            {
                "type": "CoverageGap",
                "detail": "2 batches were never reported: completeness is unknown there",
            }
        ],
    },
    "Curve": {
        **_JOB,
        "basis": {
            "horizon_ms": 86_400_000,
            "covers_from_us": _STARTED_US - 86_040_000_000,
            "covers_until_us": None,
            "from_us": _STARTED_US,
            "to_us": _STARTED_US + 400_000_000,
            "relative_error_ppm": 5_000,
            "unknown_rows": 0,
        },
        "points": [
            {
                "bound_ms": 600_000,
                "rows": 120_000,
                "late": 448,
                "completeness_ppm": 996_266,
                "latency_base_ms": 603_100,
                "latency_wall_ms": 604_900,
                **_MEASURED,
                "windows_emitted": 57,
                "completeness_min_ppm": 995_905,
                "completeness_max_ppm": 996_604,
                "state_rows": 9_387,
                "meets_all": True,
            }
        ],
        "target_ppm": 995_000,
        "latency_cap_ms": 900_000,
        "state_cap_rows": None,
        "operating": {"bound_ms": 300_000, "effective_bound_ms": 301_000},
        "recommended_bound_ms": 600_000,
    },
    "Preview": {
        **_JOB,
        "bound_ms": 600_000,
        "horizon_ms": 86_400_000,
        "rows": 120_000,
        "late": 448,
        "late_a_day": 96_768,
        "completeness_ppm": 996_266,
        "completeness_min_ppm": 995_905,
        "completeness_max_ppm": 996_604,
        "beyond_evidence": False,
        "latency_base_ms": 603_100,
        "latency_wall_ms": 604_900,
        **_MEASURED,
        "state_rows": 9_387,
        "state_bytes": 1_922_389,
        "meets_target": True,
        "meets_latency_cap": True,
        "meets_state_cap": None,
        "text": "a bound of 10 min would keep 99.62 %: 448 of 120,000 rows would be late, about 96,768 a day; windows "
        "would come 10 min 5 s after their end on average; about 9,387 rows of state; it meets the target of 99.5 %; "
        "it is within the latency cap of 15 min",
        "transition": _TEXT,
    },
    "History": {
        **_JOB,
        "from_us": _STARTED_US,
        "to_us": _STARTED_US + 600_000_000,
        "slot_us": 300_000_000,
        "target_ppm": 995_000,
        "slots": [
            {
                "from_us": _STARTED_US,
                "rows": 90_000,
                "pairs": 90_000,
                "late_min": 336,
                "late_max": 336,
                "unjudged_rows": 0,
                "future_rows": 0,
                "in_use_bound_ms": 300_000,
                "effective_bound_ms": 301_000,
                "published_bound_ms": 600_000,
                "need_p50_ms": 2_100,
                "need_p90_ms": 64_000,
                "need_target_ms": 596_000,
                "need_max_ms": 1_204_000,
            },
            {
                "from_us": _STARTED_US + 300_000_000,
                "rows": None,
                "pairs": None,
                "late_min": None,
                "late_max": None,
                "unjudged_rows": None,
                "future_rows": None,
                "in_use_bound_ms": None,
                "effective_bound_ms": None,
                "published_bound_ms": 600_000,
                "need_p50_ms": None,
                "need_p90_ms": None,
                "need_target_ms": None,
                "need_max_ms": None,
            },
        ],
        "rollouts": [
            {
                "id": 12,
                "state": "Effective",
                "from_bound_ms": 300_000,
                "to_bound_ms": 600_000,
                "published_us": _STARTED_US + 120_000_000,
                "effective_us": _STARTED_US + 240_000_000,
                "ended_us": None,
            }
        ],
    },
    "Heatmap": {
        **_JOB,
        "from_us": _STARTED_US,
        "to_us": _STARTED_US + 1_200_000_000,
        "slot_us": 600_000_000,
        "slots": [_STARTED_US, _STARTED_US + 600_000_000],
        "share_ppm": 995_000,
        "bound_ms": 600_000,
        "total": 64,
        "partitions": [
            {
                "partition": "7",
                "state": "Active",
                "skewed": True,
                "future": False,
                "costs_ms": 480_000,
                "cells": [{"need_ms": 598_000, "pairs": 1_400}, None],
            }
        ],
    },
    "PartitionPage": {
        "partitions": [
            {
                "partition": "7",
                "rows": 7_400,
                "last_event_time_us": _STARTED_US - 240_000_000,
                "behind_ms": 240_000,
                "last_seen_us": _STARTED_US,
                "pairs": 7_400,
                "need_ms": 840_000,
                "skew_ms": 239_000,
                "future_rows": 0,
                "future": False,
                "state": "Active",
                "skewed": True,
                "skewed_us": _STARTED_US - 3_600_000_000,
                "without_bound_ms": 120_000,
                "costs_ms": 480_000,
                "text": _SKEW_TEXT,
            }
        ],
        "share_ppm": 995_000,
        "bound_ms": 600_000,
        "next_cursor": None,
    },
    "PredictionPage": {
        "predictions": [
            {
                "generation": 3,
                "made_us": _STARTED_US + 401_000_000,
                **_TRANSITION,
                "realised": {
                    "became_effective_us": _STARTED_US + 733_000_000,
                    "rows": 118_400,
                    "late_min": 462,
                    "late_max": 462,
                    "completeness_ppm": 996_098,
                    "error_ppm": -169,
                    "scored_us": _STARTED_US + 1_200_000_000,
                },
            }
        ],
        "min_rows": 10_000,
        "next_cursor": None,
    },
    "PinAnswer": {
        **_PIN,
        "streams": [
            {
                **_JOB,
                "bound_ms": 1_800_000,
                "in_use_bound_ms": 10_000,
                "completeness_ppm": 999_900,
                "latency_wall_ms": 1_802_000,
                "text": "orders/clicks: windows close 29 min 50 s later than at 10 s; mean latency 12.04 s -> 30 min "
                "2 s (predicted); completeness 99.52 % -> 99.99 % (predicted)",
            }
        ],
        "more_streams": 0,
        "dry_run": False,
    },
    "PinPage": {"pins": [_PIN], "next_cursor": None},
    "Health": {
        "status": "ok",
        "checks": [{"name": "loop", "ok": True, "detail": "12 turns, the last one ended 2 s ago"}],
    },
}
"""By the name of the schema."""


def _problem(status: int, kind: str, title: str, detail: str, **more: Any) -> dict[str, Any]:
    return {
        "type": f"urn:tidemark:problem:{kind}",
        "title": title,
        "status": status,
        "detail": detail,
        **more,
    }


PROBLEM_EXAMPLES: dict[int, dict[str, Any]] = {
    400: _problem(
        400, "malformed-body", "The body cannot be read", "Invalid JSON: EOF while parsing an object"
    ),
    401: _problem(
        401, "unauthenticated", "A token is needed", "the token is not good: unknown here, expired or revoked"
    ),
    403: _problem(403, "forbidden", "Not allowed", "this job is out of reach of 'shop-viewer'"),
    404: _problem(
        404, "stream-not-found", "Unknown stream", "nothing is known of stream 'clicks' of job 'orders'"
    ),
    406: _problem(
        406,
        "not-acceptable",
        "No type of answer is acceptable",
        "the answer is application/json, and Accept is 'text/csv'",
    ),
    409: _problem(
        409,
        "report-conflict",
        "The batch was reported before with other content",
        f"batch 17 of query {_QUERY} was reported before with other content; the first report stays",
    ),
    412: _problem(
        412,
        "precondition-failed",
        "The resource has changed",
        'If-Match is "2", but the store has generation 3',
    ),
    413: _problem(
        413, "body-too-large", "The body is too large", "the body is larger than the 8,388,608 bytes read"
    ),
    415: _problem(
        415,
        "unsupported-media-type",
        "The body's type is not supported",
        "the body must have Content-Type: application/json in UTF-8, not 'text/plain'",
    ),
    422: _problem(
        422,
        "invalid-body",
        "The body is not valid",
        "/rows: Input should be a valid integer",
        errors=[{"pointer": "/rows", "detail": "Input should be a valid integer"}],
    ),
    428: _problem(
        428,
        "precondition-required",
        "If-Match is needed",
        'this replaces generation 3: read it, and send If-Match: "3" to replace it',
    ),
    429: _problem(
        429,
        "too-many-requests",
        "Too many requests",
        "more than 100 requests a second; wait before the next",
    ),
    503: _problem(
        503, "store-unavailable", "The store does not answer", "the store did not answer; send it again"
    ),
}
"""By status."""

_NO_CEILING = (
    "the job's call has no ceiling=: give it one (on a new checkpoint), start the job and set mode Live then"
)

KIND_EXAMPLES: dict[str, dict[str, Any]] = {
    "live-refused": _problem(
        409,
        "live-refused",
        "The job cannot run in Live",
        f"/mode: {_NO_CEILING}",
        errors=[{"pointer": "/mode", "detail": _NO_CEILING}],
    ),
    "job-not-found": _problem(404, "job-not-found", "Unknown job", "nothing is known of job 'orders'"),
    "report-not-found": _problem(
        404,
        "report-not-found",
        "Unknown report",
        f"no report of batch 17 of query '{_QUERY}' is kept for stream 'clicks' of job 'orders'",
    ),
    "token-conflict": _problem(
        409,
        "token-conflict",
        "The token cannot be made",
        "two tokens of the name 'orders-job' live already; revoke one of them first",
    ),
    "token-not-found": _problem(
        404, "token-not-found", "Unknown token", "there is no token 7; GET /v1/tokens lists those there are"
    ),
    "rollout-not-found": _problem(
        404,
        "rollout-not-found",
        "Unknown rollout",
        "the stream has no rollout 99; GET .../rollouts lists those there are",
    ),
    "rollout-state": _problem(
        409,
        "rollout-state",
        "The rollout is in another state",
        "rollout 12 is Verified, where :approve does not apply; what can be done: :rollback",
    ),
    "pin-not-set": _problem(
        404,
        "pin-not-set",
        "No pin is set",
        "there is no pin on job 'orders'; GET /v1/pins lists those there are",
    ),
}
"""By kind, where a route's problem is not the usual one of its status."""
