"""The schema of 0.1, with the statements of each kind of database in a file of its own."""

from __future__ import annotations

import secrets
from pathlib import Path

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make all tables, and give the store its epoch."""
    connection = op.get_bind()
    statements = Path(__file__).with_name(f"v0001_{connection.dialect.name}.sql").read_text(encoding="utf-8")
    for statement in statements.split(";\n"):
        if statement.strip():
            connection.exec_driver_sql(statement)
    epoch = sa.table("store_epoch", sa.column("id"), sa.column("epoch"))
    op.bulk_insert(epoch, [{"id": 1, "epoch": secrets.token_hex(8)}])
