"""Live: ceilings, envelopes and pins, what the fast policy did, and rows that are dated ahead."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Live: ceilings, envelopes and pins, what the fast policy did, and rows that are dated ahead."""
    op.create_table(
        "pins",
        sa.Column("job", sa.String(length=200), nullable=False),
        sa.Column("stream", sa.String(length=200), nullable=False),
        sa.Column("held_to", sa.String(length=20), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("since_us", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("job", "stream", name=op.f("pk_pins")),
    )
    op.create_table(
        "live_states",
        sa.Column("stream_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("report_id", sa.BigInteger(), nullable=False),
        sa.Column("live", sa.Text(), nullable=True),
        sa.Column("append_delay", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(["stream_id"], ["streams.id"], name=op.f("fk_live_states_stream_id_streams")),
        sa.PrimaryKeyConstraint("stream_id", name=op.f("pk_live_states")),
    )
    op.add_column("acknowledgements", sa.Column("ceiling_ms", sa.BigInteger(), nullable=True))
    op.add_column("published_bounds", sa.Column("envelope", sa.Text(), nullable=True))
    op.add_column("published_bounds", sa.Column("pin", sa.String(length=20), nullable=True))
    op.add_column("reports", sa.Column("future_rows", sa.BigInteger(), server_default="0", nullable=False))
    op.add_column("partitions", sa.Column("behind_us", sa.BigInteger(), nullable=True))
    op.add_column("partitions", sa.Column("future_rows", sa.BigInteger(), server_default="0", nullable=False))
    op.add_column("partitions", sa.Column("last_future_us", sa.BigInteger(), nullable=True))


def downgrade() -> None:
    """Undo it."""
    # Not in batch mode: SQLite would copy the table, and reports cannot be dropped while their bodies point at them.
    op.drop_column("partitions", "last_future_us")
    op.drop_column("partitions", "future_rows")
    op.drop_column("partitions", "behind_us")
    op.drop_column("reports", "future_rows")
    op.drop_column("published_bounds", "pin")
    op.drop_column("published_bounds", "envelope")
    op.drop_column("acknowledgements", "ceiling_ms")
    op.drop_table("live_states")
    op.drop_table("pins")
