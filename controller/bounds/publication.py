"""What a job that asks for its bound is told, generation by generation.

A new generation is written exactly when the mode, the bound, the envelope or the pin changes, so a generation names one
answer for good.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, cast

from sqlalchemy import ScalarSelect, func, select, tuple_
from sqlalchemy.orm import Session, aliased

from tidemark.controller.db.database import ANSWERS_CHANGED
from tidemark.controller.db.tables import PublishedRow, StreamRow
from tidemark.controller.pins.store import pins_in_force
from tidemark.controller.streams.store import add_event
from tidemark.models.duration import format_duration
from tidemark.models.slo import Policy, Slo
from tidemark.models.wire import Envelope, Mode, Pin

__all__ = [
    "NO_REPORT",
    "OFF",
    "Answer",
    "Hold",
    "PublicationCause",
    "answer_for",
    "answer_of",
    "envelope_for",
    "last_published",
    "list_published",
    "newest_generation_query",
    "publish",
    "version_of",
    "versions",
    "within_limits",
]

NO_REPORT = "no report yet: the job keeps its own bound"
"""Reason of the answer for a stream that nothing is known of."""

OFF = "the stream's mode is Off: Tidemark only watches and the job keeps its own bound"
"""Reason of the answer in mode Off."""

PublicationCause = Literal["Request", "Rollout", "Rollback"]
"""Whose doing a publication is, when it is no pin's."""

UNREPORTED = "unreported"
"""Version of the answer for a stream that has not reported; generation 0 says something else once it has."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a job is told, and why."""

    mode: Mode
    """The stream's mode."""
    bound_ms: int | None
    """The bound in milliseconds; None: the job keeps its own."""
    reason: str
    """Why, in one sentence."""
    envelope: Envelope | None = None
    """In Live: what the fast policy is to do; None in every other mode."""
    pin: Pin | None = None
    """What a kill switch holds the job to; None for none."""


@dataclass(frozen=True, slots=True)
class Hold:
    """A pin, as far as an answer depends on it."""

    to: Pin
    """What the job is held to."""
    why: str
    """Whose pin it is and why it was set."""
    ceiling_ms: int | None
    """The ceiling that the job last acknowledged, in milliseconds; None when it has none."""


NOTHING_YET = Answer("Off", None, NO_REPORT)
"""What is told before the first generation."""


def answer_for(
    policy: Policy,
    bound_ms: int | None,
    reason: str,
    envelope: Envelope | None = None,
    *,
    hold: Hold | None = None,
) -> Answer:
    """Return what is published to a job.

    Args:
        policy: the stream's policy; its limits hold whatever the bound.
        bound_ms: the bound in milliseconds; None when there is none, and the job keeps its own.
        reason: why this bound, or why none.
        envelope: in Live, what the fast policy is to do; None in every other mode.
        hold: the pin in force, which goes before all else; None for none.
    """
    if hold is not None:
        pinned_ms, found = _pinned(policy.mode, hold)
        return Answer(policy.mode, pinned_ms, f"pinned to {hold.to} ({hold.why}): {found}", envelope, hold.to)
    if policy.mode == "Off":
        return Answer("Off", None, OFF)
    if bound_ms is None:
        return Answer(policy.mode, None, reason, envelope)
    limited_ms = within_limits(policy, bound_ms)
    if limited_ms != bound_ms:
        reason = f"the policy's limits make {format_duration(limited_ms * 1_000)} of it: {reason}"
    return Answer(policy.mode, limited_ms, reason, envelope)


def envelope_for(policy: Policy, slo: Slo | None) -> Envelope | None:
    """Return what a live job's fast policy is to do by the policy and the SLO; None in every other mode."""
    if policy.mode != "Live":
        return None
    # A cap that yields is no limit of the fast policy, which knows only caps that completeness yields to.
    capped = slo is not None and slo.on_conflict != "exceed_latency_cap"
    return Envelope(
        target_ppm=None if slo is None else slo.target_ppm,
        latency_cap_ms=slo.latency_cap_ms if slo is not None and capped else None,
        # 0 is the default and no limit: a live watermark may run ahead of the greatest event time.
        min_bound_ms=policy.min_bound_ms or None,
        max_bound_ms=policy.max_bound_ms,
    )


def _pinned(mode: Mode, hold: Hold) -> tuple[int | None, str]:
    """Return the bound under a pin, and what the job does with it."""
    if mode == "Off":
        return None, "the stream's mode is Off and the job keeps its own bound"
    if hold.to == "Off":
        return None, "the job keeps its own bound"
    if hold.ceiling_ms is None:
        return None, "the job has acknowledged no ceiling and keeps its own bound"
    ceiling = format_duration(hold.ceiling_ms * 1_000)
    if mode == "Live":
        return hold.ceiling_ms, f"live control stands still and the ceiling alone, {ceiling}, holds"
    return hold.ceiling_ms, f"the bound is the job's ceiling, {ceiling}"


def within_limits(policy: Policy, bound_ms: int) -> int:
    """Return the bound, in milliseconds, within the policy's limits."""
    limited = max(bound_ms, policy.min_bound_ms)
    return limited if policy.max_bound_ms is None else min(limited, policy.max_bound_ms)


def last_published(session: Session, stream_id: int, *, pinned: bool = True) -> PublishedRow | None:
    """Return what was published last, None when nothing ever was: generation 0, mode Off.

    Args:
        session: the session.
        stream_id: the stream.
        pinned: whether what was published under a pin counts.
    """
    wanted = select(PublishedRow).where(PublishedRow.stream_id == stream_id)
    if not pinned:
        wanted = wanted.where(PublishedRow.pin.is_(None))
    return session.scalars(wanted.order_by(PublishedRow.generation.desc()).limit(1)).one_or_none()


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
    """Return up to ``limit`` generations, the newest first, those below generation ``before``."""
    wanted = select(PublishedRow).where(PublishedRow.stream_id == stream_id)
    if before is not None:
        wanted = wanted.where(PublishedRow.generation < before)
    return session.scalars(wanted.order_by(PublishedRow.generation.desc()).limit(limit)).all()


def answer_of(row: PublishedRow) -> Answer:
    """Return what was published as an answer."""
    return Answer(
        cast("Mode", row.mode),
        row.bound_ms,
        row.reason,
        None if row.envelope is None else Envelope(**json.loads(row.envelope)),
        cast("Pin | None", row.pin),
    )


def publish(
    session: Session,
    stream_id: int,
    answer: Answer,
    now_us: int,
    *,
    cause: PublicationCause = "Request",
    rollout_id: int | None = None,
) -> int:
    """Make ``answer`` what jobs are told from now on and return its generation; the stream must be locked.

    Args:
        session: the session.
        stream_id: the stream.
        answer: what is told.
        now_us: when, in microseconds.
        cause: whose doing it is; a pin's is told by the answer.
        rollout_id: the rollout that is published or undone; None for none.
    """
    row = last_published(session, stream_id)
    before = NOTHING_YET if row is None else answer_of(row)
    generation = row.generation if row else 0
    if _same(before, answer):
        return generation
    session.add(
        PublishedRow(
            stream_id=stream_id,
            generation=generation + 1,
            mode=answer.mode,
            bound_ms=answer.bound_ms,
            reason=answer.reason,
            published_us=now_us,
            envelope=None if answer.envelope is None else json.dumps(asdict(answer.envelope)),
            pin=answer.pin,
            cause=cause if answer.pin is None else "Pin",
            rollout_id=rollout_id,
        )
    )
    add_event(
        session,
        stream_id,
        now_us,
        kind="BoundPublished",
        reason=answer.reason,
        before=json.dumps(_told(before)),
        after=json.dumps(_told(answer)),
    )
    session.info[ANSWERS_CHANGED] = True
    return generation + 1


def _same(before: Answer, after: Answer) -> bool:
    # Reasons change with every report and do not count, but for a pin's: whoever reads it must see whose it is.
    return _told(before) == _told(after) and (after.pin is None or before.reason == after.reason)


def _told(answer: Answer) -> dict[str, Any]:
    found = asdict(answer)
    del found["reason"]
    return found


def version_of(generation: int, *, reported: bool, pin: Pin | None) -> str:
    """Return the version of an answer, another one whenever it says something else.

    Args:
        generation: its generation.
        reported: whether the stream has reported.
        pin: the pin in force; before the first generation it is not part of one.
    """
    if generation:
        return str(generation)
    base = "0" if reported else UNREPORTED
    return base if pin is None else f"{base}-{pin}"


def versions(session: Session, streams: Collection[tuple[str, str]]) -> dict[tuple[str, str], str]:
    """Return the version of what each of ``streams``, by job and stream, is told; unknown streams have one too."""
    newest = newest_generation_query()
    wanted = select(StreamRow.job, StreamRow.stream, StreamRow.registered_us, newest).where(
        tuple_(StreamRow.job, StreamRow.stream).in_(streams)
    )
    known = {
        (job, stream): (generation or 0, registered_us is not None)
        for job, stream, registered_us, generation in session.execute(wanted)
    }
    pins = pins_in_force(session, [name for name in streams if not known.get(name, (0, False))[0]])
    found = {}
    for name in streams:
        generation, reported = known.get(name, (0, False))
        pin = pins.get(name)
        found[name] = version_of(generation, reported=reported, pin=None if pin is None else pin.to)
    return found
