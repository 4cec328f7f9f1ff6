"""Examples of pins."""

from __future__ import annotations

from tidemark.controller.api.examples.common import JOB, STARTED_US, Example, page

_BODY = {"to": "Ceiling", "reason": "INC-1042: a clock is wrong upstream"}
_PIN = {"scope": "stream", **JOB, **_BODY, "since_us": STARTED_US}

EXAMPLES: dict[str, Example] = {
    "PinBody": _BODY,
    "PinAnswer": {
        **_PIN,
        "streams": [
            {
                **JOB,
                "bound_ms": 1_800_000,
                "from_bound_ms": 10_000,
                "completeness_ppm": 999_900,
                "latency_wall_ms": 1_802_000,
                "text": "orders/clicks: windows close 29 min 50 s later than at 10 s; mean latency 12.04 s -> 30 min "
                "2 s (predicted); completeness 99.52 % -> 99.99 % (predicted)",
            }
        ],
        "more_streams": 0,
        "dry_run": False,
    },
    "PinPage": page("pins", _PIN),
}
