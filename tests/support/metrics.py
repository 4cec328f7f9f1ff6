"""What a controller that runs by itself exposes."""

from __future__ import annotations

import httpx

__all__ = ["metric_at"]


def metric_at(url: str, name: str) -> float:
    """Return the first value of a metric of the controller at ``url``, also where it is 0."""
    lines = httpx.get(f"{url}/metrics?detail=all").raise_for_status().text.splitlines()
    return next(float(line.rpartition(" ")[2]) for line in lines if line.startswith((name + "{", name + " ")))
