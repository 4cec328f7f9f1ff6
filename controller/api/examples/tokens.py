"""Examples of tokens."""

from __future__ import annotations

from tidemark.controller.api.examples.common import STARTED_US, Example, page

_TOKEN = {
    "id": 7,
    "name": "orders-job",
    "role": "job",
    "jobs": ["orders"],
    "live": True,
    "created_us": STARTED_US,
    "created_by": "root",
    "expires_us": STARTED_US + 7_776_000_000_000,
    "last_used_us": None,
    "revoked_us": None,
    "revoked_by": None,
}

EXAMPLES: dict[str, Example] = {
    "Caller": {"name": "ada", "role": "operator", "rights": ["Read", "Ask", "Operate"]},
    "RotationBody": {},
    "TokenBody": {"name": "orders-job", "role": "job", "jobs": ["orders"], "lifetime_ms": 7_776_000_000},
    "TokenAnswer": _TOKEN,
    # Not a real one: its check does not fit.
    "TokenMade": {**_TOKEN, "token": "tdm_job_" + "0" * 51},
    "TokenPage": page("tokens", _TOKEN),
}
