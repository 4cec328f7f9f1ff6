"""Mean latencies as the API answers them."""

from __future__ import annotations

from typing import TypedDict

from tidemark.models.evidence.curve import CurvePoint
from tidemark.models.protocol.messages import LatencyUnknown


class Latencies(TypedDict):
    """What is answered of a mean wall latency."""

    latency_wall_ms: int | None
    latency_at_least_ms: int | None
    latency_unknown: LatencyUnknown | None


def latency_answer(point: CurvePoint) -> Latencies:
    """Return the mean wall latency of a point of a curve, as far as it is known."""
    wall = point.latency_wall
    return {
        "latency_wall_ms": None if wall is None or wall.censored else round(wall.mean_us / 1_000),
        "latency_at_least_ms": round(wall.mean_us / 1_000) if wall is not None and wall.censored else None,
        "latency_unknown": point.latency_unknown,
    }
