"""Checkpoints of SQLite: what is committed stands in the log (WAL), and has to be moved into the file now and then.

Left to itself SQLite does so within the commit that makes the log long, and whoever waits for that commit waits for a
thousand pages all over the file. Here a thread does it, beside the writers; only what they wrote meanwhile is moved
while they wait, since the log begins anew only when all of it is moved (https://sqlite.org/wal.html).
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, closing

from sqlalchemy import PoolProxiedConnection

__all__ = ["MAX_PAGES", "Checkpoints"]

_log = logging.getLogger(__name__)

EVERY_SECONDS = 2.0
"""Time between two checkpoints while there is something to move."""

MAX_PAGES = 8_000
"""Length of the log, in pages of 4 KiB, from which on a commit moves it after all: where no thread does or can."""

MAX_PASSES, SHORT_SECONDS = 4, 0.02
"""How often the log is moved beside the writers at the most: until that takes so short that little is left to move."""

STOP_TIMEOUT_SECONDS = 10.0
"""How long a shutdown waits for the checkpoint that is under way."""


class Checkpoints:
    """Takes checkpoints, in a thread of its own.

    Args:
        connect: opens a connection of the driver, outside of any transaction.
        turn: held by whoever writes.
    """

    def __init__(
        self, connect: Callable[[], PoolProxiedConnection], tick: AbstractContextManager[object]
    ) -> None:
        self._connect = connect
        self._tick = tick
        self._due = threading.Event()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="tidemark-checkpoints", daemon=True)

    def start(self) -> None:
        """Begin to take checkpoints."""
        self._thread.start()

    def stop(self) -> None:
        """Let the checkpoint under way end, and take no more; the last connection that closes moves the rest."""
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join(STOP_TIMEOUT_SECONDS)

    def due(self) -> None:
        """Say that something was committed."""
        self._due.set()

    def take(self) -> bool:
        """Move the log into the file; return whether all of it was moved, which who still reads the old can prevent.

        Raises:
            sqlalchemy.exc.SQLAlchemyError: when no connection can be had.
            Exception: what the driver raises when the disk does not take it.
        """
        with closing(self._connect()) as connection:
            for _ in range(MAX_PASSES):
                began = time.perf_counter()
                _move(connection)
                if time.perf_counter() - began < SHORT_SECONDS:
                    break
            with self._tick:
                return _move(connection)

    def _run(self) -> None:
        while not self._stop.wait(EVERY_SECONDS):
            if not self._due.is_set():
                continue
            self._due.clear()
            try:
                finished = self.take()
            except Exception as error:  # noqa: BLE001 - the next one tries again, and at last a commit does it
                _log.warning("what is committed could not be moved into the database's file yet: %s", error)
                finished = False
            if not finished:
                self._due.set()


def _move(connection: PoolProxiedConnection) -> bool:
    # Passive: waits for nobody, and nobody for it.
    cursor = connection.cursor()
    try:
        cursor.execute("PRAGMA wal_checkpoint(PASSIVE)")
        blocked, pages, moved = cursor.fetchone() or (1, -1, -1)
    finally:
        cursor.close()
    return not blocked and pages == moved
