"""Whether a store has room: after a write that found none, a small one that succeeds proves nothing.

It may fit in a page that was free. So as much is written as a large report needs, and deleted again.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from contextlib import AbstractContextManager

from sqlalchemy import LargeBinary, column, insert, table, text
from sqlalchemy.exc import DBAPIError, ProgrammingError
from sqlalchemy.orm import Session

_PROOF = table("tidemark_proof_of_room", column("filler", LargeBinary))
"""Exists only while it is proved that a full store has room again."""

_TYPES = {"sqlite": "BLOB", "postgresql": "BYTEA"}

_BYTES = 1024 * 1024
"""More than a report of thousands of numbers takes with all that is stored of it."""

_POSTGRES_DISK_FULL = "53100"


def found_no_room(error: DBAPIError) -> bool:
    """Return whether an error says that a disk, a quota or a file's limit is full, or cannot be written."""
    code = getattr(error.orig, "sqlite_errorcode", None)
    if code is not None:
        # The upper bits of a code tell details.
        return code & 0xFF in {sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR}
    return getattr(error.orig, "sqlstate", None) == _POSTGRES_DISK_FULL


def is_damaged(error: DBAPIError) -> bool:
    """Return whether SQLite says that its file is damaged, or is none of its files."""
    code = getattr(error.orig, "sqlite_errorcode", 0)
    return code & 0xFF in {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}


def prove_room(write: Callable[[], AbstractContextManager[Session]], dialect: str) -> None:
    """Write and commit much, and delete it again, where the database lets us make a table.

    Args:
        write: opens a transaction.
        dialect: of the database.

    Raises:
        sqlalchemy.exc.DBAPIError: when there is no room.
    """
    try:
        with write() as session:
            session.execute(text(f"CREATE TABLE IF NOT EXISTS {_PROOF.name} (filler {_TYPES[dialect]})"))
            # At random: PostgreSQL compresses what it can.
            session.execute(insert(_PROOF).values(filler=os.urandom(_BYTES)))
    except ProgrammingError:
        return  # it may not create a table, so the next report will tell
    with write() as session:
        session.execute(text(f"DROP TABLE IF EXISTS {_PROOF.name}"))
