"""All rows of a store, to show that a request which was refused or repeated has changed none."""

from __future__ import annotations

from typing import Any

from sqlalchemy import select

from tidemark.controller.base.db.tables import Base

from support.controller_app import Controller

__all__ = ["stored_rows"]


def stored_rows(controller: Controller) -> dict[str, list[tuple[Any, ...]]]:
    """Return the rows of every table, but for signs of life, which do not stand still."""
    with controller.service.database.read() as session:
        return {
            table.name: sorted(map(tuple, session.execute(select(table)).all()), key=repr)
            for table in Base.metadata.sorted_tables
            if table.name not in {"replicas", "leases", "lease_terms"}
        }
