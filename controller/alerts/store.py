"""Delivered notifications, in the decision log: so neither a restart nor another replica repeats one."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Literal, cast

from sqlalchemy import select
from sqlalchemy.orm import Session

from tidemark.controller.db.tables import EventRow
from tidemark.controller.streams.store import add_event, lock_by_id

FIRING: Literal["AlertFiring"] = "AlertFiring"
RESOLVED: Literal["AlertResolved"] = "AlertResolved"
"""Kinds of events."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NotifiedAlert:
    """An alert whose beginning was notified and whose end was not."""

    stream_id: int
    """Of which stream."""
    labels: tuple[tuple[str, str], ...]
    """All its labels, by name."""
    starts_us: int
    """When it began to fire."""
    notified_us: int
    """When it was last notified."""
    value: str
    """What it was about, for people."""
    destination: str
    """Name of the destination that was notified."""


def write_notified(
    session: Session, notified: NotifiedAlert, *, kind: Literal["AlertFiring", "AlertResolved"], summary: str
) -> None:
    """Write down that an alert was notified, at ``notified.notified_us``, unless its stream was deleted meanwhile."""
    if lock_by_id(session, notified.stream_id) is None:
        return
    add_event(
        session,
        notified.stream_id,
        notified.notified_us,
        kind=kind,
        reason=summary,
        after=json.dumps(
            {
                "labels": dict(notified.labels),
                "starts_us": notified.starts_us,
                "value": notified.value,
                "destination": notified.destination,
            }
        ),
    )


def notified_alerts(
    session: Session, stream_ids: Collection[int], since_us: int, destination: str
) -> Iterator[NotifiedAlert]:
    """Return the alerts of streams whose beginning a destination was notified of since then, and not of their end."""
    rows = session.execute(
        select(EventRow.stream_id, EventRow.kind, EventRow.after, EventRow.at_us, EventRow.last_us)
        .where(
            EventRow.stream_id.in_(stream_ids),
            EventRow.kind.in_((FIRING, RESOLVED)),
            EventRow.at_us >= since_us,
        )
        .order_by(EventRow.id)
    )
    newest: dict[tuple[int, tuple[tuple[str, str], ...]], NotifiedAlert | None] = {}
    for stream_id, kind, after, at_us, last_us in rows:
        found = json.loads(cast("str", after))
        if found["destination"] != destination:
            continue
        labels = tuple(sorted(found["labels"].items()))
        newest[stream_id, labels] = (
            NotifiedAlert(
                stream_id=stream_id,
                labels=labels,
                starts_us=found["starts_us"],
                notified_us=last_us or at_us,
                value=found["value"],
                destination=destination,
            )
            if kind == FIRING
            else None
        )
    return (alarm for alarm in newest.values() if alarm is not None)
