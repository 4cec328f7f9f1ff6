"""API answers from stored rollouts and events."""

from __future__ import annotations

from typing import cast

from tidemark.controller.api import schemas
from tidemark.controller.db.tables import RolloutRow, StreamRow
from tidemark.controller.rollout.store import envelope_of
from tidemark.models.rollout.facts import Cause, Gate
from tidemark.models.rollout.machine import allowed
from tidemark.models.rollout.states import State
from tidemark.models.slo import Direction
from tidemark.models.wire import Mode


def rollout_answer(row: RolloutRow, stream: StreamRow) -> schemas.RolloutAnswer:
    """Return a rollout as an API answer."""
    state = cast("State", row.state)
    return schemas.RolloutAnswer(
        id=row.id,
        job=stream.job,
        stream=stream.stream,
        state=state,
        reason=row.reason,
        held_by=cast("Gate | None", row.held_by),
        cause=cast("Cause", row.cause),
        direction=cast("Direction", row.direction),
        first=row.first,
        mode=cast("Mode", row.mode),
        from_bound_ms=row.from_bound_ms,
        to_bound_ms=row.to_bound_ms,
        from_envelope=envelope_of(row.from_envelope),
        to_envelope=envelope_of(row.to_envelope),
        in_use_bound_ms=row.in_use_bound_ms,
        generation=row.generation,
        newest_report=row.report_id or None,
        predicted=schemas.Promise(
            rows=row.rows,
            late=row.late,
            min_ppm=row.min_ppm,
            max_ppm=row.max_ppm,
            latency_wall_ms=None if row.latency_wall_us is None else round(row.latency_wall_us / 1_000),
            state_rows=row.state_rows,
        ),
        judged=schemas.Proof(
            rows=row.judged_rows,
            at_risk_rows=row.at_risk_rows,
            needed_rows=row.needed_rows,
            event_ms=row.event_ms,
            needed_event_ms=row.needed_event_ms,
            late_min=row.judged_late_min,
            late_max=row.judged_late_max,
        ),
        approved=_approved(row),
        created_us=row.created_us,
        changed_us=row.changed_us,
        published_us=row.published_us,
        acknowledged_us=row.acknowledged_us,
        effective_us=row.effective_us,
        ended_us=row.ended_us,
        may=list(allowed(state)),
    )


def _approved(row: RolloutRow) -> schemas.Approved | None:
    if row.approved_us is None:
        return None
    return schemas.Approved(at_us=row.approved_us, by=row.approved_by, reason=row.approval_reason or "")
