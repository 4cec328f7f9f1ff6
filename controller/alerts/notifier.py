"""The notifier: notifies a webhook of alerts that fire, for those who have no Prometheus.

It checks in a thread of its own, so that neither the decision loop nor a request ever waits for a receiver. The replica
that holds the lease of a stream does so for it. Delivered notifications are written into the decision log, from which a
restart and another replica continue: none is repeated unless it was delivered and could not be written down.
"""

from __future__ import annotations

import logging
import threading
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tidemark.controller.alerts.lifecycle import Alarm, Key, Notification, advance, delivered
from tidemark.controller.alerts.message import messages
from tidemark.controller.alerts.receiver import NotDelivered, Receiver
from tidemark.controller.alerts.rules import ActiveAlert, active_alerts
from tidemark.controller.alerts.store import FIRING, RESOLVED, NotifiedAlert, notified_alerts, write_notified
from tidemark.controller.alerts.table import ALERTS, Alert
from tidemark.controller.db.database import STORE_ERRORS, Database
from tidemark.controller.errors import LeaseLostError
from tidemark.controller.metrics.process import NotifyCounters
from tidemark.controller.replicas.lease_keeper import LeaseKeeper
from tidemark.controller.replicas.lease_store import Lease, confirm
from tidemark.controller.runtime.clock import Clock
from tidemark.controller.stream_state.load import load_states
from tidemark.controller.stream_state.partition_summaries import load_partitions
from tidemark.controller.stream_state.recent_rows import NO_RECENT_ROWS, load_recent_rows

_log = logging.getLogger(__name__)

_STOP_TIMEOUT_SECONDS = 15.0
"""How long a shutdown waits for the message that is being sent."""

_REMEMBERED_US = 30 * 86_400_000_000
"""How far back the decision log is read for notifications, in microseconds."""

_LONGEST_PAUSE_US = 900_000_000
"""Maximum time without an attempt after messages could not be delivered, in microseconds."""

WINDOWS_S = tuple(
    {length for alert in ALERTS for burn in alert.burns for length in (burn.long_s, burn.short_s)}
)
"""Lengths of the windows over which budgets burn, in seconds."""

_BY_NAME: dict[tuple[str, str], Alert] = {(alert.name, alert.severity): alert for alert in ALERTS}


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageLinks:
    """Addresses in messages."""

    runbooks: str
    """Prefix of the name of a runbook's file."""
    address: str
    """Where a browser finds the controller."""


class Notifier:
    """Checks the alerts of streams and sends notifications.

    Args:
        database: the store.
        leases: which streams are this process's.
        receiver: takes the messages.
        links: addresses in messages.
        counters: counts messages.
        clock: the wall time in microseconds.
        stop: set when it is to stop; pauses end with it.
        every_seconds: time between two ticks, in seconds.
        repeat_seconds: after how long a notification of what still fires is repeated, in seconds.
    """

    def __init__(
        self,
        database: Database,
        leases: LeaseKeeper,
        receiver: Receiver,
        *,
        links: MessageLinks,
        counters: NotifyCounters,
        clock: Clock,
        stop: threading.Event,
        every_seconds: float,
        repeat_seconds: float,
    ) -> None:
        self._database = database
        self._leases = leases
        self._receiver = receiver
        self._links = links
        self._counters = counters
        self._clock = clock
        self._every_seconds = every_seconds
        self._repeat_us = round(repeat_seconds * 1e6)
        self._alarms: dict[int, dict[Key, Alarm]] = {}
        self._under: dict[int, Lease] = {}
        self._failed = 0
        self._silent_until_us = 0
        self._stop = stop
        self._thread = threading.Thread(target=self._run, name="tidemark-notifier", daemon=True)

    @property
    def firing(self) -> int:
        """How many alerts that this process has notified of still hold."""
        return sum(
            alarm.notified_us is not None and alarm.ended_us is None
            for alarms in list(self._alarms.values())
            for alarm in list(alarms.values())
        )

    def start(self) -> None:
        """Begin to check and notify."""
        self._thread.start()

    def stop(self) -> None:
        """Let the message that is being sent end, and send no more."""
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join(_STOP_TIMEOUT_SECONDS)
        self._receiver.close()

    def tick(self, now_us: int) -> int:
        """Check every stream of this process once and send what is due; return how many messages were delivered.

        Raises:
            sqlalchemy.exc.SQLAlchemyError: when the store does not answer; then nothing is sent.
        """
        due = self._check(now_us)
        if not due or now_us < self._silent_until_us:
            return 0
        of_stream = {one.key: stream_id for stream_id, some in due.items() for one in some}
        sent = 0
        every = [one for some in due.values() for one in some]
        for message, notifications in messages(every, self._links.runbooks, self._links.address):
            if self._stop.is_set():
                break
            try:
                self._receiver.send(message)
            except NotDelivered as error:
                self._counters.failed.inc()
                self._pause(now_us)
                name = notifications[0].alarm.active.alert.name
                _log.warning("%s of %d alerts not delivered: %s", name, len(notifications), error)
                break
            self._failed = 0
            self._counters.sent.inc()
            sent += 1
            self._remember(notifications, of_stream, now_us)
        return sent

    def _check(self, now_us: int) -> dict[int, list[Notification]]:
        """Bring the alarms up to date and return by stream the notifications that are due."""
        with self._database.read() as session:
            states = load_states(session)
            mine = [
                (state, lease) for state in states if (lease := self._leases.lease_of(state.id)) is not None
            ]
            # What another replica, or this one before a restart, has notified of a stream that is new here.
            new = [state.id for state, lease in mine if self._under.get(state.id) != lease]
            remembered = list(notified_alerts(session, new, now_us - _REMEMBERED_US)) if new else []
            partitions = load_partitions(session)
            recent = load_recent_rows(session, WINDOWS_S, now_us)
        self._under = {state.id: lease for state, lease in mine}
        known = {(state.row.job, state.row.stream) for state in states}
        deleted = [number for number, alarms in self._alarms.items() if alarms and _name(alarms) not in known]
        self._take_over(new, deleted, remembered)
        active: dict[int, Iterable[ActiveAlert]] = dict.fromkeys(deleted, ())
        for state, _ in mine:
            rows = recent.get(state.id, NO_RECENT_ROWS)
            active[state.id] = active_alerts(state, partitions.get(state.id, ()), rows, now_us)
        due = {}
        for number, some in active.items():
            self._alarms[number], due[number] = advance(self._alarms[number], some, now_us, self._repeat_us)
        return {number: some for number, some in due.items() if some}

    def _take_over(
        self, new: Iterable[int], deleted: Iterable[int], remembered: Iterable[NotifiedAlert]
    ) -> None:
        """Forget the streams that another replica decides by now, and continue those that are new here.

        The end of what a deleted stream's alerts began is still to be notified.
        """
        self._alarms = {number: self._alarms.get(number, {}) for number in (*self._under, *deleted)}
        for number in new:
            self._alarms[number] = {}
        for alarm in remembered:
            labels = dict(alarm.labels)
            alert = _BY_NAME.get((labels["alertname"], labels["severity"]))
            if alert is not None:
                self._alarms[alarm.stream_id][alarm.labels] = Alarm(
                    active=ActiveAlert(alert, alarm.labels, alarm.value),
                    since_us=alarm.starts_us,
                    starts_us=alarm.starts_us,
                    notified_us=alarm.notified_us,
                )

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
            for notification in some:
                alarm = notification.alarm
                notified = NotifiedAlert(
                    stream_id, notification.key, alarm.starts_us or now_us, now_us, alarm.active.value
                )
                kind = FIRING if notification.status == "firing" else RESOLVED
                write_notified(session, notified, kind=kind, summary=alarm.active.summary)
            session.flush()
            confirm(session, stream_id, self._under[stream_id])

    def _pause(self, now_us: int) -> None:
        every_us = round(self._every_seconds * 1e6)
        self._silent_until_us = now_us + min(every_us << min(self._failed, 20), _LONGEST_PAUSE_US)
        self._failed += 1

    def _run(self) -> None:
        # The first tick comes late: by then leases are taken and snapshots are there.
        while not self._stop.wait(self._every_seconds):
            try:
                self.tick(self._clock())
            except Exception:  # noqa: BLE001 - the next tick tries again
                _log.exception("alerts could not be checked; the next tick tries again")


def _name(alarms: Mapping[Key, Alarm]) -> tuple[str, str]:
    """Return the job and the stream that alarms are of."""
    labels = dict(next(iter(alarms)))
    return labels["spark_job"], labels["stream"]
