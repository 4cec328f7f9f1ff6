"""The ledger is kept by key alone: nothing reads it by partition, which took hundreds of rows a report."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None

_STREAM_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """The ledger is kept by key alone: nothing reads it by partition, which took hundreds of rows a report."""
    op.drop_table("ledger")
    op.drop_column("rollups", "ledger_report_id")
    op.drop_column("need_slots", "version")


def downgrade() -> None:
    """Undo it; the ledger by partition is empty, and earlier releases do not read it either."""
    op.add_column("need_slots", sa.Column("version", sa.BigInteger(), server_default="0", nullable=False))
    op.add_column(
        "rollups", sa.Column("ledger_report_id", sa.BigInteger(), server_default="0", nullable=False)
    )
    op.create_table(
        "ledger",
        sa.Column("stream_id", _STREAM_ID, nullable=False),
        sa.Column("key_us", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("partition", sa.String(length=200), nullable=False),
        sa.Column("rows", sa.BigInteger(), nullable=False),
        sa.Column("late_min", sa.BigInteger(), nullable=False),
        sa.Column("late_max", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["stream_id"], ["streams.id"], name=op.f("fk_ledger_stream_id_streams")),
        sa.PrimaryKeyConstraint("stream_id", "key_us", "partition", name=op.f("pk_ledger")),
    )
