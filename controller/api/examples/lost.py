"""Examples of rows and losses by a dimension."""

from __future__ import annotations

from tidemark.controller.api.examples.common import JOB, QUERY, STARTED_US, Example

_TAKEN = {"no_event_time": 0, "set_aside": 0}
_SOUTH = {"value": "south", "rows": 12_400, "late": 744, "max_late_ms": 93_000, **_TAKEN}
_NORTH = {"value": "north", "rows": 107_000, "late": 1_070, "max_late_ms": 41_000, **_TAKEN}
_OTHERS = {"rows": 600, "late": 6, "max_late_ms": 12_000, **_TAKEN}
_SOUTH_AGES = {"late_by_age": [12, 40, 81, 102, 300, 198, 11]}
_NORTH_AGES = {"late_by_age": [490, 307, 188, 51, 30, 4]}
_OTHER_AGES = {"late_by_age": [2, 1, 1, 1, 1]}

EXAMPLES: dict[str, Example] = {
    "LateCounts": {
        "schema_version": 1,
        "query_id": QUERY,
        "source": "0",
        "first_batch": 17,
        "last_batch": 19,
        "hour_us": STARTED_US,
        "dimension": "region",
        "values": [{**_NORTH, **_NORTH_AGES}, {**_SOUTH, **_SOUTH_AGES}],
        "other": {**_OTHERS, **_OTHER_AGES},
        "partitions": [{**_SOUTH, "value": "0"}, {**_NORTH, "value": "1"}],
        "other_partitions": None,
    },
    "LostAnswer": {
        **JOB,
        "dimension": "region",
        "dimensions": ["partition", "region"],
        "from_us": STARTED_US,
        "to_us": STARTED_US + 3_600_000_000,
        "counted": {
            "last_batch": 37,
            "newest_batch": 61,
            "text": "counted up to batch 37 of 61; what was lost since then is not in it",
        },
        "total": {
            "rows": 120_000,
            "lost": 1_820,
            "late": 1_820,
            "max_late_ms": 93_000,
            "median_late_ms": 5_000,
            "p99_late_ms": 60_000,
            "lost_ppm": 15_166,
            **_TAKEN,
        },
        "values": [
            {
                **_NORTH,
                "median_late_ms": 2_000,
                "p99_late_ms": 30_000,
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
                "median_late_ms": 30_000,
                "p99_late_ms": 93_000,
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
                "median_late_ms": 5_000,
                "p99_late_ms": 12_000,
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
