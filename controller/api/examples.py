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
    "yields": "latency",
    "confidence_ppm": 950_000,
    "horizon_ms": 86_400_000,
    "generation": 3,
    "updated_us": _STARTED_US,
}

_TEXT = (
    "widening from 5 min to 10 min makes the watermark stand still for 5 min 1 s after a restart; 99.62 % of the rows "
    "will be kept at a mean latency of 10 min 5 s; about 9,387 rows of state, where there are 5,120 (in proportion to "
    "the event time that is open)"
)

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
    "least_ppm": 995_905,
    "most_ppm": 996_604,
    "latency_base_ms": 603_100,
    "latency_wall_ms": 604_900,
    "text": _TEXT,
}

_ENVELOPE = {
    "target_ppm": 995_000,
    "latency_cap_ms": None,
    "least_bound_ms": None,
    "greatest_bound_ms": 1_800_000,
}

_PIN = {
    "scope": "stream",
    **_JOB,
    "to": "Ceiling",
    "reason": "INC-1042: a clock is wrong upstream",
    "since_us": _STARTED_US,
}

EXAMPLES: dict[str, dict[str, Any]] = {
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
        "given_up_reports": 0,
        "append_delay": {
            "rows": 1_200,
            "least_us": 2_000,
            "mean_us": 840_000,
            "most_us": 109_000_000,
            "by_broker": True,
        },
        "live": {
            "ceiling_ms": 1_800_000,
            "control_ms": 1_767_225_578_000,
            "reason": "waiting one trigger longer is worth 41 rows of a window",
            "behind": [],
            "idle": ["7"],
            "ceiling_used_ppm": 12_000,
            "heard_us": _STARTED_US - 4_000_000,
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
        "yields": "latency",
        "confidence_ppm": 950_000,
        "horizon_ms": 86_400_000,
    },
    "PinBody": {"to": "Ceiling", "reason": "INC-1042: a clock is wrong upstream"},
    "Policy": {"mode": "OnRestart", "least_bound_ms": 0, "greatest_bound_ms": 3_600_000},
    "SloAnswer": _SLO,
    "PolicyAnswer": {
        "mode": "OnRestart",
        "least_bound_ms": 0,
        "greatest_bound_ms": 3_600_000,
        "generation": 2,
        "updated_us": _STARTED_US,
    },
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
    "StreamStatus": {
        **_JOB,
        "mode": "OnRestart",
        "registered_us": _STARTED_US,
        "slo": _SLO,
        "recommended": {
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
        },
        "transition": {"kind": "widen", "at_us": _STARTED_US + 400_840_000, **_TRANSITION},
        "published": {
            "bound_ms": 600_000,
            "generation": 3,
            "reason": "within the policy's limits",
            "envelope": None,
            "pin": None,
        },
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
            "least_ms": 2,
            "mean_ms": 840,
            "most_ms": 109_000,
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
            "late_least": 1_805,
            "late_most": 1_805,
            "unjudged_rows": 0,
            "missing_batches": 2,
            "least_ppm": 984_995,
            "most_ppm": 984_995,
            "exact": False,
            "provisional": True,
        },
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
                "windows_emitted": 57,
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
            }
        ],
        "share_ppm": 995_000,
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
                    "late_least": 462,
                    "late_most": 462,
                    "completeness_ppm": 996_098,
                    "error_ppm": -169,
                    "scored_us": _STARTED_US + 1_200_000_000,
                },
            }
        ],
        "least_rows": 10_000,
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
    404: _problem(
        404, "stream-not-found", "Unknown stream", "nothing is known of stream 'clicks' of job 'orders'"
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
    "pin-not-set": _problem(
        404,
        "pin-not-set",
        "No pin is set",
        "there is no pin on job 'orders'; GET /v1/pins lists those there are",
    ),
}
"""By kind, where a route's problem is not the usual one of its status."""
