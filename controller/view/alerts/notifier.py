"""The notifier: notifies webhooks of alerts that fire, for those who have no Prometheus.

It checks in a thread of its own, and each destination is notified in another one, so that neither the decision loop nor
a request nor another destination ever waits for a receiver. The replica that holds the lease of a stream does so for
it.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor

from prometheus_client import CollectorRegistry

from tidemark.controller.base.alert_table import ALERTS
from tidemark.controller.base.background import TickingThread
from tidemark.controller.base.clock import Clock
from tidemark.controller.base.counters import NotifyCounters, measure
from tidemark.controller.base.db.database import Database
from tidemark.controller.base.db.leases import LeaseKeeper
from tidemark.controller.base.operator_file import DEFAULT, Destination, read_destinations, takers
from tidemark.controller.base.settings import Settings
from tidemark.controller.view.alerts.delivery import Checked, Delivery, MessageLinks
from tidemark.controller.view.alerts.message import Receiver
from tidemark.controller.view.alerts.rules import active_alerts
from tidemark.controller.view.state.load import load_states
from tidemark.controller.view.state.partition_rows import load_partitions
from tidemark.controller.view.state.recent_reports import NO_RECENT_ROWS, load_recent_rows

_log = logging.getLogger(__name__)

_STOP_TIMEOUT_SECONDS = 15.0
"""How long a shutdown waits for the check under way."""

WINDOWS_S = tuple(
    {length for alert in ALERTS for burn in alert.burns for length in (burn.long_s, burn.short_s)}
)
"""Lengths of the windows over which budgets burn, in seconds."""


class Notifier:
    """Checks the alerts of streams and has destinations notified.

    Args:
        leases: which streams are this process's.
        destinations: whom to notify, by name; at least one.
        links: addresses in messages.
        counters: counts messages.
        clock: the wall time in microseconds.
        every_seconds: time between two ticks, in seconds.
        repeat_seconds: after how long a notification of what still fires is repeated, in seconds.
    """

    def __init__(
        self,
        database: Database,
        leases: LeaseKeeper,
        destinations: Mapping[str, Destination],
        *,
        links: MessageLinks,
        counters: NotifyCounters,
        clock: Clock,
        every_seconds: float,
        repeat_seconds: float,
    ) -> None:
        self._database = database
        self._leases = leases
        # The first tick comes late: by then leases are taken and snapshots are there.
        self._thread = TickingThread(
            "notifier", lambda: self.tick(clock()), every_seconds, stop_seconds=_STOP_TIMEOUT_SECONDS
        )
        stop = self._thread.stopping

        def delivery(name: str, destination: Destination) -> Delivery:
            return Delivery(
                name,
                Receiver(destination.webhook, destination.token_file, stop),
                lambda labels: name in takers(destinations, labels),
                database,
                links=links,
                counters=counters,
                stop=stop,
                every_us=round(every_seconds * 1e6),
                repeat_us=round(repeat_seconds * 1e6),
            )

        self._deliveries = {name: delivery(name, one) for name, one in destinations.items()}
        # As many threads as destinations, each of which is notified by one at a time: none waits for another.
        self._pool = ThreadPoolExecutor(len(destinations), thread_name_prefix="tidemark-notify")
        self._delivering: dict[str, Future[int]] = {}

    @property
    def firing(self) -> int:
        """How many alerts that this process has notified of still hold."""
        return len({key for delivery in self._deliveries.values() for key in delivery.firing})

    def start(self) -> None:
        """Begin to check and notify."""
        self._thread.start()

    def stop(self) -> None:
        """Let the messages that are being sent end, and send no more."""
        self._thread.stop()
        self._pool.shutdown(cancel_futures=True)

    def tick(self, now_us: int) -> dict[str, Future[int]]:
        """Check every stream of this process once, and begin to send each destination what is due.

        Return by destination the future of how many messages were delivered. One that is still being notified is left
        out; it is notified after a later tick.

        Raises:
            sqlalchemy.exc.SQLAlchemyError: when the store does not answer; then nothing is sent.
        """
        checked = self._check(now_us)
        begun = {
            name: self._pool.submit(self._take, name, checked)
            for name in self._deliveries
            if name not in self._delivering or self._delivering[name].done()
        }
        self._delivering |= begun
        return begun

    def _check(self, now_us: int) -> Checked:
        with self._database.read() as session:
            states = load_states(session)
            partitions = load_partitions(session)
            recent = load_recent_rows(session, WINDOWS_S, now_us)
        mine = [(state, lease) for state in states if (lease := self._leases.lease_of(state.id)) is not None]
        return Checked(
            at_us=now_us,
            leases={state.id: lease for state, lease in mine},
            active={
                state.id: tuple(
                    active_alerts(
                        state, partitions.get(state.id, ()), recent.get(state.id, NO_RECENT_ROWS), now_us
                    )
                )
                for state, _ in mine
            },
            names=frozenset((state.row.job, state.row.stream) for state in states),
        )

    def _take(self, name: str, checked: Checked) -> int:
        try:
            return self._deliveries[name].take(checked)
        except Exception:  # noqa: BLE001 - the next tick tries again
            _log.exception("destination %s could not be notified; the next tick tries again", name)
            return 0


def message_links(settings: Settings) -> MessageLinks:
    """Return the addresses in messages: those that the settings name, else the one that the controller listens on."""
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    address = settings.public_url.rstrip("/") or f"http://{host}:{settings.port}"
    return MessageLinks(runbooks=settings.runbooks_url.rstrip("/") or f"{address}/runbooks", address=address)


def destinations_in(settings: Settings) -> dict[str, Destination]:
    """Return the destinations of notifications by name: the webhook that is set by itself, and those of the file."""
    alone = {}
    if settings.notify_url is not None:
        alone[DEFAULT] = Destination(webhook=settings.notify_url, token_file=settings.notify_token_file)
    return alone | read_destinations(settings.notify_file)


def make_notifier(
    settings: Settings,
    destinations: Mapping[str, Destination],
    database: Database,
    leases: LeaseKeeper,
    *,
    registry: CollectorRegistry,
    clock: Clock,
) -> Notifier | None:
    """Return the notifier, not started; None without destinations."""
    counters = NotifyCounters(registry, destinations)
    notifier = None
    if destinations:
        notifier = Notifier(
            database,
            leases,
            destinations,
            links=message_links(settings),
            counters=counters,
            clock=clock,
            every_seconds=settings.notify_seconds,
            repeat_seconds=settings.notify_repeat_seconds,
        )
    measure(registry, "tidemark_notifications_firing", lambda: 0 if notifier is None else notifier.firing)
    return notifier
