"""Examples of reports and of what is stored of them."""

from __future__ import annotations

from tidemark.controller.api.examples.common import JOB, QUERY_RUN, STARTED_US, Example, page

_BATCH = {
    **QUERY_RUN,
    "batch_id": 17,
    "started_us": STARTED_US,
    "duration_ms": 840,
    "output_mode": "append",
    "bound_ms": 600_000,
    "generation": 3,
    "late_watermark_ms": 1_767_224_990_000,
    "watermark_ms": 1_767_224_995_000,
    "max_event_time_us": 1_767_225_599_750_000,
    "rows": 1_204,
    "null_rows": 4,
    "state_rows": 5_120,
    "state_bytes": 1_048_576,
    "dropped_by_spark": 1,
    "dropped_reports": 0,
}
"""What a report says and its answer repeats."""

_FACTS = {
    **_BATCH,
    "received_us": STARTED_US + 900_000,
    "operator": "window",
    "future_rows": 3,
    "pairs": 1_200,
    "late_min": 1,
    "late_max": 1,
    "corrected_min": 0,
    "corrected_max": 0,
    "unjudged_rows": 0,
    "early_rows": 0,
}

_SENT = {
    "schema_version": 1,
    **JOB,
    **_BATCH,
    "operator": {"kind": "window", "size_us": 60_000_000, "slide_us": 60_000_000, "start_us": 0},
    "late_base_ms": 1_767_225_590_000,
    "granule_us": 6_000_000,
    "closed": "left",
    "min_event_time_us": 1_767_224_940_250_000,
    "counts": {
        "partitions": ["0", "1"],
        "sizes": [2, 2],
        "granules": [294_537_598, 1, 294_537_490, 109],
        "rows": [380, 420, 1, 399],
        "future_rows": [0, 3],
    },
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
        "reason": "waiting 1 s longer is worth 41 rows of a window",
        "behind": [],
        "idle": ["7"],
        "ceiling_used_ppm": 12_000,
        "last_contact_us": STARTED_US - 4_000_000,
        "pin": None,
    },
    "final_watermark_ms": None,
}

EXAMPLES: dict[str, Example] = {
    "ReportBody": _SENT,
    "Receipt": {**JOB, "received_us": STARTED_US, "duplicate": False},
    "ReportPage": page("reports", _FACTS, next_cursor="WyIxNzY3MjI1NjAwMDAwMDAwIiwgIjE3Il0"),
    "ReportBodyPage": page("reports", _SENT, next_cursor="WyIxNzY3MjI1NjAwMDAwMDAwIiwgIjE3Il0"),
    "MissingBatches": {
        "query_id": QUERY_RUN["query_id"],
        "missing": [{"first": 211, "last": 212}],
        "late": None,
    },
    "ReportDetail": {
        **_FACTS,
        "reread": False,
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
}
