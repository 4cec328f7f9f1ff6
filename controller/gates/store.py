"""Which outside gates are to be asked, and what they answered, in the store."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

from sqlalchemy import and_, or_, select
from sqlalchemy.orm import Session

from tidemark.controller.db.tables import RolloutRow, StreamRow
from tidemark.controller.gates.ask import GateQuestion, Reply
from tidemark.controller.rollout.store import gate_answers_json, gate_answers_of, model_of
from tidemark.controller.rollout.views import rollout_answer
from tidemark.controller.specs.store import get_policy
from tidemark.controller.streams.store import EventBasis, add_event, lock_by_id
from tidemark.models.rollout.gate import answered, due, phase_of

_WHEN = {"publish": "before it is published", "verify": "while it is verified"}


@dataclass(frozen=True, slots=True)
class OpenQuestion:
    """A question to a gate about a rollout."""

    stream_id: int
    """The stream."""
    rollout_id: int
    """The rollout."""
    bound_ms: int
    """The bound that it publishes, in milliseconds."""
    question: GateQuestion
    """The question."""


def open_questions(session: Session, now_us: int) -> Iterator[OpenQuestion]:
    """Return the questions that are to be asked now, of all streams."""
    for row, stream in session.execute(_OPEN):
        rollout = model_of(row)
        gates = get_policy(session, row.stream_id).value.gates
        asked = due(gates, gate_answers_of(row.gate_answers), rollout, now_us)
        phase = phase_of(rollout.state)
        if not asked or phase is None or rollout.to_bound_ms is None:
            continue
        shown = rollout_answer(row, stream).model_dump(mode="json")
        for gate in asked:
            yield OpenQuestion(row.stream_id, row.id, rollout.to_bound_ms, GateQuestion(gate, phase, shown))


# A candidate is held by an outside gate once nothing else holds it. Under a pin nobody is asked.
_OPEN = (
    select(RolloutRow, StreamRow)
    .join(StreamRow, StreamRow.id == RolloutRow.stream_id)
    .where(
        StreamRow.deleted_us.is_(None),
        RolloutRow.state.in_(("Recommended", "Effective")),
        or_(
            and_(RolloutRow.state == "Recommended", RolloutRow.held_by == "Outside"),
            and_(
                RolloutRow.state == "Effective",
                or_(RolloutRow.held_by.is_(None), RolloutRow.held_by == "Outside"),
            ),
        ),
    )
    .order_by(RolloutRow.id)
)


def keep_reply(session: Session, asked: OpenQuestion, reply: Reply, now_us: int) -> bool:
    """Store what a gate answered; return False when the rollout is past the question by now.

    A changed answer is an event of the stream.
    """
    question = asked.question
    if lock_by_id(session, asked.stream_id) is None:
        return False
    row = session.get(RolloutRow, asked.rollout_id, populate_existing=True)
    if row is None or phase_of(model_of(row).state) != question.phase:
        return False
    known = {answer.gate: answer for answer in gate_answers_of(row.gate_answers)}
    before = known.get(question.gate)
    known[question.gate] = after = answered(
        before,
        gate=question.gate,
        phase=question.phase,
        bound_ms=asked.bound_ms,
        verdict=reply.verdict,
        said=reply.said,
        at_us=now_us,
    )
    row.gate_answers = gate_answers_json(known.values())
    if before is None or (before.phase, before.verdict) != (after.phase, after.verdict):
        answer = "gives no answer" if after.verdict == "unknown" else f"says {after.verdict}"
        add_event(
            session,
            asked.stream_id,
            now_us,
            kind="GateAnswered",
            reason=f"the outside gate {after.gate} {answer} {_WHEN[after.phase]}: {after.said}",
            after=json.dumps(
                {
                    "rollout": row.id,
                    "gate": after.gate,
                    "verdict": after.verdict,
                    "to_bound_ms": after.bound_ms,
                }
            ),
            reason_class=f"{after.phase} {after.verdict}",
            evidence=EventBasis(rollout_id=row.id),
        )
    return True
