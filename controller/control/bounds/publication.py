"""What is published to jobs, generation by generation.

A new generation is written exactly when the mode, the bound, the envelope or the pin changes, so that a generation
always names the same answer.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any

from sqlalchemy import ScalarSelect, bindparam, func, select
from sqlalchemy.orm import Session, aliased

from tidemark.controller.base.answer import made_of
from tidemark.controller.base.db.tables import (
    AcknowledgementRow,
    PublishedRow,
    ReportRow,
    RolloutRow,
    StreamRow,
)
from tidemark.controller.reports.store import newest_report
from tidemark.controller.specs.streams import add_event, lock_by_id
from tidemark.models.base.duration import format_duration
from tidemark.models.protocol.downstream import Downstream
from tidemark.models.protocol.late_policy import REVISED
from tidemark.models.protocol.messages import PublishedAnswer
from tidemark.models.rollout.states import OPEN
from tidemark.models.specs.slo import Policy

NO_REPORT = "no report yet: the job keeps its own bound"
"""Reason of the answer for an unknown stream."""

OFF = "the stream's mode is Off: Tidemark only watches and the job keeps its own bound"
"""Reason of the answer in mode Off."""

MAX_GENERATION = 2**52
"""No store counts this far: a higher generation is a mistake of whoever names it, and jobs could not take the next."""


@dataclass(frozen=True, slots=True)
class Carried:
    """Where what is published comes from; publishing the same again does not change it."""

    rollout_id: int | None = None
    """The rollout whose bound (or envelope) it is; None for none."""
    rolled_back_id: int | None = None
    """The rollout whose rollback published it; None for none."""


_NOTHING_YET = PublishedAnswer("Off", None, NO_REPORT)
"""The answer before the first generation."""


def last_published(session: Session, stream_id: int, *, pinned: bool = True) -> PublishedRow | None:
    """Return the newest published row; None when nothing was ever published: generation 0, mode Off.

    Args:
        pinned: whether rows published under a pin count.
    """
    return session.scalars(_LAST if pinned else _LAST_UNPINNED, {"stream": stream_id}).one_or_none()


def newest_rollout(session: Session, stream_id: int) -> RolloutRow | None:
    """Return the stream's newest rollout; None without any."""
    return session.scalars(_NEWEST_ROLLOUT, {"stream": stream_id}).one_or_none()


# Built once: building one takes longer than running it.
_NEWEST_ROLLOUT = (
    select(RolloutRow)
    .where(RolloutRow.stream_id == bindparam("stream"))
    .order_by(RolloutRow.id.desc())
    .limit(1)
)
_LAST = (
    select(PublishedRow)
    .where(PublishedRow.stream_id == bindparam("stream"))
    .order_by(PublishedRow.generation.desc())
    .limit(1)
)
_LAST_UNPINNED = _LAST.where(PublishedRow.pin.is_(None))
_EARLIER = (
    select(PublishedRow)
    .where(
        PublishedRow.stream_id == bindparam("stream"),
        PublishedRow.generation < bindparam("before"),
        PublishedRow.pin.is_(None),
    )
    .order_by(PublishedRow.generation.desc())
)


def newest_generation_query(*, pinned: bool = True) -> ScalarSelect[int | None]:
    """Return the query for the generation published last, as a part of a statement on ``StreamRow``.

    Args:
        pinned: whether what was published under a pin counts.
    """
    row = aliased(PublishedRow)
    wanted = select(func.max(row.generation)).where(row.stream_id == StreamRow.id)
    if not pinned:
        wanted = wanted.where(row.pin.is_(None))
    return wanted.correlate(StreamRow).scalar_subquery()


def list_published(
    session: Session, stream_id: int, before: int | None, limit: int
) -> Sequence[PublishedRow]:
    """Return up to ``limit`` generations below ``before``, the newest first."""
    query = select(PublishedRow).where(PublishedRow.stream_id == stream_id)
    if before is not None:
        query = query.where(PublishedRow.generation < before)
    return session.scalars(query.order_by(PublishedRow.generation.desc()).limit(limit)).all()


def answer_of(row: PublishedRow) -> PublishedAnswer:
    """Return a published row as an answer."""
    return made_of(PublishedAnswer, row)


class SteeredStream:
    """A stream in one transaction, with what is published to it and rolled out; each is read once.

    A decision asks for them in several of its steps, and a statement costs more than what is done with its answer.

    Args:
        locked: whether the transaction has locked the stream and may write; else it reads one snapshot.
    """

    def __init__(self, session: Session, row: StreamRow, now_us: int, *, locked: bool) -> None:
        self.session, self.row, self.now_us, self.locked = session, row, now_us, locked
        self.id = row.id
        self.has_published = False
        """Whether a generation was published in this transaction."""

    @classmethod
    def lock(cls, session: Session, stream_id: int, now_us: int) -> SteeredStream | None:
        """Lock a stream and return it; None when it was deleted meanwhile."""
        row = lock_by_id(session, stream_id)
        return None if row is None else cls(session, row, now_us, locked=True)

    @property
    def downstream(self) -> Downstream | None:
        """What its bound decides behind its own operator; None when nothing, or when that is not known."""
        return self.row.downstream

    def policy_in_force(self, policy: Policy) -> Policy:
        """Return the policy under which nothing is published that the stream's query may not survive.

        Where a narrower bound may end it, the bound in use is the minimum, whatever the policy says.
        """
        if self.downstream is None or not self.downstream.unsafe or self.newest is None:
            return policy
        used_ms, max_ms = self.newest.bound_ms, policy.max_bound_ms
        return replace(
            policy,
            min_bound_ms=max(policy.min_bound_ms, used_ms),
            max_bound_ms=None if max_ms is None else max(max_ms, used_ms),
            # The job's own bound may be narrower.
            on_no_data="hold" if policy.on_no_data == "own" else policy.on_no_data,
        )

    @cached_property
    def newest(self) -> ReportRow | None:
        """The report of its newest batch."""
        return newest_report(self.session, self.id)

    @cached_property
    def published(self) -> PublishedRow | None:
        """What is published to its job."""
        return last_published(self.session, self.id)

    @cached_property
    def unpinned(self) -> PublishedRow | None:
        """What was published last without a pin."""
        if self.published is None or self.published.pin is None:
            return self.published
        return last_published(self.session, self.id, pinned=False)

    @cached_property
    def newest_rollout(self) -> RolloutRow | None:
        """Its newest rollout."""
        return newest_rollout(self.session, self.id)

    @property
    def open_rollout(self) -> RolloutRow | None:
        """Its rollout that is open. There is never more than one."""
        newest = self.newest_rollout
        return newest if newest is not None and newest.state in OPEN else None


def read_carried(stream: SteeredStream, answer: PublishedAnswer, before: int | None = None) -> Carried:
    """Return what the newest publication of the same bound and envelope carries, pins aside.

    Args:
        before: only what was published before this generation; None: whatever was.
    """
    newest = stream.unpinned
    if newest is None:
        return Carried()
    if before is None and _same_bound(newest, answer):
        return Carried(newest.rollout_id, newest.rolled_back_id)
    if answer.bound_ms is None:
        # The job's own bound is nobody's: it comes back whenever there is no other.
        return Carried()
    earlier = {"stream": stream.id, "before": newest.generation if before is None else before}
    same = next((row for row in stream.session.scalars(_EARLIER, earlier) if _same_bound(row, answer)), None)
    return Carried() if same is None else Carried(same.rollout_id, same.rolled_back_id)


def _same_bound(row: PublishedRow, answer: PublishedAnswer) -> bool:
    then = answer_of(row)
    return then.mode != "Off" and (then.bound_ms, then.envelope) == (answer.bound_ms, answer.envelope)


def publish(stream: SteeredStream, answer: PublishedAnswer, *, carried: Carried | None = None) -> int:
    """Publish ``answer`` to a locked stream unless it is published already; return its generation.

    A store that was restored from a backup gives no generation out again that a job shows to have: the next one is
    higher, and what is published is published again under it when the job took another bound under its generation.

    Args:
        carried: what it carries; None for nothing, or for what the same answer carries already.
    """
    row = stream.published
    before = _NOTHING_YET if row is None else answer_of(row)
    generation = row.generation if row else 0
    again = None
    if _same(before, answer):
        again = None if row is None else _taken_elsewhere(stream, row)
        if row is not None:
            carried = carried or Carried(row.rollout_id, row.rolled_back_id)
            row.rollout_id, row.rolled_back_id = carried.rollout_id, carried.rolled_back_id
        if again is None:
            return generation
    carried = carried or Carried()
    generation = 1 + max(generation, _highest_shown(stream.session, stream.id))
    stream.published = PublishedRow(
        stream_id=stream.id,
        generation=generation,
        mode=answer.mode,
        bound_ms=answer.bound_ms,
        reason=answer.reason,
        published_us=stream.now_us,
        envelope=answer.envelope,
        pin=answer.pin,
        rollout_id=carried.rollout_id,
        rolled_back_id=carried.rolled_back_id,
    )
    stream.session.add(stream.published)
    stream.has_published = True
    if answer.pin is None:
        stream.unpinned = stream.published
    add_event(
        stream.session,
        stream.id,
        stream.now_us,
        kind="BoundPublished",
        reason=answer.reason if again is None else f"{again} (was it restored from a backup?)",
        before=json.dumps(_content(before)),
        after=json.dumps(_content(answer)),
    )
    return generation


def _taken_elsewhere(stream: SteeredStream, published: PublishedRow) -> str | None:
    """Return what the newest batch ran with if this store never gave that out under its generation; None if it did."""
    ran = stream.newest
    if ran is None or ran.generation is None or not published.generation <= ran.generation <= MAX_GENERATION:
        return None
    # In Live the bound of a plan is the job's ceiling, and each answer is applied whatever its generation is. With
    # revise(...) a batch runs with at most the delay in the plan, whatever was published.
    revised = stream.row.late == REVISED
    compared = published.mode != "Live" and published.pin is None and not revised
    if ran.generation == published.generation and (not compared or ran.bound_ms == published.bound_ms):
        return None
    took = format_duration(ran.bound_ms * 1_000)
    return f"published again: the job runs with generation {ran.generation}, {took}, which this store never gave out"


def _highest_shown(session: Session, stream_id: int) -> int:
    """Return the highest generation that a report or an acknowledgement of the stream names; 0 without any."""
    return max(
        session.scalars(query, {"stream": stream_id, "most": MAX_GENERATION}).one() or 0
        for query in (_HIGHEST_REPORTED, _HIGHEST_ACKNOWLEDGED)
    )


# Built once: building them takes longer than running them.
_HIGHEST_REPORTED = select(func.max(ReportRow.generation)).where(
    ReportRow.stream_id == bindparam("stream"), ReportRow.generation <= bindparam("most")
)
_HIGHEST_ACKNOWLEDGED = select(func.max(AcknowledgementRow.generation)).where(
    AcknowledgementRow.stream_id == bindparam("stream"), AcknowledgementRow.generation <= bindparam("most")
)


def _same(before: PublishedAnswer, after: PublishedAnswer) -> bool:
    # Reasons change with every report and do not count. A pin's reason does: it says whose pin it is.
    return _content(before) == _content(after) and (after.pin is None or before.reason == after.reason)


def _content(answer: PublishedAnswer) -> dict[str, Any]:
    content = asdict(answer)
    del content["reason"]
    return content
