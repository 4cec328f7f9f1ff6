"""The decision loop: one turn over all streams, and the thread that takes a turn at every tick."""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass
from time import perf_counter

from sqlalchemy import select

from tidemark.controller.clock import Clock
from tidemark.controller.decision import Decider
from tidemark.controller.metrics import LoopCounters
from tidemark.controller.pinning import mend_pins
from tidemark.controller.store.database import Database
from tidemark.controller.store.tables import SloRow

__all__ = ["Ticker", "Turn", "run_once"]

_log = logging.getLogger(__name__)

STOP_TIMEOUT_SECONDS = 30.0
"""How long a shutdown waits for the turn that is under way."""


@dataclass(frozen=True, slots=True)
class Turn:
    """What one turn did."""

    decided: int
    """Streams decided anew."""
    unchanged: int
    """Streams with nothing new."""
    failed: int
    """Streams that could not be decided; their last decision stays."""


def run_once(database: Database, decider: Decider, counters: LoopCounters, now_us: int) -> Turn:
    """Decide every stream that has an SLO; one that fails is logged and counted and does not stop the others.

    Streams that a pin holds and that were not told so are told first.

    Raises:
        sqlalchemy.exc.SQLAlchemyError: when the store cannot even list the streams.
    """
    with database.read() as session:
        stream_ids = session.scalars(select(SloRow.stream_id).order_by(SloRow.stream_id)).all()
    try:
        mend_pins(database, now_us)
    except Exception:  # noqa: BLE001 - the next turn tries again
        _log.exception("not every stream could be told of its pin")
        counters.failures.inc()
    decided = failed = 0
    for stream_id in stream_ids:
        begun = perf_counter()
        try:
            worked = decider.decide(stream_id, now_us)
        except Exception:  # noqa: BLE001 - whatever it is, the other streams go on
            _log.exception("stream %d could not be decided; its last decision stays", stream_id)
            counters.failures.inc()
            failed += 1
            continue
        if worked:
            decided += 1
            counters.decisions.inc()
            counters.seconds.observe(perf_counter() - begun)
    return Turn(decided, len(stream_ids) - decided - failed, failed)


class Ticker:
    """Takes a turn at every tick in a thread of its own.

    Args:
        database: the store.
        decider: decides one stream.
        counters: counts what turns do.
        clock: the wall time in microseconds.
        tick_seconds: time between two turns in seconds.
    """

    def __init__(
        self, database: Database, decider: Decider, counters: LoopCounters, clock: Clock, tick_seconds: float
    ) -> None:
        self._database = database
        self._decider = decider
        self._counters = counters
        self._clock = clock
        self._tick_seconds = tick_seconds
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="tidemark-loop", daemon=True)
        self.turns = 0
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
            try:
                run_once(self._database, self._decider, self._counters, self._clock())
            except Exception:  # noqa: BLE001 - the store may be back at the next tick
                _log.exception("a turn of the decision loop failed; the next one tries again")
                self._counters.failures.inc()
            self.turns += 1
            self.progress_us = self._clock()
            self._stop.wait(self._tick_seconds)
