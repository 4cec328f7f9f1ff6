"""Checkpoints of SQLite: they move what is committed from the log (WAL) into the file.

By itself SQLite does so within the commit that makes the log long, and that commit waits for a thousand pages all over
the file. Here a thread does it beside the writers. They wait only while the pages that they wrote meanwhile are moved,
since the log starts over only when all of it is moved (https://sqlite.org/wal.html).
"""

from __future__ import annotations

import logging
import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager

from tidemark.controller.base.background import TickingThread

_log = logging.getLogger(__name__)

EVERY_SECONDS = 2.0
"""Time between two checkpoints while there is something to move."""

MAX_PAGES = 8_000
"""Length of the log, in pages of 4 KiB, from which on a commit moves it: when no thread does or can."""

_MAX_PASSES, _SHORT_SECONDS = 4, 0.02
"""Maximum number of passes beside the writers; they end when one is so short that little is left to move."""

_STOP_TIMEOUT_SECONDS = 10.0
"""How long a shutdown waits for the checkpoint that is under way."""


class Checkpoints:
    """Takes checkpoints, in a thread of its own.

    Args:
        connect: returns a connection of the driver, outside of any transaction.
        write_lock: returns what writers hold.
    """

    def __init__(
        self,
        connect: Callable[[], sqlite3.Connection],
        write_lock: Callable[[], AbstractContextManager[object]],
    ) -> None:
        self._connect = connect
        self._write_lock = write_lock
        self._due = threading.Event()
        self._thread = TickingThread(
            "checkpoints", self._take_if_due, EVERY_SECONDS, stop_seconds=_STOP_TIMEOUT_SECONDS
        )

    def start(self) -> None:
        """Start to take checkpoints."""
        self._thread.start()

    def stop(self) -> None:
        """Wait for the checkpoint under way and take no more; the last connection that closes moves the rest."""
        self._thread.stop()

    def due(self) -> None:
        """Note that something was committed."""
        self._due.set()

    def take(self) -> bool:
        """Move the log into the file; return whether all of it was moved, which readers of old pages can prevent.

        Raises:
            Exception: what the driver raises when the disk does not take it.
        """
        connection = self._connect()
        for _ in range(_MAX_PASSES):
            began = time.perf_counter()
            _move(connection)
            if time.perf_counter() - began < _SHORT_SECONDS:
                break
        with self._write_lock():
            return _move(connection)

    def _take_if_due(self) -> None:
        if not self._due.is_set():
            return
        self._due.clear()
        try:
            finished = self.take()
        except Exception as error:  # noqa: BLE001 - the next one tries again, and in the end a commit does it
            _log.warning("the log could not be moved into the database file yet: %s", error)
            finished = False
        if not finished:
            self._due.set()


def _move(connection: sqlite3.Connection) -> bool:
    # Passive: waits for nobody, and nobody for it.
    blocked, pages, moved = connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone() or (1, -1, -1)
    return not blocked and pages == moved
