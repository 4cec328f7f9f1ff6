"""The notifier: tells a webhook which alerts fire, for those who have no Prometheus.

It judges in a thread of its own, so that neither the decision loop nor a request ever waits for a receiver. Each stream
is the business of the replica that holds its lease. What was delivered is written into the decision log, from which a
restart and another replica go on: nothing is told twice but what was delivered and could not be written down.
"""

from __future__ import annotations

import logging
import threading
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from sqlalchemy.exc import SQLAlchemyError

from tidemark.controller.alerts.findings import Finding, findings
from tidemark.controller.alerts.lifecycle import Alarm, Key, News, advance, told
from tidemark.controller.alerts.message import messages
from tidemark.controller.alerts.receiver import NotDelivered, Receiver
from tidemark.controller.alerts.store import FIRING, RESOLVED, ToldAlarm, alarms_told, write_told
from tidemark.controller.alerts.table import ALERTS, Alert
from tidemark.controller.db.database import Database
from tidemark.controller.errors import LeaseLostError
from tidemark.controller.metrics.process import NotifyCounters
from tidemark.controller.replicas.lease_keeper import LeaseKeeper
from tidemark.controller.replicas.lease_store import Lease, confirm
from tidemark.controller.runtime.clock import Clock
from tidemark.controller.stream_state.partition_standing import partition_standings
from tidemark.controller.stream_state.recent_rows import UNKNOWN_LATELY, lately
from tidemark.controller.stream_state.standing import standings

__all__ = ["Notifier", "Words"]

_log = logging.getLogger(__name__)

STOP_TIMEOUT_SECONDS = 15.0
"""How long a shutdown waits for the message that is under way."""

REMEMBERED_US = 30 * 86_400_000_000
"""How far back the decision log is read for what was told, in microseconds."""

LONGEST_PAUSE_US = 900_000_000
"""Longest time that nothing is sent after messages could not be delivered, in microseconds."""

WINDOWS_S = tuple(
    {length for alert in ALERTS for burn in alert.burns for length in (burn.long_s, burn.short_s)}
)
"""Lengths of the windows that budgets are judged over, in seconds."""

_BY_NAME: dict[tuple[str, str], Alert] = {(alert.name, alert.severity): alert for alert in ALERTS}


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """What messages say beside what is the case."""

    runbooks: str
    """What stands before the name of a runbook's file."""
    address: str
    """Where a browser finds the controller."""


class Notifier:
    """Judges and tells.

    Args:
        database: the store.
        leases: which streams are this process's.
        receiver: who is told.
        words: what messages say beside what is the case.
        counters: counts messages.
        clock: the wall time in microseconds.
        stop: set when it is to stop; whoever waits meanwhile waits for it.
        every_seconds: time between two turns, in seconds.
        repeat_seconds: after how long what still fires is told again, in seconds.
    """

    def __init__(
        self,
        database: Database,
        leases: LeaseKeeper,
        receiver: Receiver,
        *,
        words: Words,
        counters: NotifyCounters,
        clock: Clock,
        stop: threading.Event,
        every_seconds: float,
        repeat_seconds: float,
    ) -> None:
        self._database = database
        self._leases = leases
        self._receiver = receiver
        self._words = words
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
        """How many alerts this process has told of that are not over."""
        return sum(
            alarm.told_us is not None and alarm.ended_us is None
            for alarms in list(self._alarms.values())
            for alarm in list(alarms.values())
        )

    def start(self) -> None:
        """Begin to judge and tell."""
        self._thread.start()

    def stop(self) -> None:
        """Let the message under way end, and tell no more."""
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join(STOP_TIMEOUT_SECONDS)
        self._receiver.close()

    def tick(self, now_us: int) -> int:
        """Judge every stream of this process once and tell what is to be told; return how many messages went out.

        Raises:
            sqlalchemy.exc.SQLAlchemyError: when the store does not answer; then nothing is known and nothing told.
        """
        due = self._judge(now_us)
        if not due or now_us < self._silent_until_us:
            return 0
        of_stream = {news.key: stream_id for stream_id, some in due.items() for news in some}
        sent = 0
        every = [news for some in due.values() for news in some]
        for message, news in messages(every, self._words.runbooks, self._words.address):
            if self._stop.is_set():
                break
            try:
                self._receiver.send(message)
            except NotDelivered as error:
                self._counters.failed.inc()
                self._pause(now_us)
                _log.warning(
                    "%s of %d alerts not told: %s", news[0].alarm.finding.alert.name, len(news), error
                )
                break
            self._failed = 0
            self._counters.sent.inc()
            sent += 1
            self._remember(news, of_stream, now_us)
        return sent

    def _judge(self, now_us: int) -> dict[int, list[News]]:
        """Bring what is known up to date and return by stream what is to be told."""
        with self._database.read() as session:
            mine = [
                (stream, lease)
                for stream in standings(session)
                if (lease := self._leases.lease_of(stream.stream_id)) is not None
            ]
            # What another replica, or this one in a former life, has told of a stream that is new here.
            new = [one.stream_id for one, lease in mine if self._under.get(one.stream_id) != lease]
            remembered = list(alarms_told(session, new, now_us - REMEMBERED_US)) if new else []
            partitions = partition_standings(session)
            sums = lately(session, WINDOWS_S, now_us)
        self._under = {stream.stream_id: lease for stream, lease in mine}
        self._take_over(new, remembered)
        due = {}
        for stream, _ in mine:
            number = stream.stream_id
            found = findings(stream, partitions.get(number, ()), sums.get(number, UNKNOWN_LATELY), now_us)
            self._alarms[number], news = advance(self._alarms[number], found, now_us, self._repeat_us)
            if news:
                due[number] = news
        return due

    def _take_over(self, new: Iterable[int], remembered: Iterable[ToldAlarm]) -> None:
        """Forget the streams that another replica has by now, and go on where it, or a former life, left off."""
        self._alarms = {number: self._alarms.get(number, {}) for number in self._under}
        for number in new:
            self._alarms[number] = {}
        for alarm in remembered:
            labels = dict(alarm.labels)
            alert = _BY_NAME.get((labels["alertname"], labels["severity"]))
            if alert is not None:
                self._alarms[alarm.stream_id][alarm.labels] = Alarm(
                    finding=Finding(alert, alarm.labels, alarm.value),
                    since_us=alarm.starts_us,
                    starts_us=alarm.starts_us,
                    told_us=alarm.told_us,
                )

    def _remember(self, delivered: Iterable[News], of_stream: Mapping[Key, int], now_us: int) -> None:
        by_stream: defaultdict[int, list[News]] = defaultdict(list)
        for news in delivered:
            by_stream[of_stream[news.key]].append(news)
        for number, some in by_stream.items():
            self._alarms[number] = told(self._alarms[number], some, now_us)
            try:
                self._write(number, some, now_us)
            except LeaseLostError as error:
                _log.warning("%s; what was told here may be told there again", error.detail)
            except SQLAlchemyError:
                _log.exception("what was told of stream %d could not be written down", number)

    def _write(self, stream_id: int, some: Iterable[News], now_us: int) -> None:
        with self._database.write() as session:
            for news in some:
                alarm = news.alarm
                told_of = ToldAlarm(
                    stream_id, news.key, alarm.starts_us or now_us, now_us, alarm.finding.value
                )
                kind = FIRING if news.status == "firing" else RESOLVED
                write_told(session, told_of, kind=kind, summary=alarm.finding.summary)
            session.flush()
            confirm(session, stream_id, self._under[stream_id])

    def _pause(self, now_us: int) -> None:
        every_us = round(self._every_seconds * 1e6)
        self._silent_until_us = now_us + min(every_us << min(self._failed, 20), LONGEST_PAUSE_US)
        self._failed += 1

    def _run(self) -> None:
        # The first turn comes late: leases are taken and streams looked at by then.
        while not self._stop.wait(self._every_seconds):
            try:
                self.tick(self._clock())
            except Exception:  # noqa: BLE001 - the next turn tries again
                _log.exception("alerts could not be judged; the next turn tries again")
