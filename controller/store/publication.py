"""What a job that asks for its bound is told, generation by generation.

A new generation is written exactly when the mode or the bound changes, so a generation names one answer for good.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from sqlalchemy import select
from sqlalchemy.orm import Session

from tidemark.controller.store.streams import add_event
from tidemark.controller.store.tables import PublishedRow
from tidemark.models.slo import Policy
from tidemark.models.wire import Mode

__all__ = ["NO_REPORT", "OFF", "Answer", "answer_for", "last_published", "publish"]

NO_REPORT = "no report yet: the job keeps its own bound"
"""Reason of the answer for a stream that nothing is known of."""

OFF = "the stream's mode is Off: Tidemark only watches and the job keeps its own bound"
"""Reason of the answer in mode Off."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A mode, a bound and why."""

    mode: Mode
    """The stream's mode."""
    bound_ms: int | None
    """The bound in milliseconds; None: the job keeps its own."""
    reason: str
    """Why, in one sentence."""


def answer_for(policy: Policy, recommended_ms: int | None, reason: str, held: Answer | None) -> Answer:
    """Return what a job is to be told.

    Args:
        policy: the stream's policy; its limits hold whatever is recommended.
        recommended_ms: the recommended bound in milliseconds; None: keep the one in use.
        reason: why.
        held: what jobs were told last; its bound stays where there is nothing new to say.
    """
    if policy.mode == "Off":
        return Answer("Off", None, OFF)
    if recommended_ms is not None:
        return Answer(policy.mode, _within(policy, recommended_ms), reason)
    if held is not None and held.mode == policy.mode and held.bound_ms is not None:
        return Answer(policy.mode, _within(policy, held.bound_ms), f"the bound is held: {reason}")
    return Answer(policy.mode, None, f"there is no bound to give yet: {reason}")


def _within(policy: Policy, bound_ms: int) -> int:
    limited = max(bound_ms, policy.least_bound_ms)
    return limited if policy.greatest_bound_ms is None else min(limited, policy.greatest_bound_ms)


def last_published(session: Session, stream_id: int) -> PublishedRow | None:
    """Return what was published last, None when nothing ever was: generation 0, mode Off."""
    return session.scalars(
        select(PublishedRow)
        .where(PublishedRow.stream_id == stream_id)
        .order_by(PublishedRow.generation.desc())
        .limit(1)
    ).one_or_none()


def publish(session: Session, stream_id: int, answer: Answer, now_us: int) -> int:
    """Make ``answer`` what jobs are told from now on and return its generation; the stream must be locked."""
    before = last_published(session, stream_id)
    told = ("Off", None) if before is None else (before.mode, before.bound_ms)
    generation = before.generation if before else 0
    if told == (answer.mode, answer.bound_ms):
        return generation
    session.add(
        PublishedRow(
            stream_id=stream_id,
            generation=generation + 1,
            mode=answer.mode,
            bound_ms=answer.bound_ms,
            reason=answer.reason,
            published_us=now_us,
        )
    )
    after = answer.mode, answer.bound_ms
    add_event(
        session,
        stream_id,
        now_us,
        kind="BoundPublished",
        reason=answer.reason,
        before=json.dumps(told),
        after=json.dumps(after),
    )
    return generation + 1
