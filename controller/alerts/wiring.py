"""The notifier, made of the settings."""

from __future__ import annotations

from collections.abc import Mapping

from prometheus_client import CollectorRegistry

from tidemark.controller.alerts.delivery import MessageLinks
from tidemark.controller.alerts.destinations import DEFAULT, Destination, read_destinations
from tidemark.controller.alerts.notifier import Notifier
from tidemark.controller.db.database import Database
from tidemark.controller.metrics.process import NotifyCounters, measure
from tidemark.controller.replicas.leases import LeaseKeeper
from tidemark.controller.runtime.clock import Clock
from tidemark.controller.settings import Settings


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
