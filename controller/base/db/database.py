"""The database: connections, transactions, and the version of the schema.

SQLite, with one writer at a time, is embedded and the default; PostgreSQL is for production. A commit is on disk when
it returns (``synchronous=FULL``), because an acknowledged report must survive a crash of the machine.
"""

from __future__ import annotations

import functools
import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from alembic.util import CommandError
from sqlalchemy import Connection, Engine, column, create_engine, event, inspect, select, table, text, update
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.exc import ArgumentError, DataError, DBAPIError, IntegrityError, SQLAlchemyError
from sqlalchemy.orm import Session
from sqlalchemy.pool import ConnectionPoolEntry

from tidemark.controller.base.db.checkpoints import MAX_PAGES, Checkpoints
from tidemark.controller.base.db.room import found_no_room, is_damaged, prove_room
from tidemark.controller.base.db.store_files import BUSY_SECONDS, StoreFiles, wait_for
from tidemark.controller.base.db.tables import StreamRow
from tidemark.controller.base.errors import StoreUnavailableError, StoreUnusableError
from tidemark.controller.base.store_url import shown_url, url_of
from tidemark.models.base.text import format_number


@dataclass(frozen=True, slots=True)
class Limits:
    """Maximum numbers; None for no limit."""

    streams: int | None = None
    """Streams of all jobs."""
    partitions: int | None = None
    """Partitions of one stream."""


NO_LIMITS = Limits()
"""No limit at all."""

CONNECTIONS = 10
"""How many connections a process opens at most by default."""

_POOL_SECONDS = 10.0
"""How long whoever needs a connection waits for one when all are in use."""

_PROOF_SECONDS = 5.0
"""How long a write that succeeded proves that the store takes writes."""

_MIGRATIONS = Path(__file__).parent / "migrations"

_MIGRATION_LOCK = 0x7469_6465
"""Key of the PostgreSQL advisory lock under which migrations run, so that two starting processes do not race."""

STORE_ERRORS = (SQLAlchemyError, StoreUnavailableError)
"""What reading and writing may raise when the store is at fault."""

_VERSION = table("alembic_version", column("version_num"))
# Built once: building it takes longer than running it.
_LOCKED_VERSION = select(_VERSION.c.version_num).with_for_update(read=True, key_share=True)

_WRITES = "tidemark_writes"

_POSTGRES: dict[str, Any] = {"pool_pre_ping": True}

# The connection used last has the newest pages: any other one drops its pages when it finds that somebody wrote.
_SQLITE: dict[str, Any] = {"pool_use_lifo": True}

_SQLITE_CACHE_KB = 16_384
"""Pages that a connection keeps. Of 150 streams, five reports read 84 pages with SQLite's 2 MB, and 21 with these."""


class Database:
    """The store's database.

    Args:
        url: SQLAlchemy URL of a SQLite file or of PostgreSQL.
        limits: how many streams and partitions it takes.
        connections: how many connections it opens at most; whoever needs one more waits.

    Raises:
        StoreUnusableError: when the URL cannot be understood or its driver is not installed.
    """

    def __init__(self, url: str, limits: Limits = NO_LIMITS, connections: int = CONNECTIONS) -> None:
        self.limits = limits
        """How many streams and partitions it takes."""
        try:
            parsed = url_of(url)
            self.name = shown_url(parsed)
            self.dialect = parsed.get_backend_name()
            if self.dialect not in {"sqlite", "postgresql"}:
                raise StoreUnusableError(
                    f"database {self.name}: only SQLite (sqlite:///tidemark.db) and PostgreSQL "
                    "(postgresql://user@host/name) are supported"
                )
            if self.dialect == "sqlite" and parsed.database in {None, "", ":memory:"}:
                raise StoreUnusableError(
                    f"database {self.name}: SQLite needs a file, as in sqlite:///tidemark.db"
                )
            self._engine = create_engine(
                parsed,
                creator=self._open,
                pool_size=connections,
                max_overflow=0,
                pool_timeout=_POOL_SECONDS,
                **(_POSTGRES if self.dialect == "postgresql" else _SQLITE),
                # An error is logged with its statement; its values are what callers sent.
                hide_parameters=True,
            )
        except ArgumentError:
            # The URL is not repeated: one that cannot be parsed may hold a password anywhere.
            raise StoreUnusableError(
                "the database URL cannot be understood; write sqlite:///tidemark.db or "
                "postgresql://user@host/name (TIDEMARK_DATABASE_URL)"
            ) from None
        except ModuleNotFoundError as error:
            raise StoreUnusableError(
                f"database {self.name}: its driver {error.name!r} is not installed"
            ) from None
        if self.dialect == "sqlite":
            _tune_sqlite(self._engine)
            self._reader: Engine = self._engine
            self._writer: Engine = self._engine.execution_options(**{_WRITES: True})
        else:
            # One snapshot for all statements of a reading transaction, as SQLite gives.
            self._reader = self._engine.execution_options(
                isolation_level="REPEATABLE READ", postgresql_readonly=True
            )
            self._writer = self._engine
        # SQLite lets one writer in and makes others poll; a lock of our own is fair and does not sleep.
        self._lock = threading.Lock()
        self._file = None if self.dialect == "postgresql" else Path(parsed.database or "")
        self._files = None if self._file is None else StoreFiles(self._file)
        self.checkpoints = None if self._files is None else Checkpoints(self._files.open, self._write_lock)
        self._listeners: list[Callable[[], None]] = []
        self.release_version = _release_version()
        """The schema revision of this release."""
        self.writable = True
        """Whether no attempt to write has failed on the store itself since something was last written."""
        self._written_s = -math.inf
        """When a write last succeeded, by a steady clock, in seconds."""
        self._full = False
        """Whether a write found no room: then a small one that succeeds, in a page that was free, proves nothing."""

    def when_answers_change(self, callback: Callable[[], None]) -> None:
        """Call ``callback`` whenever this process has committed a change of what is published to a job."""
        self._listeners.append(callback)

    @contextmanager
    def read(self) -> Iterator[Session]:
        """Open a session that reads one snapshot.

        Raises:
            StoreUnavailableError: when the database's file is no longer the one that was opened.
        """
        with self._watched(writes=False), Session(self._reader) as session:
            yield session

    @contextmanager
    def write(self, *, keep: bool = True) -> Iterator[Session]:
        """Open a session that commits at the end; it rolls back when the block raises, or without ``keep``.

        Raises:
            StoreUnavailableError: when another release has migrated the database, or its file is no longer the one
                that was opened; a write would count wrong, or be lost.
        """
        with self._write_lock(), self._watched(writes=True), Session(self._writer) as session:
            with session.begin() as transaction:
                self._check_schema(session)
                # On PostgreSQL the lock on the schema's version is a write already.
                before = _changes(session) if self.dialect == "sqlite" else -1
                yield session
                if not keep:
                    transaction.rollback()
                    return
                changed = False
                if transaction.is_active:  # the block may have rolled it back
                    session.flush()
                    changed = before < 0 or _changes(session) > before
            self._check_files()  # what went into a log that was taken away meanwhile is lost
            if changed:
                # A transaction without changes succeeds on a full disk too, and proves nothing.
                self.writable, self._written_s = not self._full, time.monotonic()
            if self.checkpoints is not None:
                self.checkpoints.due()

    def prove_writable(self) -> None:
        """Read, write and commit something that changes nothing, unless a write has succeeded just before.

        A probe must not wait behind the writes of a busy controller to find that it can write. After a write that found
        no room it writes as much as a large report needs, and deletes that again.

        Raises:
            sqlalchemy.exc.SQLAlchemyError: when the database cannot be reached, or takes no writes.
            StoreUnavailableError: as ``write`` does.
        """
        if self.writable and time.monotonic() - self._written_s < _PROOF_SECONDS:
            self._check_files()
            return
        with self.read() as session:
            session.scalar(select(_VERSION.c.version_num))
        if self._full:
            prove_room(self.write, self.dialect)
            self._full = False
        with self.write() as session:
            session.execute(update(_VERSION).values(version_num=_VERSION.c.version_num))

    @contextmanager
    def _write_lock(self) -> Iterator[None]:
        """Let one write in at a time where the database does, and wait no longer than that takes."""
        if self._files is not None and not self._lock.acquire(timeout=BUSY_SECONDS):
            self.writable = False
            raise StoreUnavailableError(f"another write has not ended within {format_number(BUSY_SECONDS)} s")
        try:
            yield
        finally:
            if self._files is not None:
                self._lock.release()

    @contextmanager
    def _watched(self, *, writes: bool) -> Iterator[None]:
        """Note what is wrong with the store; what is wrong with a value or a key is not its fault."""
        try:
            self._check_files()
            yield
        except (IntegrityError, DataError):
            raise
        except (DBAPIError, StoreUnavailableError) as error:
            self.writable = self.writable and not writes
            if isinstance(error, DBAPIError):
                self._full = self._full or (writes and found_no_room(error))
                if self._files is not None and is_damaged(error):
                    self._files.damage = str(error.orig)
            raise

    def _open(self) -> Any:
        """Open a connection of the driver."""
        dialect = self._engine.dialect
        arguments, options = dialect.create_connect_args(self._engine.url)
        if self._files is None:
            from tidemark.controller.base.db.postgres import connect  # noqa: PLC0415 - an extra

            return connect(options)
        self._files.open()
        self._files.check()  # a new connection would make what was taken away, empty
        return dialect.connect(*arguments, **options)

    def _check_files(self) -> None:
        if self._files is not None:
            self._files.check()

    def _check_schema(self, session: Session) -> None:
        """Check that the database has this release's schema, until the transaction ends.

        On PostgreSQL the lock keeps a migration of another release waiting; on SQLite there is one writer.
        """
        has = session.connection().execute(_LOCKED_VERSION).scalar_one_or_none()
        if has != self.release_version:
            raise StoreUnavailableError(
                f"the schema is at migration {has or 'none'}, this release wants {self.release_version}: another "
                "release has migrated the database; update this controller"
            )

    def answers_changed(self) -> None:
        """Call the callbacks; call it after the commit of whatever may change what is published to a job."""
        for callback in self._listeners:
            callback()

    def migrate(self, *, only_known: bool = False) -> None:
        """Migrate the schema to this release's, in one transaction.

        Args:
            only_known: whether a database without a store is refused, and no file is made.

        Raises:
            StoreUnusableError: when the database cannot be opened, or was made by a newer release.
        """
        nothing = f"database {self.name}: there is no store; check the address of the database"
        if self._file is not None and not self._file.parent.is_dir():
            raise StoreUnusableError(f"database {self.name}: there is no folder {self._file.parent}")
        if only_known and self._file is not None and not self._file.exists():
            raise StoreUnusableError(nothing)
        try:
            with self._write_lock(), self._writer.begin() as connection:
                if self.dialect == "postgresql":
                    _take_time(connection)
                    connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _MIGRATION_LOCK})
                version = select(_VERSION.c.version_num)
                tables = inspect(connection)
                if not tables.has_table(_VERSION.name) and tables.has_table(StreamRow.__tablename__):
                    raise StoreUnusableError(
                        f"database {self.name}: it has a table {StreamRow.__tablename__!r} but no {_VERSION.name!r}, "
                        "so its schema is not known; restore a whole backup, or name another database"
                    )
                if only_known and not tables.has_table(_VERSION.name):
                    raise StoreUnusableError(nothing)
                if tables.has_table(_VERSION.name):
                    if connection.scalar(version) == self.release_version:
                        return  # also on a standby, which takes no lock
                    if self.dialect == "postgresql":
                        # Writes of other replicas end first; those that begin later wait, and see the new version. Not
                        # a lock on the row, which writes share: the next one would be let in before this.
                        connection.execute(text("LOCK TABLE alembic_version IN EXCLUSIVE MODE"))
                command.upgrade(_migrations(connection), "head")
                # Replicas of the release before can write no more: nobody need wait until their leases run out.
                connection.execute(text("DELETE FROM replicas"))
        except CommandError as error:
            raise StoreUnusableError(
                f"database {self.name}: this release does not know its schema ({error}); was it made by a newer one?"
            ) from error
        except DBAPIError as error:
            why = str(error.orig).strip().splitlines()
            raise StoreUnusableError(
                f"database {self.name}: {why[0] if why else type(error.orig).__name__}"
            ) from error
        except (SQLAlchemyError, StoreUnavailableError) as error:
            raise StoreUnusableError(f"database {self.name}: {error}") from error

    @contextmanager
    def connect(self) -> Iterator[Connection]:
        """Open a plain connection that may write, for tools that compare schemas."""
        with self._writer.connect() as connection:
            yield connection

    def start(self) -> None:
        """Start the background work of a server: on SQLite, checkpoints, and a look at each page."""
        if self.checkpoints is not None and self._files is not None:
            self.checkpoints.start()
            threading.Thread(target=self._files.check_pages, daemon=True).start()

    def close(self) -> None:
        """Stop the background work, wait for the sessions of other threads and close all connections."""
        if self.checkpoints is not None:
            self.checkpoints.stop()
            pool: Any = self._engine.pool
            wait_for(lambda: not pool.checkedout())  # the last connection takes the log away
        self._engine.dispose()
        if self._files is not None:
            self._files.close()


def _take_time(connection: Connection) -> None:
    """Let what a migration does take as long as it needs, on this connection alone."""
    from tidemark.controller.base.db.postgres import MIGRATION_SECONDS  # noqa: PLC0415 - an extra

    driver: Any = connection.connection.driver_connection
    driver.answer_seconds = MIGRATION_SECONDS
    connection.execute(text(f"SET statement_timeout = '{MIGRATION_SECONDS}s'"))
    connection.detach()


def _changes(session: Session) -> int:
    """Return how many rows a connection to SQLite has changed so far."""
    driver: Any = session.connection().connection.driver_connection
    return int(driver.total_changes)


@functools.cache
def _release_version() -> str | None:
    return ScriptDirectory.from_config(_migrations()).get_current_head()


def _migrations(connection: Connection | None = None) -> Config:
    config = Config()
    # A percent sign in the path would be read as an interpolation.
    config.set_main_option("script_location", str(_MIGRATIONS).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    return config


def _tune_sqlite(engine: Engine) -> None:
    @event.listens_for(engine, "connect")
    def _connected(connection: DBAPIConnection, _: ConnectionPoolEntry) -> None:
        # The driver must not begin transactions by itself; _begin does.
        connection.isolation_level = None
        cursor = connection.cursor()
        cursor.execute(f"PRAGMA busy_timeout={round(BUSY_SECONDS * 1_000)}")
        cursor.execute("PRAGMA synchronous=FULL")
        cursor.execute("PRAGMA foreign_keys=ON")
        cursor.execute(f"PRAGMA cache_size=-{_SQLITE_CACHE_KB}")
        cursor.execute(f"PRAGMA wal_autocheckpoint={MAX_PAGES}")
        cursor.close()

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        # A writer takes its lock at once: one that reads first and writes later could find its snapshot stale.
        writes = connection.get_execution_options().get(_WRITES, False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")
