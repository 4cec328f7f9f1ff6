"""API answers from stored rollouts and events."""

from __future__ import annotations

from typing import cast

from tidemark.controller.api.schemas.rollouts import Approved, GateSaid, Promise, Proof, RolloutAnswer
from tidemark.controller.db.tables import RolloutRow, StreamRow
from tidemark.controller.rollout.store import envelope_of, gate_answers_of
from tidemark.models.rollout.machine import allowed
from tidemark.models.rollout.states import State


def rollout_answer(row: RolloutRow, stream: StreamRow) -> RolloutAnswer:
    """Return a rollout as an API answer."""
    return RolloutAnswer.of(
        row,
        job=stream.job,
        stream=stream.stream,
        from_envelope=envelope_of(row.from_envelope),
        to_envelope=envelope_of(row.to_envelope),
        newest_report=row.report_id or None,
        predicted=Promise.of(
            row, latency_wall_ms=None if row.latency_wall_us is None else round(row.latency_wall_us / 1_000)
        ),
        judged=Proof.of(
            row, rows=row.judged_rows, late_min=row.judged_late_min, late_max=row.judged_late_max
        ),
        approved=_approved(row),
        gate_answers=[GateSaid.of(answer) for answer in gate_answers_of(row.gate_answers)],
        may=list(allowed(cast("State", row.state), vetoed=row.vetoed)),
    )


def _approved(row: RolloutRow) -> Approved | None:
    if row.approved_us is None:
        return None
    return Approved(at_us=row.approved_us, by=row.approved_by, reason=row.approval_reason or "")
