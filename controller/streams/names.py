"""Streams picked by their names, many by one statement."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sqlalchemy import Select, String, and_, select

from tidemark.controller.db.statements import given, given_rows
from tidemark.controller.db.tables import StreamRow


def named_streams(dialect: str, *columns: Any) -> Select[Any]:
    """Return a query for the rows of named streams.

    SQLite uses no index for a list of pairs (``(job, stream) IN (VALUES ...)``), so the names are joined.

    Args:
        dialect: the database's, sqlite or postgresql.
        columns: what to select.
    """
    named = given_rows(dialect, {"job": String(), "stream": String()})
    return select(*columns).join(
        named, and_(StreamRow.job == named.c.job, StreamRow.stream == named.c.stream)
    )


def names_given(dialect: str, names: Iterable[tuple[str, str]]) -> dict[str, Any]:
    """Return the parameters for the names of streams, each of job and stream."""
    pairs = list(names)
    return given(dialect, {"job": [job for job, _ in pairs], "stream": [stream for _, stream in pairs]})
