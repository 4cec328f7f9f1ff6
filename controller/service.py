"""What requests work with: one object that holds the store, the decider and the clock of an application."""

from __future__ import annotations

import time
from dataclasses import dataclass

from prometheus_client import CollectorRegistry

from tidemark.controller.access.rate import RateLimits
from tidemark.controller.clock import Clock, SteadyClock
from tidemark.controller.decision import Decider
from tidemark.controller.door import Door
from tidemark.controller.leases import LeaseKeeper
from tidemark.controller.loop import Ticker
from tidemark.controller.metrics import (
    IntakeCounters,
    LoopCounters,
    StoreCollector,
    count_leases,
    count_waiting,
)
from tidemark.controller.report_writer import ReportWriter
from tidemark.controller.settings import Settings
from tidemark.controller.store.database import Database
from tidemark.controller.store.limits import Limits
from tidemark.controller.upkeep import Upkeep
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
    reports: ReportWriter
    """Commits reports."""
    registry: CollectorRegistry
    """Where the metrics are exposed; one of its own, so that two applications in one process do not collide."""
    intake: IntakeCounters
    """Counts what requests do."""
    loop: LoopCounters
    """Counts what the decision loop does."""
    watch: Watch
    """Holds answers back until they change."""
    door: Door
    """Tells who sends a request."""
    rates: RateLimits
    """How often one may send requests."""


def make_service(settings: Settings, clock: Clock, steady: SteadyClock = time.monotonic) -> Service:
    """Return the parts, wired; nothing is opened or started.

    Raises:
        StoreUnusableError: when the database URL cannot be understood or its driver is not installed.
    """
    limits = Limits(settings.max_streams, settings.max_partitions)
    database = Database(settings.database_url, limits)
    leases = LeaseKeeper(database, settings.lease_seconds, clock)
    decider = Decider(database, leases, settings.rollout_share_ppm)
    registry = CollectorRegistry()
    registry.register(StoreCollector(database))
    intake, loop = IntakeCounters(registry), LoopCounters(registry)
    upkeep = Upkeep(database, leases, settings.retention)
    ticker = Ticker(database, decider, upkeep, loop, clock, tick_seconds=settings.tick_seconds)
    reports = ReportWriter(database, clock)
    watch = Watch(database)
    database.when_answers_change(watch.wake)
    count_waiting(registry, lambda: watch.waiting)
    count_leases(registry, lambda: leases.held)
    door = Door(database, settings, clock, steady)
    rates = RateLimits(settings.reports_per_second, settings.requests_per_second, steady)
    return Service(
        settings, clock, database, decider, ticker, reports, registry, intake, loop, watch, door, rates
    )
