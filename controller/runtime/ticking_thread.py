"""A thread that calls a function at intervals until it is stopped."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

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
