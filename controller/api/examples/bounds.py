"""Examples of bounds: recommended, predicted, published, acknowledged."""

from __future__ import annotations

from tidemark.controller.api.examples.common import JOB, MEASURED, QUERY_RUN, STARTED_US, Example, page

TRANSITION_TEXT = (
    "widening from 5 min to 10 min stops the watermark for 5 min 1 s after a restart; 99.62 % of the rows "
    "will be admitted at a mean latency of 10 min 5 s; about 9,387 rows of state, now 5,120 (estimated in "
    "proportion to the event time that is open)"
)

FIGURES = {
    "bound_ms": 600_000,
    "rows": 120_000,
    "late": 448,
    "completeness_ppm": 996_266,
    "latency_base_ms": 603_100,
    "latency_wall_ms": 604_900,
    "state_rows": 9_387,
}
"""What one bound would do to the stream."""

_TRANSITION = {
    **FIGURES,
    "from_bound_ms": 300_000,
    "stands_still_ms": 300_900,
    "effective_us": STARTED_US + 703_000_000,
    "windows_closing": 0,
    "rows_closing": 0,
    "state_bytes": 1_922_389,
    "min_ppm": 995_905,
    "max_ppm": 996_604,
    "text": TRANSITION_TEXT,
}

STATUS_TRANSITION = {"kind": "widen", "at_us": STARTED_US + 400_840_000, **_TRANSITION, **MEASURED}

_BECAUSE = (
    "119,552 of 120,000 rows need at most 10 min, which certifies 99.5 % of the rows at 95 % confidence"
)

RECOMMENDED = {
    "bound_ms": 600_000,
    "generation": 3,
    "decided_us": STARTED_US,
    "current": True,
    "because": _BECAUSE,
    "decided_by": "Quantile",
    "steps": [
        {
            "kind": "Quantile",
            "name": "quantile",
            "bound_ms": 600_000,
            "reason": _BECAUSE,
        },
        {
            "kind": "Limits",
            "name": "limits",
            "bound_ms": 600_000,
            "reason": "within the policy's limits",
        },
    ],
}

PUBLISHED = {
    "bound_ms": 600_000,
    "generation": 3,
    "published_us": STARTED_US,
    "reason": _BECAUSE,
    "envelope": None,
    "pin": None,
}

_ACKNOWLEDGEMENT = {
    **QUERY_RUN,
    "bound_ms": 600_000,
    "generation": 3,
    "source": "controller",
    "mode": "OnRestart",
    "applied_us": STARTED_US,
    "ceiling_ms": 1_800_000,
}

EXAMPLES: dict[str, Example] = {
    "Acknowledgement": {
        **_ACKNOWLEDGEMENT,
        "downstream": {
            "retention_ms": 6_001,
            "horizon_ms": None,
            "horizon_moves": False,
            "others_ms": 300_000,
            "unsafe": False,
        },
        "late": {"in_force": "side", "choices": ["drop", "side"]},
    },
    "AcknowledgementPage": page(
        "acknowledgements", {**_ACKNOWLEDGEMENT, "received_us": STARTED_US + 120_000}
    ),
    "BoundAnswer": {
        **JOB,
        "mode": "Live",
        "generation": 3,
        "bound_ms": 600_000,
        "reason": _BECAUSE,
        "envelope": {
            "target_ppm": 995_000,
            "latency_cap_ms": None,
            "min_bound_ms": None,
            "max_bound_ms": 1_800_000,
        },
        "pin": None,
    },
    "BoundPage": page("bounds", {**PUBLISHED, "mode": "OnRestart"}),
    "PredictionPage": {
        **page(
            "predictions",
            {
                "generation": 3,
                "made_us": STARTED_US + 401_000_000,
                **_TRANSITION,
                "realised": {
                    "became_effective_us": STARTED_US + 733_000_000,
                    "rows": 118_400,
                    "late_min": 462,
                    "late_max": 462,
                    "completeness_ppm": 996_098,
                    "error_ppm": -169,
                    "scored_us": STARTED_US + 1_200_000_000,
                },
            },
        ),
        "min_rows": 10_000,
    },
}
