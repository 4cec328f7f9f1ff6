"""Bounds, and in Live envelopes, that failed: they are not tried again for a while."""

from __future__ import annotations

from typing import cast

from sqlalchemy import func, select, update
from sqlalchemy.orm import Session

from tidemark.controller.db.tables import FailedBoundRow, RolloutRow
from tidemark.models.defaults import FAILED_LONGEST_MS, FAILED_MS
from tidemark.models.rollout.facts import Failure, FailureKind
from tidemark.models.slo import Direction


def keep_failure(
    session: Session,
    row: RolloutRow,
    kind: FailureKind,
    why: str,
    now_us: int,
    *,
    slo_generation: int,
    policy_generation: int,
) -> None:
    """Remember the bound of a rollout as failed, each time twice as long under the same SLO and policy.

    What an operator discarded or rolled back is remembered for the maximum time at once. A rollout by an operator in
    Live is remembered by its envelope, every other one by its bound.
    """
    of_envelope = row.cause == "Operator"
    failures = session.scalars(
        select(func.count())
        .select_from(FailedBoundRow)
        .where(
            FailedBoundRow.stream_id == row.stream_id,
            FailedBoundRow.direction == row.direction,
            FailedBoundRow.slo_generation == slo_generation,
            FailedBoundRow.policy_generation == policy_generation,
        )
    ).one()
    by_operator = kind in {"ByHand", "Discarded"}
    held_ms = FAILED_LONGEST_MS if by_operator else min(FAILED_MS * 2 ** min(failures, 30), FAILED_LONGEST_MS)
    session.add(
        FailedBoundRow(
            stream_id=row.stream_id,
            rollout_id=row.id,
            direction=row.direction,
            bound_ms=None if of_envelope else row.to_bound_ms,
            envelope=row.to_envelope if of_envelope else None,
            why=why,
            until_us=now_us + held_ms * 1_000,
            slo_generation=slo_generation,
            policy_generation=policy_generation,
        )
    )


def failures_of(
    session: Session, stream_id: int, slo_generation: int, policy_generation: int, now_us: int
) -> tuple[Failure, ...]:
    """Return the bounds that still count as failed under an SLO and a policy, the newest first."""
    return tuple(
        Failure(
            direction=cast("Direction", row.direction),
            bound_ms=row.bound_ms,
            until_us=row.until_us,
            why=row.why,
        )
        for row in _in_force(session, stream_id, slo_generation, policy_generation, now_us)
        if row.bound_ms is not None
    )


def envelope_failed(
    session: Session,
    stream_id: int,
    envelope: str,
    now_us: int,
    *,
    slo_generation: int,
    policy_generation: int,
) -> bool:
    """Return whether an envelope, as it is stored, still counts as failed under an SLO and a policy."""
    found = _in_force(session, stream_id, slo_generation, policy_generation, now_us)
    return any(row.envelope == envelope for row in found)


def carry_failures(session: Session, stream_id: int, before: int, after: int) -> None:
    """Move failures to a new generation of the policy that changes nothing about them."""
    session.execute(
        update(FailedBoundRow)
        .where(FailedBoundRow.stream_id == stream_id, FailedBoundRow.policy_generation == before)
        .values(policy_generation=after)
    )


def _in_force(
    session: Session, stream_id: int, slo_generation: int, policy_generation: int, now_us: int
) -> list[FailedBoundRow]:
    return list(
        session.scalars(
            select(FailedBoundRow)
            .where(
                FailedBoundRow.stream_id == stream_id,
                FailedBoundRow.slo_generation == slo_generation,
                FailedBoundRow.policy_generation == policy_generation,
                FailedBoundRow.until_us > now_us,
            )
            .order_by(FailedBoundRow.id.desc())
        )
    )
