"""A target and caps may be tried beside the SLO of a stream."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0026"
down_revision = "0025"
branch_labels = None
depends_on = None

_STREAM_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")

_COUNTED = (
    "rows",
    "late",
    "unknown_rows",
    "judged_rows",
    "late_min",
    "late_max",
    "unjudged_rows",
    "windows",
    "latency_ms",
    "in_use_windows",
    "in_use_latency_ms",
)


def upgrade() -> None:
    """A target and caps may be tried beside the SLO of a stream."""
    op.create_table(
        "shadows",
        sa.Column("stream_id", _STREAM_ID, nullable=False),
        sa.Column("specification", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("since_us", sa.BigInteger(), nullable=False),
        sa.Column("decided_us", sa.BigInteger(), nullable=True),
        sa.Column("bound_ms", sa.BigInteger(), nullable=True),
        sa.Column("steps", sa.Text(), server_default="[]", nullable=False),
        sa.Column("recent", sa.Text(), server_default="[]", nullable=False),
        sa.Column("counted_report_id", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("query_id", sa.String(length=64), nullable=True),
        sa.Column("closed_us", sa.BigInteger(), nullable=True),
        sa.Column("in_use_closed_us", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(["stream_id"], ["streams.id"], name=op.f("fk_shadows_stream_id_streams")),
        sa.PrimaryKeyConstraint("stream_id", name=op.f("pk_shadows")),
    )
    op.create_table(
        "shadow_days",
        sa.Column("stream_id", _STREAM_ID, nullable=False),
        sa.Column("day_us", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("bound_ms", sa.BigInteger(), nullable=True),
        sa.Column("in_use_bound_ms", sa.BigInteger(), nullable=False),
        *(sa.Column(name, sa.BigInteger(), nullable=False) for name in _COUNTED),
        sa.ForeignKeyConstraint(["stream_id"], ["streams.id"], name=op.f("fk_shadow_days_stream_id_streams")),
        sa.PrimaryKeyConstraint("stream_id", "day_us", name=op.f("pk_shadow_days")),
    )


def downgrade() -> None:
    """Undo it; shadows are forgotten."""
    op.drop_table("shadow_days")
    op.drop_table("shadows")
