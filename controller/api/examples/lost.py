"""Examples of rows and losses by a dimension."""

from __future__ import annotations

from tidemark.controller.api.examples.common import JOB, QUERY, STARTED_US, Example

_TAKEN = {"no_event_time": 0, "set_aside": 0}
_SOUTH = {"value": "south", "rows": 12_400, "late": 744, "max_late_ms": 93_000, **_TAKEN}
_NORTH = {"value": "north", "rows": 107_000, "late": 1_070, "max_late_ms": 41_000, **_TAKEN}
_OTHERS = {"rows": 600, "late": 6, "max_late_ms": 12_000, **_TAKEN}

EXAMPLES: dict[str, Example] = {
    "LateCounts": {
        "schema_version": 1,
        "query_id": QUERY,
        "source": "0",
        "first_batch": 17,
        "last_batch": 19,
        "hour_us": STARTED_US,
        "dimension": "region",
        "values": [_NORTH, _SOUTH],
        "other": _OTHERS,
    },
    "LostAnswer": {
        **JOB,
        "dimension": "region",
        "from_us": STARTED_US,
        "to_us": STARTED_US + 3_600_000_000,
        "total": {
            "rows": 120_000,
            "lost": 1_820,
            "late": 1_820,
            "max_late_ms": 93_000,
            "lost_ppm": 15_166,
            **_TAKEN,
        },
        "values": [
            {
                **_NORTH,
                "lost": 1_070,
                "other": False,
                "lost_ppm": 10_000,
                "of_rows_ppm": 891_666,
                "of_lost_ppm": 587_912,
                "factor_ppm": 160_000,
                "biased": False,
            },
            {
                **_SOUTH,
                "lost": 744,
                "other": False,
                "lost_ppm": 60_000,
                "of_rows_ppm": 103_333,
                "of_lost_ppm": 408_791,
                "factor_ppm": 5_300_000,
                "biased": True,
            },
            {
                **_OTHERS,
                "value": None,
                "lost": 6,
                "other": True,
                "lost_ppm": 10_000,
                "of_rows_ppm": 5_000,
                "of_lost_ppm": 3_296,
                "factor_ppm": None,
                "biased": False,
            },
        ],
        "more_values": 0,
    },
}
