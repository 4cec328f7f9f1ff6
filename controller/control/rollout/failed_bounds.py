"""Bounds, and in Live envelopes, that failed, for a while, or that a person vetoed, until that is lifted."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import func, select, update
from sqlalchemy.orm import Session

from tidemark.controller.base.db.tables import FailedBoundRow, RolloutRow
from tidemark.models.base.defaults import FAILED_LONGEST_MS, FAILED_MS
from tidemark.models.protocol.messages import Envelope
from tidemark.models.rollout.states import Failure, FailureKind

_VETOES = 1_000
"""Maximum number of vetoes of a stream that count, the newest first."""


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

    What a person discarded or rolled back is vetoed: it stays so, under any SLO and policy, until a person lifts that.
    A rollout by an operator in Live is remembered by its envelope, every other one by its bound.
    """
    if kind in {"ByHand", "Discarded"}:
        row.vetoed = True
        return
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
    held_ms = min(FAILED_MS * 2 ** min(failures, 30), FAILED_LONGEST_MS)
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


def read_failures(
    session: Session, stream_id: int, slo_generation: int, policy_generation: int, now_us: int
) -> tuple[Failure, ...]:
    """Return the bounds that are vetoed, then those that still count as failed under an SLO and a policy."""
    vetoes = [
        Failure(
            row.direction,
            row.to_bound_ms,
            None,
            f"rollout {row.id} was {row.reason}",
            row.id,
        )
        for row in _vetoed(session, stream_id)
        if row.cause != "Operator"
    ]
    failed = [
        Failure(row.direction, row.bound_ms, row.until_us, row.why, row.rollout_id)
        for row in _in_force(session, stream_id, slo_generation, policy_generation, now_us)
        if row.bound_ms is not None
    ]
    return (*vetoes, *failed)


def envelope_failed(
    session: Session,
    stream_id: int,
    envelope: Envelope,
    now_us: int,
    *,
    slo_generation: int,
    policy_generation: int,
) -> bool:
    """Return whether an envelope is vetoed or still counts as failed under an SLO and a policy."""
    vetoed = (row.to_envelope for row in _vetoed(session, stream_id) if row.cause == "Operator")
    found = _in_force(session, stream_id, slo_generation, policy_generation, now_us)
    return envelope in vetoed or any(row.envelope == envelope for row in found)


def carry_failures(session: Session, stream_id: int, before: int, after: int) -> None:
    """Move failures to a new generation of the policy that changes nothing about them."""
    session.execute(
        update(FailedBoundRow)
        .where(FailedBoundRow.stream_id == stream_id, FailedBoundRow.policy_generation == before)
        .values(policy_generation=after)
    )


def _vetoed(session: Session, stream_id: int) -> Sequence[RolloutRow]:
    row = RolloutRow
    wanted = select(row).where(row.stream_id == stream_id, row.vetoed).order_by(row.id.desc()).limit(_VETOES)
    return session.scalars(wanted).all()


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
