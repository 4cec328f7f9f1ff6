"""Copies of a stream of a filled store, made by the database itself: a thousand streams in minutes."""

from __future__ import annotations

from typing import Any, cast

from sqlalchemy import Table, insert, literal, select, text

from tidemark.controller.base.db.database import Database
from tidemark.controller.base.db.tables import Base, ReportBodyRow, ReportRow, StreamRow

from support.full_store import FIRST_ID, stream_name

__all__ = ["copy_stream"]


def copy_stream(database: Database, number: int) -> None:
    """Copy the first stream of a filled store, with all that is stored of it, to the stream of a number."""
    stream_id, shift = number + 1, number * FIRST_ID
    job, stream = stream_name(number)
    with database.write() as session:
        for table in Base.metadata.sorted_tables:
            changes: dict[str, Any] = {}
            if table.name == StreamRow.__tablename__:
                changes = {"id": stream_id, "job": job, "stream": stream}
                which = table.c.id == 1
            elif table.name == ReportBodyRow.__tablename__:
                changes = {"report_id": table.c.report_id + shift}
                which = table.c.report_id < 2 * FIRST_ID
            elif "stream_id" in table.c:
                changes = {"stream_id": stream_id}
                which = table.c.stream_id == 1
                if table.name == ReportRow.__tablename__:
                    changes["id"] = table.c.id + shift
                for name in ("last_report_id", "counted_report_id"):
                    if name in table.c:
                        changes[name] = table.c[name] + shift
            else:
                continue
            session.execute(_copied(table, which, changes))
        if session.get_bind().dialect.name == "postgresql":
            for name in ("streams", "reports", "acknowledgements"):
                last = f"SELECT setval(pg_get_serial_sequence('{name}', 'id'), max(id)) FROM {name}"
                session.execute(text(last))


def _copied(table: Table, which: Any, changes: dict[str, Any]) -> Any:
    # A table's own numbers are given anew.
    columns = [
        column
        for column in table.c
        if column.name in changes or not (column.name == "id" and column.primary_key)
    ]
    values = [cast("Any", _value(column, changes)) for column in columns]
    return insert(table).from_select([column.name for column in columns], select(*values).where(which))


def _value(column: Any, changes: dict[str, Any]) -> Any:
    found = changes.get(column.name, column)
    return found if hasattr(found, "compare") else literal(found)
