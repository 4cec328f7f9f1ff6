"""Empty stores in no time: the migrations run once in a process, and each test is given a copy of what they made."""

from __future__ import annotations

import functools
import tempfile
from pathlib import Path
from uuid import uuid4

from sqlalchemy import create_engine, make_url, text

from tidemark.controller.base.db.database import Database
from tidemark.controller.base.store_url import url_of

__all__ = [
    "bare_postgres",
    "copy_postgres",
    "new_postgres",
    "open_empty",
    "put_sqlite",
]

_migrated: set[str] = set()
"""URLs of the stores that were made here with all their tables."""


def put_sqlite(url: str, content: bytes | None = None) -> None:
    """Put a store where ``url`` names a SQLite file that is not there yet; leave any other database alone.

    Args:
        url: URL of any database.
        content: the file of a store with all its tables; an empty store when None.
    """
    parsed = url_of(url)
    if parsed.get_backend_name() == "sqlite" and parsed.database and not Path(parsed.database).exists():
        Path(parsed.database).write_bytes(_empty_sqlite() if content is None else content)
        _migrated.add(url)


def open_empty(url: str) -> Database:
    """Open an empty store: a SQLite file that is not there yet, or a PostgreSQL that ``new_postgres`` made."""
    put_sqlite(url)
    assert url in _migrated, url
    return Database(url)


def new_postgres(server_url: str) -> str:
    """Make an empty store on the PostgreSQL at ``server_url`` and return its URL."""
    return copy_postgres(server_url, _empty_postgres(server_url))


def copy_postgres(server_url: str, template_url: str) -> str:
    """Copy a store with all its tables, which nobody uses now, and return the copy's URL."""
    url = bare_postgres(server_url, f" TEMPLATE {make_url(template_url).database}")
    _migrated.add(url)
    return url


def bare_postgres(server_url: str, options: str = "") -> str:
    """Make a database without any table on the PostgreSQL at ``server_url`` and return its URL."""
    name = f"tidemark_{uuid4().hex}"
    engine = create_engine(server_url, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(text(f"CREATE DATABASE {name}{options}"))
    engine.dispose()
    return make_url(server_url).set(database=name).render_as_string(hide_password=False)


@functools.cache
def _empty_sqlite() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "empty.db"
        _migrate(f"sqlite:///{path}")
        return path.read_bytes()


@functools.cache
def _empty_postgres(server_url: str) -> str:
    url = bare_postgres(server_url)
    _migrate(url)
    return url


def _migrate(url: str) -> None:
    store = Database(url)
    store.migrate()
    store.close()
