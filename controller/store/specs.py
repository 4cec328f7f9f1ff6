"""Specifications: the SLO and the policy of a stream, each with a generation that grows with every change."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Generic, TypeVar, cast

from sqlalchemy.orm import Session

from tidemark.controller.store.streams import add_event
from tidemark.controller.store.tables import PolicyRow, SloRow
from tidemark.models.slo import Policy, Slo, Yields
from tidemark.models.wire import Mode

__all__ = ["DEFAULT_HORIZON_MS", "Precondition", "Spec", "get_policy", "get_slo", "put_policy", "put_slo"]

T = TypeVar("T")

DEFAULT_HORIZON_MS = Slo(target_ppm=1).horizon_ms
"""The horizon of a stream without an SLO, in milliseconds."""

Precondition = Callable[[int], None]
"""Takes the generation in the store, 0 for none, and raises when the caller expected another."""


@dataclass(frozen=True, slots=True)
class Spec(Generic[T]):
    """A specification as it stands."""

    value: T
    """What was asked for."""
    generation: int
    """How often it was changed; 0 for a default that nobody set."""
    updated_us: int | None
    """When it was last changed, in microseconds since the epoch; None for a default."""


def get_slo(session: Session, stream_id: int) -> Spec[Slo] | None:
    """Return the stream's SLO, None when none was set."""
    row = session.get(SloRow, stream_id)
    if row is None:
        return None
    slo = Slo(
        target_ppm=row.target_ppm,
        latency_cap_ms=row.latency_cap_ms,
        yields=cast("Yields | None", row.yields),
        confidence_ppm=row.confidence_ppm,
        horizon_ms=row.horizon_ms,
    )
    return Spec(slo, row.generation, row.updated_us)


def get_policy(session: Session, stream_id: int) -> Spec[Policy]:
    """Return the stream's policy; the default one, with generation 0, when none was set."""
    row = session.get(PolicyRow, stream_id)
    if row is None:
        return Spec(Policy(), 0, None)
    policy = Policy(
        mode=cast("Mode", row.mode),
        least_bound_ms=row.least_bound_ms,
        greatest_bound_ms=row.greatest_bound_ms,
    )
    return Spec(policy, row.generation, row.updated_us)


def put_slo(session: Session, stream_id: int, slo: Slo, precondition: Precondition, now_us: int) -> Spec[Slo]:
    """Set the SLO of a locked stream and return it; an equal one is left as it is.

    Raises:
        Exception: whatever ``precondition`` raises.
    """
    before = get_slo(session, stream_id)
    precondition(before.generation if before else 0)
    if before is not None and before.value == slo:
        return before
    generation = before.generation + 1 if before else 1
    session.merge(SloRow(stream_id=stream_id, generation=generation, updated_us=now_us, **asdict(slo)))
    add_event(
        session,
        stream_id,
        now_us,
        kind="SloSet",
        reason="set by request",
        before=_told(before.value if before else None),
        after=_told(slo),
    )
    return Spec(slo, generation, now_us)


def put_policy(
    session: Session, stream_id: int, policy: Policy, precondition: Precondition, now_us: int
) -> Spec[Policy]:
    """Set the policy of a locked stream and return it; an equal one is left as it is.

    Raises:
        Exception: whatever ``precondition`` raises.
    """
    before = get_policy(session, stream_id)
    precondition(before.generation)
    if before.generation and before.value == policy:
        return before
    generation = before.generation + 1
    session.merge(PolicyRow(stream_id=stream_id, generation=generation, updated_us=now_us, **asdict(policy)))
    add_event(
        session,
        stream_id,
        now_us,
        kind="PolicySet",
        reason="set by request",
        before=_told(before.value),
        after=_told(policy),
    )
    return Spec(policy, generation, now_us)


def _told(value: Slo | Policy | None) -> str | None:
    return None if value is None else json.dumps(asdict(value))
