"""Deletes a bounded number of rows, so that no transaction holds the store's one writer for long."""

from __future__ import annotations

from sqlalchemy import ColumnElement, Table, delete, select, tuple_
from sqlalchemy.orm import Session

MAX_ROWS = 2_000
"""How many rows one step deletes at most."""


def delete_some(session: Session, table: Table, *which: ColumnElement[bool], limit: int = MAX_ROWS) -> bool:
    """Delete up to ``limit`` rows that ``which`` picks, without loading them; return False when there were none."""
    key = table.primary_key.columns.values()
    # A row value of one column is no row value on SQLite.
    named = tuple_(*key) if len(key) > 1 else key[0]
    some = select(*key).where(*which).limit(limit)
    deleted = session.execute(
        delete(table).where(named.in_(some)), execution_options={"synchronize_session": False}
    )
    count: int = deleted.rowcount  # type: ignore[attr-defined]  # a deletion has it
    return count > 0
