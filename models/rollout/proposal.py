"""What a new recommendation means for a rollout that is not published yet."""

from __future__ import annotations

from typing import Literal

from tidemark.models.rollout.facts import Rollout
from tidemark.models.slo import Direction
from tidemark.models.wire import Envelope

_Revision = Literal["keep", "update", "replace"]


def direction_of(from_ms: int | None, to_ms: int | None) -> Direction:
    """Return which way a bound changes; an unknown change counts as a widening."""
    return "Narrow" if from_ms is not None and to_ms is not None and to_ms < from_ms else "Widen"


def revise(rollout: Rollout, to_ms: int | None, direction: Direction) -> _Revision:
    """Return what to do with a candidate when a change to ``to_ms`` in ``direction`` is recommended now.

    A proposal that waits for approval does not change while a person looks at it: it stays while it is as wide as what
    is recommended now, and is replaced when it is not. Any other candidate follows the recommendation.
    """
    if rollout.state != "AwaitingApproval" and not rollout.approved:
        return "update"
    if direction != rollout.direction or rollout.to_bound_ms is None or to_ms is None:
        return "keep" if direction == rollout.direction and to_ms == rollout.to_bound_ms else "replace"
    return "keep" if to_ms <= rollout.to_bound_ms else "replace"


def envelope_direction(before: Envelope, after: Envelope) -> Direction:
    """Return which way an envelope changes: it narrows when any part lets rows be lost sooner than before."""
    inf = float("inf")
    narrows = (
        (after.target_ppm or _ABOVE_ANY_TARGET_PPM) < (before.target_ppm or _ABOVE_ANY_TARGET_PPM)
        or _or(after.latency_cap_ms, inf) < _or(before.latency_cap_ms, inf)
        or _or(after.max_bound_ms, inf) < _or(before.max_bound_ms, inf)
        or _or(after.min_bound_ms, 0) < _or(before.min_bound_ms, 0)
    )
    return "Narrow" if narrows else "Widen"


_ABOVE_ANY_TARGET_PPM = 1_000_001
"""Represents "no target": each partition follows the bound, which loses no row that a target would save."""


def _or(value: int | None, default: float) -> float:
    return default if value is None else value
