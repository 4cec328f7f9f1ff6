"""Specifications: the SLO and the policy of a stream, each with a generation that grows with every change."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Generic, TypeVar, cast

from sqlalchemy.orm import Session

from tidemark.controller.db.tables import PolicyRow, SloRow
from tidemark.controller.rollout.failed_bounds import carry_failures
from tidemark.controller.streams.store import add_event
from tidemark.models.slo import (
    Approval,
    Direction,
    FreezeWindow,
    Objective,
    OnConflict,
    OnNoData,
    Policy,
    Slo,
)
from tidemark.models.wire import Mode

__all__ = [
    "DEFAULT_CONFIDENCE_PPM",
    "DEFAULT_HORIZON_MS",
    "DEFAULT_SHARE_PPM",
    "Precondition",
    "Spec",
    "get_policy",
    "get_slo",
    "horizon_ms_of",
    "policy_of",
    "put_policy",
    "put_slo",
    "set_paused",
    "share_ppm_of",
    "slo_of",
]

T = TypeVar("T")

DEFAULT_HORIZON_MS = Slo(target_ppm=1).horizon_ms
"""The horizon of a stream without an SLO, in milliseconds."""

DEFAULT_CONFIDENCE_PPM = Slo(target_ppm=1).confidence_ppm
"""The confidence that is asked for of a stream without an SLO, in parts per million."""

DEFAULT_SHARE_PPM = 990_000
"""The share of rows that is asked about for a stream without an SLO, in parts per million."""

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
    return None if row is None else slo_of(row)


def slo_of(row: SloRow) -> Spec[Slo]:
    """Return an SLO from its row."""
    slo = Slo(
        target_ppm=row.target_ppm,
        latency_cap_ms=row.latency_cap_ms,
        on_conflict=cast("OnConflict | None", row.on_conflict),
        confidence_ppm=row.confidence_ppm,
        horizon_ms=row.horizon_ms,
        objective=cast("Objective", row.objective),
        good_windows_ppm=row.good_windows_ppm,
        window_ms=row.window_ms,
        state_cap_rows=row.state_cap_rows,
        worst_window_ppm=row.worst_window_ppm,
    )
    return Spec(slo, row.generation, row.updated_us)


def horizon_ms_of(session: Session, stream_id: int) -> int:
    """Return the stream's horizon in milliseconds, that of its SLO or the default."""
    slo = get_slo(session, stream_id)
    return DEFAULT_HORIZON_MS if slo is None else slo.value.horizon_ms


def share_ppm_of(session: Session, stream_id: int) -> int:
    """Return the share of rows that is asked about, in parts per million: the SLO's target or the default."""
    slo = get_slo(session, stream_id)
    return DEFAULT_SHARE_PPM if slo is None else slo.value.target_ppm


def get_policy(session: Session, stream_id: int) -> Spec[Policy]:
    """Return the stream's policy; the default one, with generation 0, when none was set."""
    return policy_of(session.get(PolicyRow, stream_id))


def policy_of(row: PolicyRow | None) -> Spec[Policy]:
    """Return a policy from its row; the default one, with generation 0, without a row."""
    if row is None:
        return Spec(Policy(), 0, None)
    policy = Policy(
        mode=cast("Mode", row.mode),
        min_bound_ms=row.min_bound_ms,
        max_bound_ms=row.max_bound_ms,
        directions=cast("tuple[Direction, ...]", tuple(row.directions.split())),
        margin_ppm=row.margin_ppm,
        cooldown_ms=row.cooldown_ms,
        max_narrowings_a_day=row.max_narrowings_a_day,
        max_narrowing_ppm=row.max_narrowing_ppm,
        evidence_ms=row.evidence_ms,
        evidence_windows=row.evidence_windows,
        freeze_windows=tuple(
            FreezeWindow(**{**found, "days": tuple(found["days"])})
            for found in json.loads(row.freeze_windows)
        ),
        paused=row.paused,
        on_no_data=cast("OnNoData", row.on_no_data),
        approval=cast("Approval", row.approval),
    )
    return Spec(policy, row.generation, row.updated_us)


def put_slo(
    session: Session, stream_id: int, slo: Slo, precondition: Precondition, now_us: int, *, reason: str
) -> Spec[Slo]:
    """Set the SLO of a locked stream and return it; an equal one is left as it is, whatever the caller held.

    Raises:
        Exception: whatever ``precondition`` raises.
    """
    before = get_slo(session, stream_id)
    if before is not None and before.value == slo:
        return before
    precondition(before.generation if before else 0)
    generation = before.generation + 1 if before else 1
    session.merge(SloRow(stream_id=stream_id, generation=generation, updated_us=now_us, **asdict(slo)))
    add_event(
        session,
        stream_id,
        now_us,
        kind="SloSet",
        reason=reason,
        before=_told(before.value if before else None),
        after=_told(slo),
    )
    return Spec(slo, generation, now_us)


def put_policy(
    session: Session, stream_id: int, policy: Policy, precondition: Precondition, now_us: int, *, reason: str
) -> Spec[Policy]:
    """Set the policy of a locked stream and return it; an equal one is left as it is, whatever the caller held.

    Raises:
        Exception: whatever ``precondition`` raises.
    """
    before = get_policy(session, stream_id)
    if before.generation and before.value == policy:
        return before
    precondition(before.generation)
    generation = before.generation + 1
    session.merge(_policy_row(stream_id, generation, policy, now_us, None))
    add_event(
        session,
        stream_id,
        now_us,
        kind="PolicySet",
        reason=reason,
        before=_told(before.value),
        after=_told(policy),
    )
    return Spec(policy, generation, now_us)


def set_paused(session: Session, stream_id: int, *, paused: bool, reason: str, now_us: int) -> Spec[Policy]:
    """Set whether the policy of a locked stream is paused, and nothing else of it, and return the policy."""
    before = get_policy(session, stream_id)
    if before.value.paused == paused:
        return before
    policy, generation = replace(before.value, paused=paused), before.generation + 1
    session.merge(_policy_row(stream_id, generation, policy, now_us, reason if paused else None))
    # Whether rollouts are paused says nothing about what failed.
    carry_failures(session, stream_id, before.generation, generation)
    add_event(session, stream_id, now_us, kind="Paused" if paused else "Resumed", reason=reason)
    return Spec(policy, generation, now_us)


def _policy_row(
    stream_id: int, generation: int, policy: Policy, now_us: int, paused_why: str | None
) -> PolicyRow:
    fields = {
        **asdict(policy),
        "directions": " ".join(policy.directions),
        "freeze_windows": json.dumps([asdict(window) for window in policy.freeze_windows]),
    }
    return PolicyRow(
        stream_id=stream_id, generation=generation, updated_us=now_us, paused_why=paused_why, **fields
    )


def _told(value: Slo | Policy | None) -> str | None:
    return None if value is None else json.dumps(asdict(value))
