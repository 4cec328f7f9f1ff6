"""Reports far ahead of every clock are quarantined, and data age by a mark that moves by a day at most."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None

_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_REPORTS = sa.table("reports", sa.column("stream_id"), sa.column("seen_us"))
_ROLLUPS = sa.table("rollups", sa.column("stream_id"), sa.column("aged_us"))


def upgrade() -> None:
    """Reports far ahead of every clock are quarantined, and data age by a mark that moves by a day at most."""
    op.create_table(
        "quarantined_reports",
        sa.Column("id", _ID, autoincrement=True, nullable=False),
        sa.Column("stream_id", _ID, nullable=False),
        sa.Column("query_id", sa.String(length=64), nullable=False),
        sa.Column("batch_id", sa.BigInteger(), nullable=False),
        sa.Column("received_us", sa.BigInteger(), nullable=False),
        sa.Column("event_time_us", sa.BigInteger(), nullable=False),
        sa.Column("after_report_id", sa.BigInteger(), nullable=False),
        sa.Column("agreed_from_us", sa.BigInteger(), nullable=False),
        sa.Column("late", sa.BigInteger(), nullable=False),
        sa.Column("fingerprint", sa.String(length=64), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(
            ["stream_id"], ["streams.id"], name=op.f("fk_quarantined_reports_stream_id_streams")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_quarantined_reports")),
        sa.UniqueConstraint(
            "stream_id",
            "query_id",
            "batch_id",
            name=op.f("uq_quarantined_reports_stream_id_query_id_batch_id"),
        ),
    )
    op.add_column("streams", sa.Column("quarantined", sa.BigInteger(), server_default="0", nullable=False))
    op.add_column("rollups", sa.Column("aged_us", sa.BigInteger(), server_default="0", nullable=False))
    newest = sa.select(sa.func.coalesce(sa.func.max(_REPORTS.c.seen_us), 0)).where(
        _REPORTS.c.stream_id == _ROLLUPS.c.stream_id
    )
    op.execute(sa.update(_ROLLUPS).values(aged_us=newest.scalar_subquery()))


def downgrade() -> None:
    """Undo it; reports in quarantine are deleted."""
    op.drop_column("rollups", "aged_us")
    op.drop_column("streams", "quarantined")
    op.drop_table("quarantined_reports")
