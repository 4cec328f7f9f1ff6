"""Examples of curves, previews, histories and partitions."""

from __future__ import annotations

from tidemark.controller.api.examples.bounds import FIGURES, TRANSITION_TEXT
from tidemark.controller.api.examples.common import JOB, MEASURED, STARTED_US, Example

SKEW_TEXT = "partition '7' costs 8 min of latency: without it the bound would be 2 min"

SKEW = {"partition": "7", "without_bound_ms": 120_000, "costs_ms": 480_000, "text": SKEW_TEXT}

_SLOT = {
    "from_us": STARTED_US,
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
}

EXAMPLES: dict[str, Example] = {
    "CurveAnswer": {
        **JOB,
        "basis": {
            "horizon_ms": 86_400_000,
            "covers_from_us": STARTED_US - 86_040_000_000,
            "covers_until_us": None,
            "from_us": STARTED_US,
            "to_us": STARTED_US + 400_000_000,
            "relative_error_ppm": 5_000,
            "unknown_rows": 0,
        },
        "points": [
            {
                **FIGURES,
                **MEASURED,
                "windows_emitted": 57,
                "completeness_min_ppm": 995_905,
                "completeness_max_ppm": 996_604,
                "meets_all": True,
            }
        ],
        "target_ppm": 995_000,
        "latency_cap_ms": 900_000,
        "state_cap_rows": None,
        "operating": {"bound_ms": 300_000, "is_published": False, "effective_bound_ms": 301_000},
        "recommended_bound_ms": 600_000,
    },
    "Preview": {
        **JOB,
        **FIGURES,
        "horizon_ms": 86_400_000,
        "late_a_day": 96_768,
        "completeness_min_ppm": 995_905,
        "completeness_max_ppm": 996_604,
        "beyond_evidence": False,
        **MEASURED,
        "state_bytes": 1_922_389,
        "windows_closing": 0,
        "stands_still_ms": 300_900,
        "meets_target": True,
        "meets_latency_cap": True,
        "meets_state_cap": None,
        "text": "a bound of 10 min would admit 99.62 %: 448 of 120,000 rows would be late, about 96,768 a day; windows "
        "would come 10 min 5 s after their end on average; about 9,387 rows of state; it meets the target of 99.5 %; "
        "it is within the latency cap of 15 min",
        "notes": [],
        "transition": TRANSITION_TEXT,
    },
    "History": {
        **JOB,
        "from_us": STARTED_US,
        "to_us": STARTED_US + 600_000_000,
        "slot_us": 300_000_000,
        "target_ppm": 995_000,
        "slots": [
            _SLOT,
            {**dict.fromkeys(_SLOT), "from_us": STARTED_US + 300_000_000, "published_bound_ms": 600_000},
        ],
        "rollouts": [
            {
                "id": 12,
                "state": "Effective",
                "from_bound_ms": 300_000,
                "to_bound_ms": 600_000,
                "published_us": STARTED_US + 120_000_000,
                "effective_us": STARTED_US + 240_000_000,
                "ended_us": None,
            }
        ],
    },
    "BudgetHistory": {
        **JOB,
        "budget": {
            "objective": "occurrences",
            "window_ms": 2_592_000_000,
            "from_us": STARTED_US,
            "counted": 120_000,
            "bad_min": 336,
            "bad_max": 336,
            "min_ppm": 997_200,
            "max_ppm": 997_200,
            "allowed": 600,
            "remaining_ppm": 440_000,
            "missing_batches": 0,
            "provisional": False,
        },
        "from_us": STARTED_US,
        "to_us": STARTED_US + 600_000_000,
        "slot_us": 300_000_000,
        "slots": [
            {
                "from_us": STARTED_US,
                "counted": 120_000,
                "bad_min": 336,
                "bad_max": 336,
                "remaining_ppm": 440_000,
            },
            {
                "from_us": STARTED_US + 300_000_000,
                "counted": None,
                "bad_min": None,
                "bad_max": None,
                "remaining_ppm": 440_000,
            },
        ],
        "rates": [{"span_ms": 2_592_000_000, "counted": 120_000, "bad_max": 336, "rate_ppm": 560_000}],
        "exhausted_in_ms": None,
    },
    "Heatmap": {
        **JOB,
        "from_us": STARTED_US,
        "to_us": STARTED_US + 1_200_000_000,
        "slot_us": 600_000_000,
        "slots": [STARTED_US, STARTED_US + 600_000_000],
        "share_ppm": 995_000,
        "effective_bound_ms": 600_000,
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
    "PartitionCurve": {
        **JOB,
        "partition": "7",
        "points": [{"bound_ms": 600_000, "rows": 7_400, "late": 81, "completeness_ppm": 989_054}],
    },
    "PartitionPage": {
        "partitions": [
            {
                **SKEW,
                "rows": 7_400,
                "last_event_time_us": STARTED_US - 240_000_000,
                "behind_ms": 240_000,
                "last_seen_us": STARTED_US,
                "pairs": 7_400,
                "need_ms": 840_000,
                "skew_ms": 239_000,
                "future_rows": 0,
                "future": False,
                "misdated_rows": 0,
                "misdated": False,
                "state": "Active",
                "skewed": True,
                "skewed_us": STARTED_US - 3_600_000_000,
            }
        ],
        "share_ppm": 995_000,
        "bound_ms": 600_000,
        "next_cursor": None,
    },
}
