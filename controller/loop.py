"""The decision loop: one turn over all streams, and the thread that takes a turn at every tick."""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass
from time import perf_counter

from sqlalchemy import select
from structlog.contextvars import bind_contextvars, unbind_contextvars

from tidemark.controller.db.database import Database
from tidemark.controller.db.tables import SloRow, StreamRow
from tidemark.controller.decide.decider import Decider
from tidemark.controller.errors import LeaseLostError
from tidemark.controller.evidence.upkeep import Upkeep
from tidemark.controller.metrics.process import LoopCounters
from tidemark.controller.pins.apply import publish_missing_pins
from tidemark.controller.runtime.clock import Clock
from tidemark.controller.runtime.priority import GiveWay, at_once
from tidemark.controller.stream_state.overviews import Overviews

__all__ = ["Tick", "Ticker", "run_once"]

_log = logging.getLogger(__name__)

STOP_TIMEOUT_SECONDS = 30.0
"""How long a shutdown waits for the turn that is under way."""


@dataclass(frozen=True, slots=True)
class Tick:
    """What one turn did."""

    decided: int
    """Streams decided anew."""
    unchanged: int
    """Streams with nothing new, or that another process decides."""
    failed: int
    """Streams that could not be decided; their last decision stays."""


def run_once(
    database: Database, decider: Decider, counters: LoopCounters, now_us: int, give_way: GiveWay = at_once
) -> Tick:
    """Decide every stream that has an SLO and that this process holds the lease of.

    One that fails is logged and counted and does not stop the others.

    Streams that a pin holds and that were not told so are told first.

    Raises:
        sqlalchemy.exc.SQLAlchemyError: when the store cannot even list the streams.
    """
    with database.read() as session:
        streams = session.execute(
            select(StreamRow.id, StreamRow.job, StreamRow.stream).join(SloRow).order_by(StreamRow.id)
        ).all()
    decider.leases.keep()
    try:
        publish_missing_pins(database, now_us)
    except Exception:  # noqa: BLE001 - the next turn tries again
        _log.exception("not every stream could be told of its pin")
        counters.failures.inc()
    decided = failed = 0
    for stream_id, job, stream in streams:
        # Every line that is logged meanwhile says of which stream it is.
        bind_contextvars(job=job, stream=stream)
        give_way()
        begun = perf_counter()
        try:
            worked = decider.decide(stream_id, now_us)
        except LeaseLostError as error:
            _log.warning("%s", error.detail)
            counters.refused.inc()
            continue
        except Exception:  # noqa: BLE001 - whatever it is, the other streams go on
            _log.exception("stream %d could not be decided; its last decision stays", stream_id)
            counters.failures.inc()
            failed += 1
            continue
        if worked:
            decided += 1
            counters.decisions.inc()
            counters.seconds.observe(perf_counter() - begun)
    unbind_contextvars("job", "stream")
    return Tick(decided, len(streams) - decided - failed, failed)


class Ticker:
    """Takes a turn at every tick in a thread of its own.

    Args:
        database: the store.
        decider: decides one stream.
        upkeep: rolls up and ages out.
        overviews: looks at streams.
        counters: counts what turns do.
        clock: the wall time in microseconds.
        tick_seconds: time between two turns in seconds.
        give_way: called before each stream is decided.
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
        give_way: GiveWay,
    ) -> None:
        self._database = database
        self._decider = decider
        self._upkeep = upkeep
        self._overviews = overviews
        self._counters = counters
        self._clock = clock
        self._tick_seconds = tick_seconds
        self._give_way = give_way
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="tidemark-loop", daemon=True)
        self.ticks = 0
        """Turns taken so far, failed ones included."""
        self.progress_us = clock()
        """When the last turn ended, in microseconds since the epoch; at first when the ticker was made."""

    @property
    def alive(self) -> bool:
        """Whether the thread runs."""
        return self._thread.is_alive()

    def start(self) -> None:
        """Start ticking, with a first turn at once."""
        self._thread.start()

    def stop(self) -> None:
        """Let the turn under way end, and tick no more."""
        self._stop.set()
        self._thread.join(STOP_TIMEOUT_SECONDS)

    def _run(self) -> None:
        while not self._stop.is_set():
            begun = perf_counter()
            try:
                run_once(self._database, self._decider, self._counters, self._clock(), self._give_way)
                with self._counters.upkeep_seconds.time():
                    self._upkeep.tick(self._clock())
                self._overviews.tick(self._clock())
            except Exception:  # noqa: BLE001 - the store may be back at the next tick
                _log.exception("a turn of the decision loop failed; the next one tries again")
                self._counters.failures.inc()
            self._counters.tick_duration_seconds.observe(perf_counter() - begun)
            self.ticks += 1
            self.progress_us = self._clock()
            self._stop.wait(self._tick_seconds)
