"""What requests work with: one object that holds the store, the decider and the clock of an application."""

from __future__ import annotations

from dataclasses import dataclass

from prometheus_client import CollectorRegistry

from tidemark.controller.clock import Clock
from tidemark.controller.decision import Decider
from tidemark.controller.loop import Ticker
from tidemark.controller.metrics import IntakeCounters, LoopCounters, StoreCollector, count_waiting
from tidemark.controller.settings import Settings
from tidemark.controller.store.database import Database
from tidemark.controller.watch import Watch

__all__ = ["Service", "make_service"]


@dataclass(frozen=True, slots=True)
class Service:
    """The parts of one running controller."""

    settings: Settings
    """What was set from outside."""
    clock: Clock
    """The wall time in microseconds."""
    database: Database
    """The store."""
    decider: Decider
    """Decides one stream."""
    ticker: Ticker
    """The decision loop."""
    registry: CollectorRegistry
    """Where the metrics are exposed; one of its own, so that two applications in one process do not collide."""
    intake: IntakeCounters
    """Counts what requests do."""
    loop: LoopCounters
    """Counts what the decision loop does."""
    watch: Watch
    """Holds answers back until they change."""


def make_service(settings: Settings, clock: Clock) -> Service:
    """Return the parts, wired; nothing is opened or started.

    Raises:
        StoreUnusableError: when the database URL cannot be understood or its driver is not installed.
    """
    database = Database(settings.database_url)
    decider = Decider(database)
    registry = CollectorRegistry()
    registry.register(StoreCollector(database))
    intake, loop = IntakeCounters(registry), LoopCounters(registry)
    ticker = Ticker(database, decider, loop, clock, settings.tick_seconds)
    watch = Watch(database)
    database.when_answers_change(watch.wake)
    count_waiting(registry, lambda: watch.waiting)
    return Service(settings, clock, database, decider, ticker, registry, intake, loop, watch)
