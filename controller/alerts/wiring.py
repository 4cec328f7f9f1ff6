"""The notifier, made of the settings."""

from __future__ import annotations

from threading import Event

from prometheus_client import CollectorRegistry

from tidemark.controller.alerts.notifier import MessageLinks, Notifier
from tidemark.controller.alerts.receiver import Receiver
from tidemark.controller.db.database import Database
from tidemark.controller.metrics.process import NotifyCounters, measure
from tidemark.controller.replicas.lease_keeper import LeaseKeeper
from tidemark.controller.runtime.clock import Clock
from tidemark.controller.settings import Settings


def message_links(settings: Settings) -> MessageLinks:
    """Return the addresses in messages: those that the settings name, else the one that the controller listens on."""
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    address = settings.public_url.rstrip("/") or f"http://{host}:{settings.port}"
    return MessageLinks(runbooks=settings.runbooks_url.rstrip("/") or f"{address}/runbooks", address=address)


def make_notifier(
    settings: Settings, database: Database, leases: LeaseKeeper, registry: CollectorRegistry, clock: Clock
) -> Notifier | None:
    """Return the notifier, not started; None when the settings name no receiver."""
    counters = NotifyCounters(registry)
    notifier = None
    if settings.notify_url is not None:
        stop = Event()

        def sleep(seconds: float) -> None:
            stop.wait(seconds)

        notifier = Notifier(
            database,
            leases,
            Receiver(settings.notify_url, settings.notify_token_file, sleep),
            links=message_links(settings),
            counters=counters,
            clock=clock,
            stop=stop,
            every_seconds=settings.notify_seconds,
            repeat_seconds=settings.notify_repeat_seconds,
        )
    measure(registry, "tidemark_notifications_firing", lambda: 0 if notifier is None else notifier.firing)
    return notifier
