"""Compiled statements for all engines of a process: SQLAlchemy keeps them by engine, and each test has its own.

Compiling the statements of a controller's first turn takes several times as long as running them.
"""

from __future__ import annotations

import functools
from typing import Any

import sqlalchemy
from sqlalchemy import URL, Engine
from sqlalchemy.exc import DBAPIError

from tidemark.controller.base.db import database

__all__ = ["share_statements"]

STATEMENTS = 5_000
"""More than the product has."""

_first: dict[str, Engine] = {}
"""The first engine of each kind of database, whose dialect and statements the others use."""


@functools.cache
def share_statements() -> None:
    """Let all stores that are opened from now on share what they have compiled."""
    database.create_engine = _shared_engine  # type: ignore[assignment, attr-defined]


def _shared_engine(url: URL, **options: Any) -> Engine:
    engine = sqlalchemy.create_engine(url, query_cache_size=STATEMENTS, **options)
    first = _first.get(engine.dialect.name)
    if first is None:
        _keep(engine, url)
        return engine
    engine.dialect = engine.pool._dialect = first.dialect
    engine._compiled_cache = first._compiled_cache
    return engine


def _keep(engine: Engine, url: URL) -> None:
    """Keep the first engine that can be used: a dialect knows its server from the first connection on."""
    if engine.dialect.name == "sqlite":
        engine = sqlalchemy.create_engine("sqlite://", query_cache_size=STATEMENTS)
    else:
        engine = sqlalchemy.create_engine(url, query_cache_size=STATEMENTS)
    try:
        with engine.connect():
            _first[engine.dialect.name] = engine
    except DBAPIError:
        pass
    engine.dispose()
