"""Writes the first migration from the tables, until 0.1 is released: from then on each change is a migration more."""

from __future__ import annotations

from sqlalchemy import Dialect
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.schema import CreateIndex, CreateTable, DDLElement

from tidemark.controller.base.db.tables import Base

from support.tree import ROOT

_FOLDER = ROOT / "controller/base/db/migrations/versions"


def statements(dialect: Dialect) -> str:
    """Return the statements that make all tables of the code in an empty database."""
    made: list[DDLElement] = []
    for table in Base.metadata.sorted_tables:
        made.append(CreateTable(table))
        made += [CreateIndex(index) for index in sorted(table.indexes, key=lambda index: str(index.name))]
    lines = "".join(f"{str(element.compile(dialect=dialect)).strip()};\n\n" for element in made).splitlines()
    return "\n".join(line.rstrip().replace("\t", "    ") for line in lines).rstrip() + "\n"


if __name__ == "__main__":
    for dialect in (sqlite.dialect(), postgresql.dialect()):  # type: ignore[no-untyped-call]
        (_FOLDER / f"v0001_{dialect.name}.sql").write_text(statements(dialect), encoding="utf-8")
