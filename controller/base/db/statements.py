"""Statements for both databases: ``INSERT ... ON CONFLICT``, and rows that are given as parameters."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from itertools import repeat
from typing import Any

from sqlalchemy import ARRAY, ColumnElement, Subquery, bindparam, case, cast, func, select
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.orm import InstrumentedAttribute, Session
from sqlalchemy.types import TypeEngine

from tidemark.controller.base.db.tables import Base
from tidemark.controller.base.db.tables.columns import AsJson

Excluded = Any
"""The row that was to be inserted, by column."""

_Changes = Callable[[Excluded], dict[str, ColumnElement[Any]]]
"""Returns new values by column, in terms of the table and the new row."""


def insert_into(session: Session, table: type[Base]) -> sqlite.Insert | postgresql.Insert:
    """Return an insert into ``table`` that can say what to do on conflict."""
    return _insert(session.get_bind().dialect.name, table)


def upsert_many(
    session: Session,
    table: type[Base],
    columns: Mapping[str, Sequence[Any]],
    *,
    same: Mapping[str, Any],
    replaced: tuple[str, ...] = (),
    added: tuple[str, ...] = (),
    changes: _Changes | None = None,
) -> None:
    """Insert rows, or change the existing ones of the same key.

    Args:
        columns: by name a value for each row. All writers order rows by the key, in which order they are locked.
        same: columns with one value for all rows.
        replaced: columns that take the new value.
        added: columns that the new value is added to.
        changes: new values of other columns; a module-level function.
    """
    size = len(next(iter(columns.values())))
    if not size:
        return
    names = (*columns, *same)
    if session.get_bind().dialect.name == "postgresql":
        arrays = {**columns, **{name: [value] * size for name, value in same.items()}}
        session.execute(_of_arrays(table, names, replaced, added, changes), arrays)
    else:
        # Straight to the driver: thousands of rows cost too much otherwise.
        sql, order, literals = _of_rows(table, names, replaced, added, changes)
        written = {
            name: [kind.process_bind_param(value, None) for value in columns[name]]
            for name, kind in _as_json(table).items()
            if name in columns
        }
        stored = {**columns, **written}
        once = {**same, **literals}
        values = zip(*(stored.get(name) or repeat(once[name], size) for name in order), strict=True)
        session.connection().exec_driver_sql(sql, list(values))


def greater(old: InstrumentedAttribute[int], new: ColumnElement[int]) -> ColumnElement[int]:
    """Return the greater of two values; the databases have different functions for it."""
    return case((new > old, new), else_=old)


def lesser(old: InstrumentedAttribute[int], new: ColumnElement[int]) -> ColumnElement[int]:
    """Return the lesser of two values."""
    return case((new < old, new), else_=old)


def _insert(dialect: str, table: type[Base]) -> sqlite.Insert | postgresql.Insert:
    target: Any = table.__table__
    return postgresql.insert(target) if dialect == "postgresql" else sqlite.insert(target)


@cache
def _as_json(table: type[Base]) -> Mapping[str, AsJson[Any]]:
    return {column.name: column.type for column in table.__table__.columns if isinstance(column.type, AsJson)}


# Statements are compiled once: compiling takes longer than running.


@cache
def _of_rows(
    table: type[Base],
    names: tuple[str, ...],
    replaced: tuple[str, ...],
    added: tuple[str, ...],
    changes: _Changes | None,
) -> tuple[str, tuple[str, ...], dict[str, Any]]:
    """Return the statement, its parameters in order, and the values of those that no row holds."""
    insert: Any = _insert("sqlite", table)
    done = insert.on_conflict_do_update(**_on_conflict(table, insert, replaced, added, changes))
    text = done.compile(dialect=sqlite.dialect(), column_keys=list(names))
    literals = {name: value for name, value in text.params.items() if name not in names}
    return str(text), tuple(text.positiontup), literals


@cache
def _of_arrays(
    table: type[Base],
    names: tuple[str, ...],
    replaced: tuple[str, ...],
    added: tuple[str, ...],
    changes: _Changes | None,
) -> postgresql.Insert:
    # One statement with an array for each column: the server plans it once, and nothing is sent row by row.
    columns: Any = table.__table__.columns
    insert: Any = _insert("postgresql", table)
    arrays = [bindparam(name, type_=postgresql.ARRAY(columns[name].type, dimensions=1)) for name in names]
    source = func.unnest(*arrays).table_valued(*names).render_derived()
    filled = insert.from_select(names, select(*(source.c[name] for name in names)))
    done: postgresql.Insert = filled.on_conflict_do_update(
        **_on_conflict(table, insert, replaced, added, changes)
    )
    return done


def _on_conflict(
    table: type[Base],
    insert: Any,
    replaced: tuple[str, ...],
    added: tuple[str, ...],
    changes: _Changes | None,
) -> dict[str, Any]:
    columns: Any = table.__table__.columns
    return {
        "index_elements": [column.name for column in table.__table__.primary_key],
        "set_": {
            **{name: insert.excluded[name] for name in replaced},
            **{name: columns[name] + insert.excluded[name] for name in added},
            **(changes(insert.excluded) if changes else {}),
        },
    }


_GIVEN = "given"


def given_rows(dialect: str, columns: Mapping[str, TypeEngine[Any]]) -> Subquery:
    """Return a table whose rows come with the parameters that ``given`` makes.

    Args:
        dialect: the database's, sqlite or postgresql.
        columns: types of its columns by name.
    """
    if dialect == "postgresql":
        arrays = (cast(bindparam(name), ARRAY(kind)) for name, kind in columns.items())
        source = func.unnest(*arrays).table_valued(*columns).render_derived()
        return select(*(source.c[name] for name in columns)).subquery(_GIVEN)
    value = func.json_each(bindparam(_GIVEN)).table_valued("value").c.value
    return select(
        *(
            func.json_extract(value, f"$[{position}]", type_=kind).label(name)
            for position, (name, kind) in enumerate(columns.items())
        )
    ).subquery(_GIVEN)


def given(dialect: str, columns: Mapping[str, Sequence[Any]]) -> dict[str, Any]:
    """Return the parameters for these values, by column as in ``given_rows``."""
    if dialect == "postgresql":
        return dict(columns)
    return {_GIVEN: json.dumps(list(zip(*columns.values(), strict=True)))}
