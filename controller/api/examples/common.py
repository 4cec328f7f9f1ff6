"""What the examples share: one stream, one query of it, and one moment."""

from __future__ import annotations

from typing import Any

Example = dict[str, Any]
"""An example of a body or an answer."""

JOB = {"job": "orders", "stream": "clicks"}
QUERY = "5c9a6a52-6d5e-4f0a-9a55-0d2f6f6f9c11"
QUERY_RUN = {"query_id": QUERY, "run_id": "b8f2a3b0-1c57-4f40-8f5b-3c2b7f0e6a42"}
STARTED_US = 1_767_225_600_000_000

MEASURED = {"latency_at_least_ms": None, "latency_unknown": None}
"""A latency that is known."""


def page(name: str, *items: Example, next_cursor: str | None = None) -> Example:
    """Return a page of a list."""
    return {name: [*items], "next_cursor": next_cursor}
