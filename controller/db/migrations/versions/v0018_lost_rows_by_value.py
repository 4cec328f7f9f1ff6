"""Rows and losses are counted by the values of a dimension."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None

_STREAM_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Rows and losses are counted by the values of a dimension."""
    op.create_table(
        "late_steps",
        sa.Column("stream_id", _STREAM_ID, nullable=False),
        sa.Column("query_id", sa.String(length=64), nullable=False),
        sa.Column("first_batch", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("last_batch", sa.BigInteger(), nullable=False),
        sa.Column("hour_us", sa.BigInteger(), nullable=False),
        sa.Column("received_us", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["stream_id"], ["streams.id"], name=op.f("fk_late_steps_stream_id_streams")),
        sa.PrimaryKeyConstraint("stream_id", "query_id", "first_batch", name=op.f("pk_late_steps")),
    )
    op.create_table(
        "late_slots",
        sa.Column("stream_id", _STREAM_ID, nullable=False),
        sa.Column("dimension", sa.String(length=200), nullable=False),
        sa.Column("width_us", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("slot_us", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("counts", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["stream_id"], ["streams.id"], name=op.f("fk_late_slots_stream_id_streams")),
        sa.PrimaryKeyConstraint("stream_id", "dimension", "width_us", "slot_us", name=op.f("pk_late_slots")),
    )
    op.add_column("overviews", sa.Column("lost", sa.Text(), nullable=True))


def downgrade() -> None:
    """Undo it; the counts are deleted."""
    op.drop_column("overviews", "lost")
    op.drop_table("late_slots")
    op.drop_table("late_steps")
