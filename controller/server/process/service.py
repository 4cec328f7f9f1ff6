"""The parts of one running controller, wired together: what requests work with."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import scipy.special  # noqa: F401 - `models` loads it when it is first needed, and here a request would wait for it
from prometheus_client import CollectorRegistry
from sqlalchemy.orm import Session

from tidemark.controller.base.background import LimitedRuns, Watchdog
from tidemark.controller.base.clock import Clock, SteadyClock
from tidemark.controller.base.counters import (
    GateCounters,
    IntakeCounters,
    LineageCounters,
    LoopCounters,
    measure,
    measure_each,
)
from tidemark.controller.base.db.database import Database, Limits
from tidemark.controller.base.db.leases import LeaseKeeper
from tidemark.controller.base.operator_file import Destination, read_gates
from tidemark.controller.base.settings import Settings
from tidemark.controller.base.shares import Shares
from tidemark.controller.control.bounds.watch import SharedReads, Watch
from tidemark.controller.control.decide.decider import Decider
from tidemark.controller.control.decide.pace import Pace
from tidemark.controller.control.gates.gate_keeper import GateKeeper
from tidemark.controller.control.retention.upkeep import Upkeep
from tidemark.controller.evidence.evidence_cache import EvidenceCache
from tidemark.controller.evidence.follow_reports import StreamEvidence
from tidemark.controller.reports.group_commit import ReportWriter
from tidemark.controller.server.access.authenticator import Authenticator, RateLimits
from tidemark.controller.server.process.loop import Ticker
from tidemark.controller.server.schemas.views import rollout_answer
from tidemark.controller.specs.store import horizon_ms_of
from tidemark.controller.view.alerts.notifier import (
    Notifier,
    destinations_in,
    make_notifier,
    message_links,
)
from tidemark.controller.view.metrics.scrape import Scrape
from tidemark.controller.view.state.overviews import Overviews
from tidemark.models.evidence.skew import SkewRule
from tidemark.models.specs.slo import Slo

if TYPE_CHECKING:
    from tidemark.controller.view.lineage.emitter import LineageEmitter

_log = logging.getLogger(__name__)

_BODIES_AT_ONCE = 8
"""Bodies of the maximum size that are read at once."""


@dataclass(frozen=True, slots=True)
class Service:
    """The parts of one running controller."""

    settings: Settings
    clock: Clock
    """The wall time in microseconds."""
    database: Database
    cache: EvidenceCache
    """Keeps the evidence on streams."""
    decider: Decider
    """Decides one stream."""
    ticker: Ticker
    overviews: Overviews
    """Takes snapshots of streams."""
    reports: ReportWriter
    """Commits reports."""
    registry: CollectorRegistry
    """This application's metrics; its own registry, so that two applications in one process do not collide."""
    scrape: Scrape
    """Answers scrapes."""
    intake: IntakeCounters
    """Counts what requests do."""
    loop: LoopCounters
    """Counts what the decision loop does."""
    watch: Watch
    """Long polls for a new bound."""
    reads: SharedReads
    """Shares one read among requests that wait for the same."""
    authenticator: Authenticator
    """Authenticates requests."""
    rates: RateLimits
    """Rate limits of requests."""
    bodies: Shares
    """Bytes of bodies that are read."""
    notifier: Notifier | None
    """Notifies destinations of alerts; None without any."""
    destinations: Mapping[str, Destination]
    """The destinations by name."""
    gates: GateKeeper
    """Asks outside gates about rollouts."""
    lineage: LineageEmitter | None
    """Sends OpenLineage events; None where nobody takes them."""

    def read_ahead(self, job: str, stream: str, slo: Slo | None = None) -> None:
        """Read the evidence for a decision that a write will make; the write says what is wrong with it."""
        with suppress(Exception):
            self.decider.read_ahead(job, stream, slo)

    def decide(self, session: Session, stream_id: int, now_us: int) -> None:
        """Decide a stream within the write that changed it, so that its answer and the next read agree with it.

        Its evidence is to be read ahead of the write: reports wait for the lock that this is done under. When the
        decision fails, the write stands, and the loop tries again.
        """
        try:
            with session.begin_nested():
                self.decider.decide_within(session, stream_id, now_us)
        except Exception:  # noqa: BLE001 - the write is what was asked for
            _log.exception("stream %d could not be decided with its change", stream_id)
            self.loop.failures.inc()


def make_service(settings: Settings, clock: Clock, steady: SteadyClock = time.monotonic) -> Service:
    """Return the parts, wired; nothing is opened or started.

    Raises:
        StoreUnusableError: when the database URL cannot be understood or its driver is not installed.
    """
    limits = Limits(settings.max_streams, settings.max_partitions)
    database = Database(settings.database_url, limits, settings.database_connections)
    leases = LeaseKeeper(database, settings.lease_seconds)
    cache = EvidenceCache()
    decider = Decider(database, leases, cache, settings.fleet_limits)
    registry = CollectorRegistry()
    scrape = Scrape(database, registry, settings.metrics_partitions, settings.label_names, clock)
    intake, loop = IntakeCounters(registry), LoopCounters(registry)
    reports = ReportWriter(database, clock, intake, StreamEvidence(horizon_ms_of), cache.tail.add)
    watchdog = Watchdog(steady)

    def step() -> None:
        watchdog.progressed()
        reports.give_way()

    upkeep = Upkeep(database, leases, settings.retention, step, cache.tail)
    rule = SkewRule(settings.skew_share_ppm, settings.skew_amount_ms)
    runs = LimitedRuns(steady)
    overviews = Overviews(
        database,
        leases,
        cache,
        rule,
        runs=runs,
        counters=loop,
        steady=steady,
        give_way=step,
    )
    ticker = Ticker(
        database,
        decider,
        upkeep,
        overviews=overviews,
        counters=loop,
        clock=clock,
        tick_seconds=settings.tick_seconds,
        pause=step,
        pace=Pace(steady),
        runs=runs,
        watchdog=watchdog,
    )
    watch = Watch(database, settings.max_open_polls)
    database.when_answers_change(watch.wake)
    measure(registry, "tidemark_bounds_watched", lambda: watch.waiting)
    measure(registry, "tidemark_store_writable", lambda: database.writable)
    measure(registry, "tidemark_leases_held", lambda: leases.held)
    measure(registry, "tidemark_reports_waiting", lambda: reports.waiting)
    measure(registry, "tidemark_loop_idle_seconds", lambda: watchdog.idle_seconds)
    measure(registry, "tidemark_tick_interval_seconds", lambda: settings.tick_seconds)
    gates, destinations = read_gates(settings.gates_file), destinations_in(settings)
    authenticator = Authenticator(database, settings, clock, steady)
    measure_each(registry, "tidemark_issuer_keys_age_seconds", authenticator.issuers.ages)
    bodies = Shares("bodies", _BODIES_AT_ONCE * settings.max_body_bytes)
    scrape.limits |= {"polls": lambda: watch.callers.used, "bodies": lambda: bodies.used}
    rates = RateLimits(settings.reports_per_second, settings.requests_per_second, steady)
    return Service(
        settings,
        clock,
        database,
        cache,
        decider,
        ticker,
        overviews,
        reports,
        registry,
        scrape,
        intake,
        loop,
        watch,
        SharedReads(),
        authenticator,
        rates,
        bodies,
        make_notifier(settings, destinations, database, leases, registry=registry, clock=clock),
        destinations,
        GateKeeper(
            database,
            decider,
            gates,
            lambda row, stream: asdict(rollout_answer(row, stream)),
            counters=GateCounters(registry, gates),
            clock=clock,
            every_seconds=settings.tick_seconds,
        ),
        _lineage(settings, database, leases, cache, registry=registry, clock=clock),
    )


def _lineage(
    settings: Settings,
    database: Database,
    leases: LeaseKeeper,
    cache: EvidenceCache,
    *,
    registry: CollectorRegistry,
    clock: Clock,
) -> LineageEmitter | None:
    counters = LineageCounters(registry)
    if settings.openlineage_url is None:
        return None
    from tidemark.controller.view.lineage.emitter import LineageEmitter  # noqa: PLC0415 - its client may not be there

    address = message_links(settings).address
    return LineageEmitter(
        database, leases, cache, settings.openlineage_url, address, counters=counters, clock=clock
    )
