"""What a new recommendation means for a rollout that nobody has been told of yet."""

from __future__ import annotations

from typing import Literal

from tidemark.models.rollout.facts import Rollout
from tidemark.models.slo import Direction
from tidemark.models.wire import Envelope

__all__ = ["direction_of", "envelope_direction", "revise"]

Revision = Literal["keep", "update", "replace"]


def direction_of(from_ms: int | None, to_ms: int | None) -> Direction:
    """Return which way a bound changes; what is not known to narrow widens."""
    return "Narrow" if from_ms is not None and to_ms is not None and to_ms < from_ms else "Widen"


def revise(rollout: Rollout, to_ms: int | None, direction: Direction) -> Revision:
    """Return what becomes of a candidate when a change to ``to_ms`` in ``direction`` is recommended now.

    What a person is asked to approve does not change under their eyes: it is kept while it still admits all that is
    asked for now, and another one takes its place when it does not. What nobody was asked about follows.
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
        (after.target_ppm or PPM_AND_MORE) < (before.target_ppm or PPM_AND_MORE)
        or _or(after.latency_cap_ms, inf) < _or(before.latency_cap_ms, inf)
        or _or(after.max_bound_ms, inf) < _or(before.max_bound_ms, inf)
        or _or(after.min_bound_ms, 0) < _or(before.min_bound_ms, 0)
    )
    return "Narrow" if narrows else "Widen"


PPM_AND_MORE = 1_000_001
"""Stands for no target: each partition keeps to the bound, which loses nothing that a target would save."""


def _or(value: int | None, default: float) -> float:
    return default if value is None else value
