"""Copies of a store: a backup of SQLite, and a store that is restored, each whole or refused."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from sqlalchemy import text
from sqlalchemy.exc import SQLAlchemyError

from tidemark.controller.base.db.database import Database
from tidemark.controller.base.db.epoch import renew_epoch
from tidemark.controller.base.db.store_files import StoreFiles, take_over
from tidemark.controller.base.errors import StoreUnusableError
from tidemark.controller.base.store_url import url_of
from tidemark.controller.base.whole_file import whole_file

_OTHER_SESSIONS = text(
    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() "
    "AND application_name = 'tidemark'"
)


def back_up(url: str, file: Path) -> None:
    """Write a whole copy of a SQLite store to a file that is not there yet; a controller may run meanwhile.

    Raises:
        StoreUnusableError: when there is no such store, it is not whole, or the file cannot be written.
    """
    store = _sqlite_file(url)
    if store is None:
        raise StoreUnusableError("PostgreSQL has its own tools: pg_dump --format=custom --file=FILE")
    if file.exists():
        raise StoreUnusableError(f"{file} exists; name a file that does not")
    with _one_line(), whole_file(file) as unfinished, closing(StoreFiles(_existing(store))) as files:
        _copy(files.open(), unfinished)


def restore(url: str, file: Path | None) -> str:
    """Replace a store that no controller has open by a backup; return its new epoch.

    Args:
        file: a backup of SQLite; None takes the store as it is, such as what PostgreSQL's tools have restored.

    Raises:
        StoreUnusableError: when it is in use, or the backup is not whole; then the store is as it was.
    """
    store = _sqlite_file(url)
    with _one_line():
        if store is None:
            if file is not None:
                raise StoreUnusableError("PostgreSQL has its own tools: pg_restore; then tidemark restore")
            return _renew(url)
        with whole_file(store) as unfinished:
            source = _existing(store if file is None else file).resolve()
            # A backup may be where nothing can be written, and who only reads leaves the log of a store where it is.
            how = "?mode=ro" if Path(f"{source}-wal").exists() else "" if file is None else "?immutable=1"
            with closing(sqlite3.connect(source.as_uri() + how, uri=True, isolation_level=None)) as opened:
                _copy(opened, unfinished)
            epoch = _renew(f"sqlite:///{unfinished}")
            take_over(store)
        return epoch


def _sqlite_file(url: str) -> Path | None:
    parsed = url_of(url)
    return Path(parsed.database or "").resolve() if parsed.get_backend_name() == "sqlite" else None


def _existing(file: Path) -> Path:
    if not file.is_file():
        raise StoreUnusableError(f"{file}: there is no store; check the address of the database")
    return file


def _renew(url: str) -> str:
    with closing(Database(url, connections=1)) as database:
        database.migrate(only_known=True)
        with database.write() as session:
            if database.dialect == "postgresql" and (others := session.scalar(_OTHER_SESSIONS)):
                raise StoreUnusableError(
                    f"database {database.name}: stop every controller first; {others} sessions use it"
                )
            return renew_epoch(session)


def _copy(source: sqlite3.Connection, file: Path) -> None:
    """Copy a store, and check that the copy is whole and has as many rows; it needs no log."""
    with closing(sqlite3.connect(file, isolation_level=None)) as copy:
        source.execute("BEGIN")
        rows = _rows(source)
        source.backup(copy)
        source.execute("COMMIT")
        copy.execute("PRAGMA journal_mode=DELETE")
        for check in ("PRAGMA integrity_check(1)", "PRAGMA foreign_key_check"):
            fault = copy.execute(check).fetchone()
            if fault not in {None, ("ok",)}:
                raise StoreUnusableError(f"the store is not whole: {' '.join(map(str, fault))}")
        if _rows(copy) != rows:
            raise StoreUnusableError("the store is not whole: its copy has other rows")


def _rows(connection: sqlite3.Connection) -> list[int]:
    names = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name").fetchall()
    counts = (f'SELECT count(*) FROM "{name}"' for (name,) in names)  # noqa: S608 - its own names
    return [connection.execute(count).fetchone()[0] for count in counts]


@contextmanager
def _one_line() -> Iterator[None]:
    try:
        yield
    except (OSError, sqlite3.Error, SQLAlchemyError) as error:
        raise StoreUnusableError(str(getattr(error, "orig", error)).strip().splitlines()[0]) from error
