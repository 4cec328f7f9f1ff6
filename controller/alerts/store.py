"""What was told of alerts, in the decision log: so a restart, or another replica, tells nothing twice."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Literal

from sqlalchemy import select
from sqlalchemy.orm import Session

from tidemark.controller.db.tables import EventRow, StreamRow
from tidemark.controller.streams.store import add_event, lock_stream

__all__ = ["FIRING", "RESOLVED", "ToldAlarm", "alarms_told", "write_told"]

FIRING: Literal["AlertFiring"] = "AlertFiring"
RESOLVED: Literal["AlertResolved"] = "AlertResolved"
"""Kinds of events."""


@dataclass(frozen=True, slots=True)
class ToldAlarm:
    """An alert that somebody was told of and that was not told to be over."""

    stream_id: int
    """Of which stream."""
    labels: tuple[tuple[str, str], ...]
    """All its labels, by name."""
    starts_us: int
    """When it began to fire."""
    told_us: int
    """When it was told last."""
    value: str
    """What it was about, for people."""


def write_told(
    session: Session, told_alarm: ToldAlarm, *, kind: Literal["AlertFiring", "AlertResolved"], summary: str
) -> None:
    """Write down that an alert was notified, at ``told_alarm.told_us``."""
    stream = session.get_one(StreamRow, told_alarm.stream_id)
    lock_stream(session, stream.job, stream.stream)
    add_event(
        session,
        told_alarm.stream_id,
        told_alarm.told_us,
        kind=kind,
        reason=summary,
        after=json.dumps(
            {"labels": dict(told_alarm.labels), "starts_us": told_alarm.starts_us, "value": told_alarm.value}
        ),
    )


def alarms_told(session: Session, stream_ids: Collection[int], since_us: int) -> Iterator[ToldAlarm]:
    """Return the alerts of streams that were told to fire since then and not to be over."""
    rows = session.execute(
        select(EventRow.stream_id, EventRow.kind, EventRow.after, EventRow.at_us, EventRow.last_us)
        .where(
            EventRow.stream_id.in_(stream_ids),
            EventRow.kind.in_((FIRING, RESOLVED)),
            EventRow.at_us >= since_us,
        )
        .order_by(EventRow.id)
    )
    newest: dict[tuple[int, tuple[tuple[str, str], ...]], ToldAlarm | None] = {}
    for stream_id, kind, after, at_us, last_us in rows:
        found = json.loads(after or "{}")
        labels = tuple(sorted(found["labels"].items()))
        newest[stream_id, labels] = (
            ToldAlarm(stream_id, labels, found["starts_us"], last_us or at_us, found["value"])
            if kind == FIRING
            else None
        )
    return (alarm for alarm in newest.values() if alarm is not None)
