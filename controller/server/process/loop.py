"""The decision loop: one tick decides all streams; a thread ticks at a fixed interval."""

from __future__ import annotations

import logging
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from time import perf_counter

from structlog.contextvars import bind_contextvars, unbind_contextvars

from tidemark.controller.base.background import (
    GivenUpError,
    LimitedRuns,
    Pause,
    TickingThread,
    Watchdog,
    no_pause,
)
from tidemark.controller.base.clock import Clock
from tidemark.controller.base.counters import LoopCounters
from tidemark.controller.base.db.database import STORE_ERRORS, Database
from tidemark.controller.base.errors import LeaseLostError
from tidemark.controller.control.decide.decider import Decider
from tidemark.controller.control.decide.pace import Pace, read_versions
from tidemark.controller.control.retention.upkeep import Upkeep
from tidemark.controller.control.rollout.pinned import publish_missing_pins
from tidemark.controller.view.state.overviews import Overviews

_log = logging.getLogger(__name__)

_MIN_SNAPSHOT_SECONDS = 0.5
"""How long a tick takes snapshots where decisions leave no time, in seconds."""

_STOP_TIMEOUT_SECONDS = 30.0
"""How long a shutdown waits for the tick under way."""


@dataclass(frozen=True, slots=True)
class Tick:
    """What one tick did."""

    decided: int
    """Streams with a new decision."""
    unchanged: int
    """Streams that are not due, without anything new, or decided by another process."""
    failed: int
    """Streams that could not be decided, or not in time; they keep their last decision."""


def run_once(
    database: Database,
    decider: Decider,
    counters: LoopCounters,
    now_us: int,
    pause: Pause = no_pause,
    *,
    pace: Pace | None = None,
    runs: LimitedRuns | None = None,
) -> Tick:
    """Decide the streams that have an SLO, whose lease this process holds and that are due.

    Pins that are not published yet are published first. A stream that fails, or takes too long, is logged and counted;
    the others go on.

    Args:
        pause: called before each stream is decided.
        pace: says which streams are due; by default, all are.

    Raises:
        sqlalchemy.exc.SQLAlchemyError: when the store cannot even list the streams.
    """
    decider.leases.keep()
    with database.read() as session:
        versions = read_versions(session)
    try:
        publish_missing_pins(database, now_us)
    except Exception:  # noqa: BLE001 - the next tick tries again
        _log.exception("pins could not be published to every stream")
        counters.failures.inc()
    decided = failed = 0
    pace = Pace(perf_counter) if pace is None else pace
    runs = LimitedRuns(perf_counter) if runs is None else runs
    for version in versions:
        stream_id = version.stream_id
        if decider.leases.lease_of(stream_id) is None:
            pace.forget(stream_id)
            continue
        if not (pace.is_due(version) and runs.is_due(("decision", stream_id))):
            continue
        # Every line logged meanwhile names the stream.
        bind_contextvars(job=version.job, stream=version.stream)
        pause()
        begun = perf_counter()
        try:
            worked = runs.run(("decision", stream_id), partial(decider.decide, stream_id, now_us))
        except LeaseLostError as error:
            _log.warning("%s", error.detail)
            counters.refused.inc()
            continue
        except GivenUpError as error:
            _log.warning(
                "the decision on stream %d takes too long: %s; it keeps its last one", stream_id, error
            )
            counters.given_up.inc()
            failed += 1
            continue
        except Exception:  # noqa: BLE001 - the other streams go on
            _log.exception("stream %d could not be decided; it keeps its last decision", stream_id)
            counters.failures.inc()
            failed += 1
            continue
        pace.decided(version)
        if worked:
            decided += 1
            counters.decisions.inc()
            counters.seconds.observe(perf_counter() - begun)
    unbind_contextvars("job", "stream")
    return Tick(decided, len(versions) - decided - failed, failed)


def snapshot_seconds(tick_seconds: float, took_seconds: float) -> float:
    """Return how long a tick may take snapshots: half of what decisions and upkeep left of it, but a little always."""
    return max((tick_seconds - took_seconds) / 2, _MIN_SNAPSHOT_SECONDS)


class Ticker:
    """Ticks in a thread of its own.

    Args:
        pause: called before each stream is decided.
    """

    def __init__(
        self,
        database: Database,
        decider: Decider,
        upkeep: Upkeep,
        *,
        overviews: Overviews,
        counters: LoopCounters,
        clock: Clock,
        tick_seconds: float,
        pause: Pause,
        pace: Pace,
        runs: LimitedRuns,
        watchdog: Watchdog,
    ) -> None:
        self._database = database
        self._decider = decider
        self._upkeep = upkeep
        self._overviews = overviews
        self._counters = counters
        self._clock = clock
        self._tick_seconds = tick_seconds
        self._pause = pause
        self._pace = pace
        self._runs = runs
        self.watchdog = watchdog
        self._thread = TickingThread(
            "loop", self._tick, tick_seconds, stop_seconds=_STOP_TIMEOUT_SECONDS, at_once=True
        )
        self.ticks = 0
        """Ticks so far, failed ones included."""

    @property
    def alive(self) -> bool:
        """Whether the thread runs."""
        return self._thread.alive

    def start(self) -> None:
        """Start ticking; the first tick comes at once."""
        self.watchdog.progressed()
        self._thread.start()

    def stop(self) -> None:
        """Wait for the tick under way and stop."""
        self._thread.stop()

    def _tick(self) -> None:
        begun = perf_counter()
        try:
            if not self._database.writable:
                # No small write proves that a full store has room again, and nobody may ask whether it is ready.
                with suppress(*STORE_ERRORS):
                    self._database.prove_writable()
            run_once(
                self._database,
                self._decider,
                self._counters,
                self._clock(),
                self._pause,
                pace=self._pace,
                runs=self._runs,
            )
            # A replica has much to do when it takes streams over, and they are to be decided again soon.
            half_s = max(self._tick_seconds, perf_counter() - begun) / 2
            with self._counters.upkeep_seconds.time():
                self._upkeep.tick(self._clock(), max_seconds=half_s)
            self._overviews.tick(self._clock(), snapshot_seconds(self._tick_seconds, perf_counter() - begun))
        except Exception:
            self._counters.failures.inc()
            raise
        finally:
            self._counters.tick_duration_seconds.observe(perf_counter() - begun)
            self.ticks += 1
            self.watchdog.progressed()
