"""Writes the first migration from the tables, until 0.1 is released: from then on each change is a migration more."""

from __future__ import annotations

import subprocess
import sys
from typing import Literal

from alembic.autogenerate import produce_migrations, render_python_code
from alembic.migration import MigrationContext
from sqlalchemy import create_engine

from tidemark.controller.base.db.tables import Base
from tidemark.controller.base.db.tables.columns import AsJson

from support.tree import ROOT

FILE = ROOT / "controller/base/db/migrations/versions/v0001_schema.py"

_NUMBER = "sa.BigInteger().with_variant(sa.Integer(), 'sqlite')"
"""The type of a stream's or a report's number, as Alembic writes it."""

_TEXT = '''"""The schema of 0.1."""

from __future__ import annotations

import secrets

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

_ID = {number}


def upgrade() -> None:
    """Make all tables, and give the store its epoch."""
    {operations}
    op.bulk_insert(
        sa.table("store_epoch", sa.column("id"), sa.column("epoch")), [{{"id": 1, "epoch": secrets.token_hex(8)}}]
    )
'''


def _as_text(kind: str, item: object, _context: object) -> str | Literal[False]:
    return "sa.Text()" if kind == "type" and isinstance(item, AsJson) else False


def first_migration() -> str:
    """Return the migration that makes all tables of the code in an empty database."""
    with create_engine("sqlite://").connect() as connection:
        script = produce_migrations(MigrationContext.configure(connection), Base.metadata)
    assert script.upgrade_ops is not None
    rendered = (
        render_python_code(script.upgrade_ops, render_item=_as_text).replace(_NUMBER, "_ID").splitlines()
    )
    operations = "\n".join(line for line in rendered if "# ###" not in line)
    made = _TEXT.format(number=_NUMBER, operations=operations.strip())
    formatting = (sys.executable, "-m", "ruff", "format", "--stdin-filename", str(FILE), "-")
    return subprocess.check_output(formatting, input=made, text=True)


if __name__ == "__main__":
    FILE.write_text(first_migration(), encoding="utf-8")
