"""Predictions, recent bounds, and how often a partition is heard of."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

_STREAM_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Predictions, recent bounds, and how often a partition is heard of."""
    op.create_table(
        "predictions",
        sa.Column("stream_id", _STREAM_ID, nullable=False),
        sa.Column("generation", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("bound_ms", sa.BigInteger(), nullable=False),
        sa.Column("from_bound_ms", sa.BigInteger(), nullable=False),
        sa.Column("made_us", sa.BigInteger(), nullable=False),
        sa.Column("rows", sa.BigInteger(), nullable=False),
        sa.Column("late", sa.BigInteger(), nullable=False),
        sa.Column("least_ppm", sa.BigInteger(), nullable=True),
        sa.Column("most_ppm", sa.BigInteger(), nullable=True),
        sa.Column("latency_base_us", sa.BigInteger(), nullable=True),
        sa.Column("latency_wall_us", sa.BigInteger(), nullable=True),
        sa.Column("stands_still_us", sa.BigInteger(), nullable=True),
        sa.Column("effective_us", sa.BigInteger(), nullable=True),
        sa.Column("windows_closing", sa.BigInteger(), nullable=True),
        sa.Column("rows_closing", sa.BigInteger(), nullable=True),
        sa.Column("state_rows", sa.BigInteger(), nullable=True),
        sa.Column("state_bytes", sa.BigInteger(), nullable=True),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("became_effective_us", sa.BigInteger(), nullable=True),
        sa.Column("judged_rows", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("judged_late_least", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("judged_late_most", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("scored_us", sa.BigInteger(), nullable=True),
        sa.Column("realised_ppm", sa.BigInteger(), nullable=True),
        sa.Column("error_ppm", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(["stream_id"], ["streams.id"], name=op.f("fk_predictions_stream_id_streams")),
        sa.PrimaryKeyConstraint("stream_id", "generation", name=op.f("pk_predictions")),
    )
    op.create_table(
        "recent_bounds",
        sa.Column("stream_id", _STREAM_ID, nullable=False),
        sa.Column("at_us", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("slo_generation", sa.BigInteger(), nullable=False),
        sa.Column("bound_ms", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["stream_id"], ["streams.id"], name=op.f("fk_recent_bounds_stream_id_streams")
        ),
        sa.PrimaryKeyConstraint("stream_id", "at_us", name=op.f("pk_recent_bounds")),
    )
    with op.batch_alter_table("recommendations", schema=None) as batch_op:
        batch_op.add_column(sa.Column("transition", sa.Text(), nullable=True))
    # How often a partition was heard of before is not known: its newest batch is the first that counts.
    with op.batch_alter_table("partitions", schema=None) as batch_op:
        batch_op.add_column(sa.Column("first_seen_us", sa.BigInteger(), nullable=True))
        batch_op.add_column(sa.Column("batches", sa.BigInteger(), nullable=True))
    op.execute("UPDATE partitions SET first_seen_us = last_seen_us, batches = 1")
    with op.batch_alter_table("partitions", schema=None) as batch_op:
        batch_op.alter_column("first_seen_us", existing_type=sa.BigInteger(), nullable=False)
        batch_op.alter_column("batches", existing_type=sa.BigInteger(), nullable=False)
    op.create_index(
        op.f("ix_reports_stream_id_generation_seen_us"), "reports", ["stream_id", "generation", "seen_us"]
    )


def downgrade() -> None:
    """Undo it."""
    op.drop_index(op.f("ix_reports_stream_id_generation_seen_us"), table_name="reports")
    with op.batch_alter_table("partitions", schema=None) as batch_op:
        batch_op.drop_column("batches")
        batch_op.drop_column("first_seen_us")
    with op.batch_alter_table("recommendations", schema=None) as batch_op:
        batch_op.drop_column("transition")
    op.drop_table("recent_bounds")
    op.drop_table("predictions")
