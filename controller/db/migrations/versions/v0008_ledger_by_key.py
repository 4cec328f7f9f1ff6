"""The ledger by key; by partition it is counted later, as needs are."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

_STREAM_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """The ledger by key; by partition it is counted later, as needs are."""
    op.create_table(
        "ledger_keys",
        sa.Column("stream_id", _STREAM_ID, nullable=False),
        sa.Column("key_us", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("rows", sa.BigInteger(), nullable=False),
        sa.Column("late_least", sa.BigInteger(), nullable=False),
        sa.Column("late_most", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["stream_id"], ["streams.id"], name=op.f("fk_ledger_keys_stream_id_streams")),
        sa.PrimaryKeyConstraint("stream_id", "key_us", name=op.f("pk_ledger_keys")),
    )
    op.execute(
        """
        INSERT INTO ledger_keys (stream_id, key_us, rows, late_least, late_most)
        SELECT stream_id, key_us, sum(rows), sum(late_least), sum(late_most)
        FROM ledger GROUP BY stream_id, key_us
        """
    )
    with op.batch_alter_table("rollups") as table:
        table.add_column(sa.Column("ledger_report_id", sa.BigInteger(), server_default="0", nullable=False))
    # Reports that wait to be counted by partition are in the ledger already.
    op.execute(
        """
        INSERT INTO rollups (stream_id)
        SELECT DISTINCT stream_id FROM reports
        WHERE stream_id NOT IN (SELECT stream_id FROM rollups)
        """
    )
    op.execute(
        """
        UPDATE rollups SET ledger_report_id = coalesce(
            (SELECT max(reports.id) FROM reports WHERE reports.stream_id = rollups.stream_id), 0
        )
        """
    )


def downgrade() -> None:
    """Undo it: what waits to be counted by partition goes to one without a name, so that every sum stays."""
    op.execute(
        """
        INSERT INTO ledger (stream_id, key_us, partition, rows, late_least, late_most)
        SELECT whole.stream_id, whole.key_us, '', whole.rows - coalesce(sum(counted.rows), 0),
            whole.late_least - coalesce(sum(counted.late_least), 0),
            whole.late_most - coalesce(sum(counted.late_most), 0)
        FROM ledger_keys AS whole
        LEFT JOIN ledger AS counted
            ON counted.stream_id = whole.stream_id AND counted.key_us = whole.key_us
        GROUP BY whole.stream_id, whole.key_us, whole.rows, whole.late_least, whole.late_most
        HAVING whole.rows > coalesce(sum(counted.rows), 0)
        ON CONFLICT (stream_id, key_us, partition) DO UPDATE SET
            rows = ledger.rows + excluded.rows,
            late_least = ledger.late_least + excluded.late_least,
            late_most = ledger.late_most + excluded.late_most
        """
    )
    with op.batch_alter_table("rollups") as table:
        table.drop_column("ledger_report_id")
    op.drop_table("ledger_keys")
