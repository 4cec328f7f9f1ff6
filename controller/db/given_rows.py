"""Rows that a statement is given as parameters, to join them with tables: one statement for many lookups."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import ARRAY, Subquery, bindparam, cast, func, select
from sqlalchemy.types import TypeEngine

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
