"""Work in the background: ticking threads, whether a loop makes progress, and work about streams for a limited time.

Work about streams runs one piece at a time, so that a slow stream does not hold up all others.

Python cannot end a thread. Work that takes too long is given up: it goes on aside, and ends at the next of its steps,
before it writes. What is bounded is how long the loop waits, not how long a step takes that never ends; after
``MAX_LEFT`` of these the loop waits too, and the process is not alive. A step that holds the interpreter in native code
would stop every thread, so such calls must be fast whatever they are given.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Hashable
from concurrent.futures import Future, wait
from contextvars import copy_context
from typing import Any, TypeVar

from tidemark.controller.base.clock import SteadyClock
from tidemark.models.base.text import format_number

T = TypeVar("T")

MAX_SECONDS = 45.0
"""How long a piece of work may take, in seconds; less than a step of the loop may, or the process is not alive."""

FIRST_PAUSE_SECONDS = 60.0
"""How long work that was given up is left alone, in seconds; twice as long each time after that."""

MAX_PAUSE_SECONDS = 3_600.0
"""How long at most, in seconds."""

MAX_LEFT = 8
"""How many pieces of work that were given up may still run at once."""

GoOn = Callable[[], None]
"""Called between the steps of work; raises ``GivenUpError`` once it is given up."""


class GivenUpError(Exception):
    """Work took too long; the message says so, and when it is tried again."""


def in_thread(work: Callable[[], T]) -> Future[T]:
    """Start ``work`` in a thread of its own, and return what it will return or raise.

    One that does not end takes no other's place, and none keeps the process from ending.
    """
    outcome: Future[T] = Future()
    # Whoever gives up waiting cancels nothing: the work goes on.
    outcome.set_running_or_notify_cancel()

    def to_the_end() -> None:
        try:
            outcome.set_result(work())
        except BaseException as error:  # noqa: BLE001 - whoever waits raises it
            outcome.set_exception(error)

    threading.Thread(
        target=copy_context().run, args=(to_the_end,), name="tidemark-limited", daemon=True
    ).start()
    return outcome


class LimitedRuns:
    """Runs work, and leaves alone for a while what took too long. For one thread.

    Args:
        steady: a clock that never jumps, in seconds.
        max_seconds: how long a piece of work may take, in seconds.
    """

    def __init__(self, steady: SteadyClock, max_seconds: float = MAX_SECONDS) -> None:
        self._steady = steady
        self._max_seconds = max_seconds
        self._given_up: dict[Hashable, tuple[int, float]] = {}
        self._left: dict[Hashable, Future[Any]] = {}

    def is_due(self, key: Hashable) -> bool:
        """Return whether work may be tried: it was not given up, or long enough ago, and has ended."""
        if key not in self._given_up:
            return True
        left = self._left.get(key)
        return (left is None or left.done()) and self._steady() >= self._given_up[key][1]

    def run(self, key: Hashable, work: Callable[[GoOn], T]) -> T:
        """Return what ``work`` returns, or raise what it raises.

        Args:
            key: what the work is about.
            work: the work; it calls its argument between its steps.

        Raises:
            GivenUpError: when it takes too long.
        """
        self._left = {what: left for what, left in self._left.items() if not left.done()}
        while len(self._left) >= MAX_LEFT:
            wait(self._left.values(), return_when="FIRST_COMPLETED")
            self._left = {what: left for what, left in self._left.items() if not left.done()}
        given_up = threading.Event()

        def go_on() -> None:
            if given_up.is_set():
                raise GivenUpError("given up before this step")

        outcome = in_thread(lambda: work(go_on))
        wait([outcome], self._max_seconds)
        if not outcome.done():
            given_up.set()
            self._left[key] = outcome
            raise GivenUpError(self._leave_alone(key))
        self._given_up.pop(key, None)
        return outcome.result()

    def _leave_alone(self, key: Hashable) -> str:
        times = self._given_up.get(key, (0, 0.0))[0] + 1
        # No power of a number that grows for months.
        pause_s = min(FIRST_PAUSE_SECONDS * 2 ** min(times - 1, 10), MAX_PAUSE_SECONDS)
        self._given_up[key] = times, self._steady() + pause_s
        return (
            f"given up after {format_number(self._max_seconds)} s; tried again in {format_number(pause_s)} s"
        )


Pause = Callable[[], None]
"""Waits a short time while more urgent work waits, then returns."""


def no_pause() -> None:
    """Do not wait."""


class Watchdog:
    """Measures the time since the last progress. Safe to call from several threads.

    Args:
        steady: a clock that never jumps, in seconds.
    """

    def __init__(self, steady: SteadyClock) -> None:
        self._steady = steady
        self._progressed_s = steady()

    def progressed(self) -> None:
        """Note that a step has ended."""
        self._progressed_s = self._steady()

    @property
    def idle_seconds(self) -> float:
        """Seconds since the last step ended; before the first, since the watchdog was made."""
        return self._steady() - self._progressed_s


_log = logging.getLogger(__name__)


class TickingThread:
    """Calls ``tick`` at intervals; one that fails is logged, and the next one comes all the same.

    Args:
        name: what ticks; the thread is named ``tidemark-`` and this.
        tick: what is called.
        every_seconds: time from the end of a tick to the next one, in seconds.
        stop_seconds: how long ``stop`` waits for the tick under way, in seconds.
        at_once: whether the first tick comes at the start, and not after that time.
    """

    def __init__(
        self,
        name: str,
        tick: Callable[[], object],
        every_seconds: float,
        *,
        stop_seconds: float,
        at_once: bool = False,
    ) -> None:
        self._tick = tick
        self._every_seconds = every_seconds
        self._stop_seconds = stop_seconds
        self._at_once = at_once
        self.stopping = threading.Event()
        """Set once it is to stop; a tick that waits can wait for it."""
        self._thread = threading.Thread(target=self._run, name=f"tidemark-{name}", daemon=True)

    @property
    def alive(self) -> bool:
        """Whether the thread runs."""
        return self._thread.is_alive()

    def start(self) -> None:
        """Start to tick."""
        self._thread.start()

    def stop(self) -> None:
        """Wait for the tick under way, and tick no more; also before the start."""
        self.stopping.set()
        if self._thread.ident is not None:
            self._thread.join(self._stop_seconds)

    def _run(self) -> None:
        while not self.stopping.wait(0 if self._at_once else self._every_seconds):
            self._at_once = False
            try:
                self._tick()
            except Exception:  # noqa: BLE001 - the next tick tries again
                _log.exception("a tick of %s failed; the next one tries again", self._thread.name)
