"""Changes of streams that are marked on Grafana's graphs: a bound that is published, a rollout's end or hold, a pin.

Each is an event of the decision log. Up to which one a destination has marks is stored, so that a restart and another
replica go on from there.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from tidemark.controller.base.db.database import Database
from tidemark.controller.base.db.leases import Lease, confirm
from tidemark.controller.base.db.statements import insert_into
from tidemark.controller.base.db.tables import EventRow, MarkedRow, RolloutRow
from tidemark.controller.specs.streams import lock_by_id
from tidemark.controller.view.alerts.message import page_of
from tidemark.models.base.duration import format_duration
from tidemark.models.rollout.states import rollout_text

_ENDS = ("RolloutVerified", "RolloutRolledBack")
"""Those that end what began when the rollout's bound was published."""

MARKED = ("BoundPublished", "RolloutHeld", *_ENDS, "PinSet", "PinRemoved")
"""Kinds of events that are marked."""

_LOOK_BACK_US = 86_400_000_000
"""How far back changes are looked for that could not be marked before a restart, in microseconds."""


@dataclass(frozen=True, slots=True)
class MarkedChange:
    """A change of a stream."""

    event: EventRow
    """Its event."""
    since_us: int | None
    """For the end of a rollout, when its bound was published; None for what is a moment."""
    labels: Mapping[str, str]
    """The labels of the stream."""

    def annotation(self, address: str) -> dict[str, Any]:
        """Return the annotation of Grafana: a moment, or the time of a rollout from its bound on; found by its tags."""
        event = self.event
        by = "" if event.by is None else f" (by {event.by})"
        at_ms = event.at_us // 1_000
        times = (
            {"time": at_ms} if self.since_us is None else {"time": self.since_us // 1_000, "timeEnd": at_ms}
        )
        return {
            **times,
            "tags": [
                *("tidemark", "change", f"kind:{event.kind}"),
                *(f"{name}:{value}" for name, value in self.labels.items()),
            ],
            "text": f"{_text(event)}{by}\n{page_of(address, self.labels)}",
        }


class GraphMarks:
    """What one destination has marks of, and what it is still to be sent. Not safe to share between threads.

    Args:
        destination: its name.
        takes: says by its labels whether a stream is for the destination.
        database: the store.
        since_us: since when changes are marked for a destination that is new, in microseconds.
    """

    def __init__(
        self,
        destination: str,
        takes: Callable[[Mapping[str, str]], bool],
        database: Database,
        since_us: int,
    ) -> None:
        self._destination = destination
        self._takes = takes
        self._database = database
        self._since_us = since_us
        self._under: dict[int, Lease] = {}
        self._marked: dict[int, int] = {}
        self._after = self._newest = 0

    def due(
        self, leases: Mapping[int, Lease], labels: Mapping[int, Mapping[str, str]], now_us: int
    ) -> list[MarkedChange]:
        """Return the changes of streams that are still to be marked, the oldest first.

        Args:
            leases: the streams of this process, with the lease of each.
            labels: the labels of each of them.
            now_us: the time, in microseconds.
        """
        with self._database.read() as session:
            new = {number for number, lease in leases.items() if self._under.get(number) != lease}
            if new:
                self._continue(session, new, now_us)
            self._under = dict(leases)
            newest = session.scalar(select(func.max(EventRow.id))) or 0
            found = session.execute(
                select(EventRow, RolloutRow.published_us)
                .outerjoin(RolloutRow, (RolloutRow.id == EventRow.rollout_id) & EventRow.kind.in_(_ENDS))
                .where(EventRow.id > self._after, EventRow.kind.in_(MARKED))
                .order_by(EventRow.id)
            ).all()
        changes = [
            MarkedChange(event, since_us, labels[event.stream_id])
            for event, since_us in found
            if event.stream_id in leases and self._is_due(event) and self._takes(labels[event.stream_id])
        ]
        if not changes:
            # Not up to the newest one: a transaction that had an earlier number may still have been open.
            self._after, self._newest = self._newest, newest
        return changes

    def _continue(self, session: Session, new: set[int], now_us: int) -> None:
        """Go on with streams where this process before a restart, or another replica, has left off."""
        before = select(EventRow.id).where(EventRow.at_us < now_us - _LOOK_BACK_US)
        self._after = self._newest = session.scalar(before.order_by(EventRow.id.desc()).limit(1)) or 0
        stored = select(MarkedRow.stream_id, MarkedRow.event_id).where(
            MarkedRow.destination == self._destination
        )
        for number, event_id in session.execute(stored):
            if number in new:
                self._marked[number] = event_id

    def _is_due(self, event: EventRow) -> bool:
        if event.kind == "BoundPublished" and not _bounds(event):
            return False
        marked = self._marked.get(event.stream_id)
        return event.at_us >= self._since_us if marked is None else event.id > marked

    def remember(self, change: MarkedChange) -> None:
        """Write down that a change was marked.

        Raises:
            LeaseLostError: when another replica decides the stream.
        """
        event = change.event
        self._marked[event.stream_id] = event.id
        with self._database.write() as session:
            if lock_by_id(session, event.stream_id) is None:
                return
            values = {
                "destination": self._destination,
                "stream_id": event.stream_id,
                "event_id": event.id,
            }
            session.execute(
                insert_into(session, MarkedRow)
                .values(values)
                .on_conflict_do_update(
                    index_elements=["destination", "stream_id"], set_={"event_id": event.id}
                )
            )
            confirm(session, event.stream_id, self._under[event.stream_id])


def _text(event: EventRow) -> str:
    match event.kind:
        case "BoundPublished":
            return f"Bound published, {_bounds(event)}: {event.reason}"
        case "PinSet":
            return f"Pinned {event.reason}"
        case "PinRemoved":
            return f"Pin removed: {event.reason}"
        case _:
            rollout = json.loads(event.after or "")
            return f"Rollout {rollout_text(rollout['rollout'], rollout['state'], event.reason)}"


def _bounds(event: EventRow) -> str:
    """Return from which bound to which a publication goes; nothing when only something else changes, as the mode."""
    before, after = (json.loads(text or "{}").get("bound_ms") for text in (event.before, event.after))
    return "" if before == after else f"{_bound(before)} -> {_bound(after)}"


def _bound(bound_ms: int | None) -> str:
    return "the job's own" if bound_ms is None else format_duration(bound_ms * 1_000)
