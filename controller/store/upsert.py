"""``INSERT ... ON CONFLICT`` on both databases: the two dialects spell it alike but in different classes."""

from __future__ import annotations

from typing import Any

from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.orm import Session

from tidemark.controller.store.tables import Base

__all__ = ["insert_into"]


def insert_into(session: Session, table: type[Base]) -> sqlite.Insert | postgresql.Insert:
    """Return an insert into ``table`` that can say what to do on conflict."""
    target: Any = table.__table__
    if session.get_bind().dialect.name == "postgresql":
        return postgresql.insert(target)
    return sqlite.insert(target)
