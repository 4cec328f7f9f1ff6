"""What is published to jobs, generation by generation.

A new generation is written exactly when the mode, the bound, the envelope or the pin changes, so that a generation
always names the same answer.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, cast

from sqlalchemy import ScalarSelect, bindparam, func, select
from sqlalchemy.orm import Session, aliased

from tidemark.controller.bounds.chains import late_in
from tidemark.controller.db.locked_reads import read_again, read_once
from tidemark.controller.db.tables import AcknowledgementRow, PublishedRow, ReportRow, StreamRow
from tidemark.controller.reports.store import newest_report
from tidemark.controller.specs.pins import StoredPin
from tidemark.controller.streams.store import add_event
from tidemark.models.base.duration import format_duration
from tidemark.models.base.read_json import read_object
from tidemark.models.protocol.downstream import Downstream
from tidemark.models.protocol.late_policy import REVISED
from tidemark.models.protocol.messages import Envelope, Mode, Pin
from tidemark.models.specs.slo import Policy, Slo

NO_REPORT = "no report yet: the job keeps its own bound"
"""Reason of the answer for an unknown stream."""

OFF = "the stream's mode is Off: Tidemark only watches and the job keeps its own bound"
"""Reason of the answer in mode Off."""

_PUBLISHED = "published"
"""Key of a session's information: present once a generation was published in it."""

MAX_GENERATION = 2**52
"""No store counts this far: a higher generation is a mistake of whoever names it, and jobs could not take the next."""

_NEWEST, _NEWEST_UNPINNED = "published", "published without a pin"
"""Names of what is read once of a locked stream."""


@dataclass(frozen=True, slots=True)
class PublishedAnswer:
    """What is published to a job, and why."""

    mode: Mode
    """The stream's mode."""
    bound_ms: int | None
    """The bound in milliseconds; None: the job keeps its own."""
    reason: str
    """Why, in one sentence."""
    envelope: Envelope | None = None
    """In Live: what the fast policy has to do; None in every other mode."""
    pin: Pin | None = None
    """What a pin holds the job to; None without one."""


@dataclass(frozen=True, slots=True)
class Carried:
    """Where what is published comes from; publishing the same again does not change it."""

    rollout_id: int | None = None
    """The rollout whose bound (or envelope) it is; None for none."""
    rolled_back_id: int | None = None
    """The rollout whose rollback published it; None for none."""


_NOTHING_YET = PublishedAnswer("Off", None, NO_REPORT)
"""The answer before the first generation."""


def answer_for(
    policy: Policy, bound_ms: int | None, reason: str, envelope: Envelope | None = None
) -> PublishedAnswer:
    """Return what is published to a job without a pin.

    Args:
        policy: the stream's policy; the bound is moved into its limits.
        bound_ms: the bound in milliseconds; None when there is none, and the job keeps its own.
        reason: why this bound, or why none.
        envelope: in Live, what the fast policy has to do; None in every other mode.
    """
    if policy.mode == "Off":
        return PublishedAnswer("Off", None, OFF)
    if bound_ms is None:
        return PublishedAnswer(policy.mode, None, reason, envelope)
    limited_ms = within_limits(policy, bound_ms)
    if limited_ms != bound_ms:
        reason = f"limited to {format_duration(limited_ms * 1_000)} by the policy: {reason}"
    return PublishedAnswer(policy.mode, limited_ms, reason, envelope)


def envelope_for(policy: Policy, slo: Slo | None, downstream: Downstream | None = None) -> Envelope | None:
    """Return what the policy and the SLO ask of a live job's fast policy; None in every other mode.

    Args:
        policy: the stream's policy.
        slo: its SLO; None without one.
        downstream: what its bound decides behind its own operator; None when nothing.
    """
    if policy.mode != "Live":
        return None
    # The fast policy treats its cap as a hard limit, so a cap that may be exceeded is not passed on.
    capped = slo is not None and slo.on_conflict != "exceed_latency_cap"
    cap_ms = slo.latency_cap_ms if slo is not None and capped else None
    if cap_ms is not None and downstream is not None:
        # Behind a join windows wait for its retention as well.
        cap_ms = max(cap_ms - (downstream.retention_ms or 0), 0)
    return Envelope(
        target_ppm=None if slo is None else slo.target_ppm,
        latency_cap_ms=cap_ms,
        # 0 is the default and no limit: a live watermark may run ahead of the maximum event time.
        min_bound_ms=policy.min_bound_ms or None,
        max_bound_ms=policy.max_bound_ms,
    )


def pinned_answer(
    policy: Policy, pin: StoredPin, ceiling_ms: int | None, envelope: Envelope | None = None
) -> PublishedAnswer:
    """Return what is published to a job under a pin, which overrides everything else.

    Args:
        policy: the stream's policy.
        pin: the pin in force.
        ceiling_ms: the ceiling that the job last acknowledged, in milliseconds; None when it has none.
        envelope: in Live, what the fast policy has to do; None in every other mode.
    """
    bound_ms, effect = _pinned_bound(policy.mode, pin.to, ceiling_ms)
    return PublishedAnswer(
        policy.mode, bound_ms, f"pinned to {pin.to} ({pin.why}): {effect}", envelope, pin.to
    )


def _pinned_bound(mode: Mode, to: Pin, ceiling_ms: int | None) -> tuple[int | None, str]:
    """Return the bound under a pin, and what the job does with it."""
    if mode == "Off":
        return None, "the stream's mode is Off and the job keeps its own bound"
    if to == "Off":
        return None, "the job keeps its own bound"
    if ceiling_ms is None:
        return None, "the job has acknowledged no ceiling and keeps its own bound"
    ceiling = format_duration(ceiling_ms * 1_000)
    if mode == "Live":
        return ceiling_ms, f"live control stops and only the ceiling, {ceiling}, applies"
    return ceiling_ms, f"the bound is the job's ceiling, {ceiling}"


def within_limits(policy: Policy, bound_ms: int) -> int:
    """Return the bound, in milliseconds, within the policy's limits."""
    limited = max(bound_ms, policy.min_bound_ms)
    return limited if policy.max_bound_ms is None else min(limited, policy.max_bound_ms)


def last_published(session: Session, stream_id: int, *, pinned: bool = True) -> PublishedRow | None:
    """Return the newest published row; None when nothing was ever published: generation 0, mode Off.

    Args:
        session: the session.
        stream_id: the stream.
        pinned: whether rows published under a pin count.
    """
    statement, what = (_LAST, _NEWEST) if pinned else (_LAST_UNPINNED, _NEWEST_UNPINNED)
    return read_once(
        session, stream_id, what, lambda: session.scalars(statement, {"stream": stream_id}).one_or_none()
    )


# Built once: building one takes longer than running it.
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
    return PublishedAnswer(
        cast("Mode", row.mode),
        row.bound_ms,
        row.reason,
        None if row.envelope is None else read_object(Envelope, json.loads(row.envelope)),
        cast("Pin | None", row.pin),
    )


def carried_before(
    session: Session, stream_id: int, answer: PublishedAnswer, before: int | None = None
) -> Carried:
    """Return what the newest publication of the same bound and envelope carries, pins aside.

    Args:
        session: the session.
        stream_id: the stream.
        answer: what is to be published again.
        before: only what was published before this generation; None: whatever was.
    """
    newest = last_published(session, stream_id, pinned=False)
    if newest is None:
        return Carried()
    if before is None and _same_bound(newest, answer):
        return Carried(newest.rollout_id, newest.rolled_back_id)
    if answer.bound_ms is None:
        # The job's own bound is nobody's: it comes back whenever there is no other.
        return Carried()
    earlier = {"stream": stream_id, "before": newest.generation if before is None else before}
    found = next((row for row in session.scalars(_EARLIER, earlier) if _same_bound(row, answer)), None)
    return Carried() if found is None else Carried(found.rollout_id, found.rolled_back_id)


def _same_bound(row: PublishedRow, answer: PublishedAnswer) -> bool:
    held = answer_of(row)
    return held.mode != "Off" and (held.bound_ms, held.envelope) == (answer.bound_ms, answer.envelope)


def publish(
    session: Session,
    stream_id: int,
    answer: PublishedAnswer,
    now_us: int,
    *,
    carried: Carried | None = None,
) -> int:
    """Publish ``answer`` unless it is published already; return its generation. The stream must be locked.

    A store that was restored from a backup gives no generation out again that a job shows to have: the next one is
    higher, and what is published is published again under it when the job took another bound under its generation.

    Args:
        session: the session.
        stream_id: the stream.
        answer: what to publish.
        now_us: when, in microseconds.
        carried: what it carries; None for nothing, or for what the same answer carries already.
    """
    row = last_published(session, stream_id)
    before = _NOTHING_YET if row is None else answer_of(row)
    generation = row.generation if row else 0
    again = None
    if _same(before, answer):
        again = None if row is None else _taken_elsewhere(session, row)
        if row is not None:
            carried = carried or Carried(row.rollout_id, row.rolled_back_id)
            row.rollout_id, row.rolled_back_id = carried.rollout_id, carried.rolled_back_id
        if again is None:
            return generation
    carried = carried or Carried()
    generation = 1 + max(generation, _highest_shown(session, stream_id))
    session.add(
        PublishedRow(
            stream_id=stream_id,
            generation=generation,
            mode=answer.mode,
            bound_ms=answer.bound_ms,
            reason=answer.reason,
            published_us=now_us,
            envelope=None if answer.envelope is None else json.dumps(asdict(answer.envelope)),
            pin=answer.pin,
            rollout_id=carried.rollout_id,
            rolled_back_id=carried.rolled_back_id,
        )
    )
    add_event(
        session,
        stream_id,
        now_us,
        kind="BoundPublished",
        reason=answer.reason if again is None else f"{again} (was it restored from a backup?)",
        before=json.dumps(_content(before)),
        after=json.dumps(_content(answer)),
    )
    session.info[_PUBLISHED] = True
    read_again(session, stream_id, _NEWEST, _NEWEST_UNPINNED)
    return generation


def _taken_elsewhere(session: Session, published: PublishedRow) -> str | None:
    """Return what the newest batch ran with if this store never gave that out under its generation; None if it did."""
    ran = newest_report(session, published.stream_id)
    if ran is None or ran.generation is None or not published.generation <= ran.generation <= MAX_GENERATION:
        return None
    # In Live the bound of a plan is the job's ceiling, and each answer is applied whatever its generation is. With
    # revise(...) a batch runs with at most the delay in the plan, whatever was published.
    revised = late_in(session.get_one(StreamRow, published.stream_id).late) == REVISED
    compared = published.mode != "Live" and published.pin is None and not revised
    if ran.generation == published.generation and (not compared or ran.bound_ms == published.bound_ms):
        return None
    took = format_duration(ran.bound_ms * 1_000)
    return f"published again: the job runs with generation {ran.generation}, {took}, which this store never gave out"


def _highest_shown(session: Session, stream_id: int) -> int:
    """Return the highest generation that a report or an acknowledgement of the stream names; 0 without any."""
    return max(
        session.scalars(each, {"stream": stream_id, "most": MAX_GENERATION}).one() or 0
        for each in (_HIGHEST_REPORTED, _HIGHEST_ACKNOWLEDGED)
    )


# Built once: building them takes longer than running them.
_HIGHEST_REPORTED = select(func.max(ReportRow.generation)).where(
    ReportRow.stream_id == bindparam("stream"), ReportRow.generation <= bindparam("most")
)
_HIGHEST_ACKNOWLEDGED = select(func.max(AcknowledgementRow.generation)).where(
    AcknowledgementRow.stream_id == bindparam("stream"), AcknowledgementRow.generation <= bindparam("most")
)


def has_published(session: Session) -> bool:
    """Return whether a generation was published in this session."""
    return _PUBLISHED in session.info


def _same(before: PublishedAnswer, after: PublishedAnswer) -> bool:
    # Reasons change with every report and do not count. A pin's reason does: it says whose pin it is.
    return _content(before) == _content(after) and (after.pin is None or before.reason == after.reason)


def _content(answer: PublishedAnswer) -> dict[str, Any]:
    found = asdict(answer)
    del found["reason"]
    return found
