"""The files of a SQLite store: the database, its log (`-wal`) and the log's index (`-shm`) are one store.

A log that is played over another file, or a file without its log, loses what was acknowledged, and SQLite says nothing.
So a closed store is the file alone, whose header says that it has no log, and an open one has a log that is not empty:
whoever merely looks at a file without its log leaves an empty one. A file that does not fit what is beside it is
refused, and so is everything once one of the three is not the one that was opened.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from tidemark.controller.base.errors import StoreUnavailableError, StoreUnusableError

BUSY_SECONDS = 10.0
"""How long a write waits for another one."""

_CLOSED, _OPEN = 0, 1
"""The file's user version. While it says closed, all that was acknowledged is in the file, whatever is beside it."""

_RETRY_SECONDS, _RETRIES = 0.05, 40
"""A store that another process opens or closes may look as if it did not fit for a moment."""


class StoreFiles:
    """The three files of one store while it is open."""

    def __init__(self, file: Path) -> None:
        self._file = file.resolve()  # SQLite names the log after what a link leads to
        self._log = Path(f"{self._file}-wal")
        self._lock = threading.Lock()
        self._keeper: sqlite3.Connection | None = None
        self._opened: dict[str, tuple[int, int] | None] = {}
        self.damage: str | None = None
        """What SQLite said of a file that is damaged, which nothing that succeeds later mends."""

    def open(self) -> sqlite3.Connection:
        """Return the connection that keeps the log while others come and go; the first call opens the store.

        Raises:
            StoreUnusableError: when the log is not the file's, or is missing.
            sqlite3.Error: when the file cannot be opened.
        """
        with self._lock:
            if self._keeper is not None:
                return self._keeper
            with _one_at_a_time(self._file):
                begun = self._check_log()
                with suppress(OSError):
                    self._log.touch()  # before the header says that there is one
                keeper = sqlite3.connect(
                    self._file, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False
                )
                try:
                    if not begun:
                        _begin_log(keeper)
                    keeper.execute("SELECT count(*) FROM sqlite_master").fetchone()
                except BaseException:
                    _end(keeper)
                    raise
                self._opened = {
                    f"{self._file}{part}": _identity(f"{self._file}{part}") for part in ("", "-wal", "-shm")
                }
                self._keeper = keeper
            return keeper

    def check(self) -> None:
        """Check that the files are those that were opened, and whole.

        Raises:
            StoreUnavailableError: when one of them was removed or replaced, or is damaged.
        """
        if self.damage is not None:
            raise StoreUnavailableError(
                f"the database file {self._file} is damaged ({self.damage}): tidemark restore FILE"
            )
        for part, opened in self._opened.items():
            if _identity(part) != opened:
                raise StoreUnavailableError(
                    f"the database file {part} was removed or replaced while the controller ran, so nothing is "
                    "acknowledged; put it back, or restart the controller"
                )

    def close(self) -> None:
        """Close the store; unless another process has it open, all of it is in the file then."""
        keeper, self._keeper = self._keeper, None
        if keeper is None:
            return
        # Of two that close it at the same time each would see the other, and neither would say that it is closed.
        with _one_at_a_time(self._file):
            # Where the log was taken away, this connection still has it.
            if _identity(str(self._file)) == self._opened[str(self._file)]:
                _end(keeper)
            else:
                keeper.close()
            self._opened = {}

    def check_pages(self) -> None:
        """Note the damage of a store whose file was written over: SQLite reads all of it for that."""
        # It may be the last to close, and one that only reads leaves the log where it is.
        only_reads = f"{self._file.as_uri()}?mode=ro"
        with suppress(sqlite3.OperationalError), closing(sqlite3.connect(only_reads, uri=True)) as alone:
            try:
                (answer,) = alone.execute("PRAGMA quick_check(1)").fetchone()
            except sqlite3.DatabaseError as error:
                answer = str(error)
            if answer != "ok":
                self.damage = " ".join(answer.split())

    def _check_log(self) -> bool:
        """Return whether the store has a log that holds commits, and says so."""
        problem = None
        for _ in range(_RETRIES):
            length = self._log.stat().st_size if self._log.exists() else 0
            wants_log, version = _header(self._file)
            problem = None
            if wants_log and version != _CLOSED and not length:
                problem = (
                    f"it was not closed, and its log {self._log} is missing or empty, with what was acknowledged last; "
                    "put that back, or take the file as it is (tidemark restore)"
                )
            elif length and not wants_log:
                problem = f"the log {self._log} is of another file"
            if problem is None:
                return length > 0 and version != _CLOSED
            time.sleep(_RETRY_SECONDS)
        raise StoreUnusableError(
            f"database file {self._file}: {problem}; a backup is restored by tidemark restore FILE"
        )


def wait_for(condition: Callable[[], bool]) -> None:
    """Wait until a condition holds, as long as a write waits for another one and no longer."""
    end_s = time.monotonic() + BUSY_SECONDS
    while not condition() and time.monotonic() < end_s:
        time.sleep(_RETRY_SECONDS)


@contextmanager
def _one_at_a_time(file: Path) -> Iterator[None]:
    """Let one process at a time open or close the stores of a folder; whoever waits too long goes on without."""
    try:
        # Not the file: to close it drops every lock that this process has on it.
        folder = os.open(file.parent, os.O_RDONLY)
    except OSError:
        yield
        return
    try:
        wait_for(lambda: _takes_lock(folder))
        yield
    finally:
        os.close(folder)


def _takes_lock(folder: int) -> bool:
    """Return whether the wait for a folder's lock is over: it is taken, or the file system has none."""
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True


def take_over(file: Path) -> None:
    """Leave nothing beside a store that is about to be replaced, whatever state it is in.

    Raises:
        StoreUnusableError: when a process has it open.
    """
    try:
        with closing(sqlite3.connect(file, timeout=1, isolation_level=None)) as alone:
            alone.execute("PRAGMA locking_mode=EXCLUSIVE")
            alone.execute("PRAGMA journal_mode=DELETE")
    except sqlite3.DatabaseError as error:
        if error.sqlite_errorcode == sqlite3.SQLITE_BUSY:
            raise StoreUnusableError(
                f"database file {file}: stop every controller first; it is in use"
            ) from None
    for part in ("-wal", "-shm"):
        Path(f"{file}{part}").unlink(missing_ok=True)


def _header(file: Path) -> tuple[bool, int]:
    """Return whether a file's newest commits are in a log, and its user version (https://sqlite.org/fileformat.html)."""
    # To close a file drops every lock that this process has on it, so this comes before any connection.
    try:
        with file.open("rb") as opened:
            header = opened.read(64)
    except OSError:
        header = b""
    return header[18:19] == b"\2", int.from_bytes(header[60:64], "big")


def _identity(path: str) -> tuple[int, int] | None:
    """Return what tells a file from another one of its name; None without a file."""
    try:
        status = os.stat(path)  # noqa: PTH116 - three times in each transaction
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _end(keeper: sqlite3.Connection) -> None:
    """Close a connection; unless the store is open elsewhere, all of it is in the file then, and the file says so."""
    with suppress(sqlite3.Error):
        keeper.rollback()  # a copy that failed or was interrupted
        keeper.execute("PRAGMA busy_timeout=0")
        keeper.execute("PRAGMA journal_mode=DELETE")
        keeper.execute(f"PRAGMA user_version={_CLOSED}")
    keeper.close()


def _begin_log(connection: sqlite3.Connection) -> None:
    """Give a store its log, and let the file itself say so, before anything is acknowledged."""
    # Of two connections that switch a new file at the same time, SQLite fails one at once, whatever its timeout is.
    end_s = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            connection.execute(f"PRAGMA user_version={_CLOSED}")
            connection.execute("PRAGMA journal_mode=WAL")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > end_s:
                raise
            time.sleep(_RETRY_SECONDS)
        else:
            break
    connection.execute(f"PRAGMA user_version={_OPEN}")
    connection.execute("PRAGMA wal_checkpoint(PASSIVE)")
