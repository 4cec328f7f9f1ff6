"""What one destination was notified of, and what it is still to be notified of.

Delivered notifications are written into the decision log, from which a restart and another replica continue: none is
repeated unless it was delivered and could not be written down.
"""

from __future__ import annotations

import json
import logging
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from threading import Event
from typing import Literal, cast

from sqlalchemy import select
from sqlalchemy.orm import Session

from tidemark.controller.base.alert_table import ALERTS, Alert
from tidemark.controller.base.counters import NotifyCounters
from tidemark.controller.base.db.database import STORE_ERRORS, Database
from tidemark.controller.base.db.leases import Lease, confirm
from tidemark.controller.base.db.tables import EventRow
from tidemark.controller.base.errors import LeaseLostError
from tidemark.controller.specs.streams import add_event, lock_by_id
from tidemark.controller.view.alerts.message import NotDelivered, Receiver, messages
from tidemark.controller.view.alerts.rules import ActiveAlert, Alarm, Key, Notification, advance, delivered
from tidemark.models.base.text import plural

_log = logging.getLogger(__name__)

_REMEMBERED_US = 30 * 86_400_000_000
"""How far back the decision log is read for notifications, in microseconds."""

_LONGEST_PAUSE_US = 900_000_000
"""Maximum time without an attempt after messages could not be delivered, in microseconds."""

_BY_NAME: dict[tuple[str, str], Alert] = {(alert.name, alert.severity): alert for alert in ALERTS}


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageLinks:
    """Addresses in messages."""

    runbooks: str
    """Prefix of the name of a runbook's file."""
    address: str
    """Where a browser finds the controller."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """What one check of all streams found."""

    at_us: int
    """When, in microseconds."""
    leases: Mapping[int, Lease]
    """The streams of this process, with the lease of each."""
    active: Mapping[int, Sequence[ActiveAlert]]
    """The alerts that hold for each of them."""
    names: frozenset[tuple[str, str]]
    """Job and stream of every stream that there is, also of other processes."""


class Delivery:
    """Notifies one destination. Not safe to share between threads, but for ``firing``.

    Args:
        receiver: takes the messages.
        takes: says by its labels whether an alert is for the destination.
        links: addresses in messages.
        counters: counts messages.
        stop: set when nothing more is to be sent.
        every_us: time between two checks, in microseconds.
        repeat_us: after how long a notification of what still fires is repeated, in microseconds.
    """

    def __init__(
        self,
        name: str,
        receiver: Receiver,
        takes: Callable[[Mapping[str, str]], bool],
        database: Database,
        *,
        links: MessageLinks,
        counters: NotifyCounters,
        stop: Event,
        every_us: int,
        repeat_us: int,
    ) -> None:
        self._name = name
        self._receiver = receiver
        self._takes = takes
        self._database = database
        self._links = links
        self._counters = counters
        self._stop = stop
        self._every_us = every_us
        self._repeat_us = repeat_us
        self._alarms: dict[int, dict[Key, Alarm]] = {}
        self._under: dict[int, Lease] = {}
        self._failed = 0
        self._silent_until_us = 0

    @property
    def firing(self) -> set[Key]:
        """The alerts that the destination was notified of and that still hold."""
        return {
            key
            for alarms in list(self._alarms.values())
            for key, alarm in list(alarms.items())
            if alarm.notified_us is not None and alarm.ended_us is None
        }

    def take(self, checked: Checked) -> int:
        """Send what is due after a check; return how many messages were delivered."""
        now_us = checked.at_us
        by_stream = self._due(checked)
        if now_us < self._silent_until_us:
            return 0
        of_stream = {one.key: stream_id for stream_id, some in by_stream.items() for one in some}
        every = [one for some in by_stream.values() for one in some]
        sent = 0
        for message, some in messages(every, self._links.runbooks, self._links.address):
            if self._stop.is_set():
                break
            try:
                self._receiver.send(message)
            except NotDelivered as error:
                self._counters.failed.labels(self._name).inc()
                self._pause(now_us)
                name, count = some[0].alarm.active.alert.name, plural(len(some), "alert")
                _log.warning("%s of %s not delivered to %s: %s", name, count, self._name, error)
                break
            self._failed = 0
            self._counters.sent.labels(self._name).inc()
            sent += 1
            self._remember(some, of_stream, now_us)
        return sent

    def _due(self, checked: Checked) -> dict[int, list[Notification]]:
        """Bring the alarms up to date and return by stream the notifications that are due."""
        # What another replica, or this one before a restart, has notified of a stream that is new here.
        new = [number for number, lease in checked.leases.items() if self._under.get(number) != lease]
        remembered: dict[int, dict[Key, Alarm]] = {}
        if new:
            with self._database.read() as session:
                remembered = _remembered(session, new, checked.at_us - _REMEMBERED_US, self._name)
        self._under = dict(checked.leases)
        # The end of what a deleted stream's alerts began is still to be notified.
        deleted = [
            number
            for number, alarms in self._alarms.items()
            if alarms and _stream_of(alarms) not in checked.names
        ]
        # Streams that another replica decides by now are forgotten.
        kept = {number: self._alarms.get(number, {}) for number in (*self._under, *deleted)}
        self._alarms = {**kept, **remembered}
        active: dict[int, list[ActiveAlert]] = {number: [] for number in deleted}
        for number, alerts in checked.active.items():
            active[number] = [one for one in alerts if self._takes(dict(one.labels))]
        notifications = {}
        for number, some in active.items():
            self._alarms[number], notifications[number] = advance(
                self._alarms[number], some, checked.at_us, self._repeat_us
            )
        return {number: some for number, some in notifications.items() if some}

    def _remember(
        self, notifications: Iterable[Notification], of_stream: Mapping[Key, int], now_us: int
    ) -> None:
        by_stream: defaultdict[int, list[Notification]] = defaultdict(list)
        for notification in notifications:
            by_stream[of_stream[notification.key]].append(notification)
        for number, some in by_stream.items():
            self._alarms[number] = delivered(self._alarms[number], some, now_us)
            if number not in self._under:
                continue  # a deleted stream has no log
            try:
                self._write(number, some, now_us)
            except LeaseLostError as error:
                _log.warning("%s; what was notified here may be notified there again", error.detail)
            except STORE_ERRORS:
                _log.exception("the notifications on stream %d could not be written down", number)

    def _write(self, stream_id: int, some: Iterable[Notification], now_us: int) -> None:
        with self._database.write() as session:
            if lock_by_id(session, stream_id) is None:
                return  # it was deleted meanwhile
            for notification in some:
                alarm = notification.alarm
                notified = {
                    "labels": dict(notification.key),
                    "starts_us": alarm.starts_us or now_us,
                    "value": alarm.active.value,
                    "destination": self._name,
                }
                kind = _FIRING if notification.status == "firing" else _RESOLVED
                reason, after = alarm.active.summary, json.dumps(notified)
                add_event(session, stream_id, now_us, kind=kind, reason=reason, after=after)
            session.flush()
            confirm(session, stream_id, self._under[stream_id])

    def _pause(self, now_us: int) -> None:
        self._silent_until_us = now_us + min(self._every_us << min(self._failed, 20), _LONGEST_PAUSE_US)
        self._failed += 1


def _stream_of(alarms: Mapping[Key, Alarm]) -> tuple[str, str]:
    """Return the job and the stream that alarms are of."""
    labels = dict(next(iter(alarms)))
    return labels["spark_job"], labels["stream"]


_FIRING: Literal["AlertFiring"] = "AlertFiring"
_RESOLVED: Literal["AlertResolved"] = "AlertResolved"
"""Kinds of events."""


def _remembered(
    session: Session, stream_ids: Collection[int], since_us: int, destination: str
) -> dict[int, dict[Key, Alarm]]:
    """Return by stream the alarms of whose beginning a destination was notified since then, and not of their end."""
    rows = session.execute(
        select(EventRow.stream_id, EventRow.kind, EventRow.after, EventRow.at_us, EventRow.last_us)
        .where(
            EventRow.stream_id.in_(stream_ids),
            EventRow.kind.in_((_FIRING, _RESOLVED)),
            EventRow.at_us >= since_us,
        )
        .order_by(EventRow.id)
    )
    alarms: dict[int, dict[Key, Alarm]] = {stream_id: {} for stream_id in stream_ids}
    for stream_id, kind, after, at_us, last_us in rows:
        notified = json.loads(cast("str", after))
        labels, starts_us = notified["labels"], notified["starts_us"]
        alert = _BY_NAME.get((labels["alertname"], labels["severity"]))
        if notified["destination"] != destination or alert is None:
            continue
        key = tuple(sorted(labels.items()))
        if kind == _RESOLVED:
            alarms[stream_id].pop(key, None)
        else:
            alarms[stream_id][key] = Alarm(
                active=ActiveAlert(alert, key, notified["value"]),
                since_us=starts_us,
                starts_us=starts_us,
                notified_us=last_us or at_us,
            )
    return alarms
