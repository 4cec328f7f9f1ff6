"""Rollouts, what failed, all that an SLO and a policy say, and events that are counted."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def _added() -> dict[str, list[sa.Column[Any]]]:
    """Return by table the columns that are new; made anew each time, because a column belongs to one table."""
    return {
        "slos": [
            sa.Column("objective", sa.String(length=20), server_default="occurrences", nullable=False),
            sa.Column("slices_ppm", sa.BigInteger(), server_default="990000", nullable=False),
            sa.Column("window_ms", sa.BigInteger(), server_default="2592000000", nullable=False),
            sa.Column("state_cap_rows", sa.BigInteger(), nullable=True),
            sa.Column("worst_window_ppm", sa.BigInteger(), nullable=True),
        ],
        "policies": [
            sa.Column("directions", sa.String(length=20), server_default="Widen Narrow", nullable=False),
            sa.Column("margin_ppm", sa.BigInteger(), server_default="0", nullable=False),
            sa.Column("dwell_ms", sa.BigInteger(), server_default="3600000", nullable=False),
            sa.Column("most_narrowings_a_day", sa.BigInteger(), nullable=True),
            sa.Column("most_narrowing_ppm", sa.BigInteger(), nullable=True),
            sa.Column("freeze_windows", sa.Text(), server_default="[]", nullable=False),
            sa.Column("paused", sa.Boolean(), server_default=sa.text("false"), nullable=False),
            sa.Column("paused_why", sa.Text(), nullable=True),
            sa.Column("on_no_data", sa.String(length=20), server_default="hold", nullable=False),
            sa.Column("approval", sa.String(length=20), server_default="none", nullable=False),
        ],
        "published_bounds": [
            sa.Column("cause", sa.String(length=20), server_default="Request", nullable=False),
            sa.Column("rollout_id", sa.BigInteger(), nullable=True),
        ],
        "events": [
            sa.Column("reason_class", sa.String(length=40), nullable=True),
            sa.Column("count", sa.BigInteger(), server_default="1", nullable=False),
            sa.Column("last_us", sa.BigInteger(), nullable=True),
            sa.Column("by", sa.String(length=200), nullable=True),
            sa.Column("rollout_id", sa.BigInteger(), nullable=True),
            sa.Column("rows", sa.BigInteger(), nullable=True),
            sa.Column("report_id", sa.BigInteger(), nullable=True),
        ],
    }


def upgrade() -> None:
    """Rollouts, what failed, all that an SLO and a policy say, and events that are counted."""
    op.create_table(
        "rollouts",
        sa.Column("id", _ID, autoincrement=True, nullable=False),
        sa.Column("stream_id", _ID, nullable=False),
        sa.Column("state", sa.String(length=20), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("held_by", sa.String(length=40), nullable=True),
        sa.Column("cause", sa.String(length=20), nullable=False),
        sa.Column("direction", sa.String(length=20), nullable=False),
        sa.Column("first", sa.Boolean(), nullable=False),
        sa.Column("mode", sa.String(length=20), nullable=False),
        sa.Column("from_bound_ms", sa.BigInteger(), nullable=True),
        sa.Column("to_bound_ms", sa.BigInteger(), nullable=True),
        sa.Column("from_envelope", sa.Text(), nullable=True),
        sa.Column("to_envelope", sa.Text(), nullable=True),
        sa.Column("in_use_ms", sa.BigInteger(), nullable=True),
        sa.Column("generation", sa.BigInteger(), nullable=True),
        sa.Column("slo_generation", sa.BigInteger(), nullable=False),
        sa.Column("policy_generation", sa.BigInteger(), nullable=False),
        sa.Column("report_id", sa.BigInteger(), nullable=False),
        sa.Column("rows", sa.BigInteger(), nullable=False),
        sa.Column("late", sa.BigInteger(), nullable=False),
        sa.Column("least_ppm", sa.BigInteger(), nullable=True),
        sa.Column("most_ppm", sa.BigInteger(), nullable=True),
        sa.Column("latency_wall_us", sa.BigInteger(), nullable=True),
        sa.Column("state_rows", sa.BigInteger(), nullable=True),
        sa.Column("created_us", sa.BigInteger(), nullable=False),
        sa.Column("changed_us", sa.BigInteger(), nullable=False),
        sa.Column("approved_us", sa.BigInteger(), nullable=True),
        sa.Column("approved_by", sa.String(length=200), nullable=True),
        sa.Column("approval_reason", sa.Text(), nullable=True),
        sa.Column("published_us", sa.BigInteger(), nullable=True),
        sa.Column("acknowledged_us", sa.BigInteger(), nullable=True),
        sa.Column("effective_us", sa.BigInteger(), nullable=True),
        sa.Column("judged_rows", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("judged_late_least", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("judged_late_most", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("needed_rows", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("ended_us", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(["stream_id"], ["streams.id"], name=op.f("fk_rollouts_stream_id_streams")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_rollouts")),
    )
    op.create_index(op.f("ix_rollouts_stream_id_id"), "rollouts", ["stream_id", "id"])
    op.create_index(op.f("ix_rollouts_state_id"), "rollouts", ["state", "id"])
    op.create_table(
        "failed_bounds",
        sa.Column("id", _ID, autoincrement=True, nullable=False),
        sa.Column("stream_id", _ID, nullable=False),
        sa.Column("rollout_id", sa.BigInteger(), nullable=False),
        sa.Column("direction", sa.String(length=20), nullable=False),
        sa.Column("bound_ms", sa.BigInteger(), nullable=True),
        sa.Column("envelope", sa.Text(), nullable=True),
        sa.Column("kind", sa.String(length=40), nullable=False),
        sa.Column("why", sa.Text(), nullable=False),
        sa.Column("failed_us", sa.BigInteger(), nullable=False),
        sa.Column("until_us", sa.BigInteger(), nullable=False),
        sa.Column("slo_generation", sa.BigInteger(), nullable=False),
        sa.Column("policy_generation", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["stream_id"], ["streams.id"], name=op.f("fk_failed_bounds_stream_id_streams")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_failed_bounds")),
    )
    op.create_index(op.f("ix_failed_bounds_stream_id_id"), "failed_bounds", ["stream_id", "id"])
    for table, columns in _added().items():
        for column in columns:
            op.add_column(table, column)


def downgrade() -> None:
    """Undo it."""
    # Not in batch mode, as in the step before.
    for table, columns in reversed(_added().items()):
        for column in reversed(columns):
            op.drop_column(table, column.name)
    op.drop_index(op.f("ix_failed_bounds_stream_id_id"), table_name="failed_bounds")
    op.drop_table("failed_bounds")
    op.drop_index(op.f("ix_rollouts_state_id"), table_name="rollouts")
    op.drop_index(op.f("ix_rollouts_stream_id_id"), table_name="rollouts")
    op.drop_table("rollouts")
