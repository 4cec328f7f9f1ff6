"""Roll-ups, retention and leases."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

_STREAM_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_SUMS = (
    "rows",
    "uncounted_rows",
    "pairs",
    "late_least",
    "late_most",
    "unjudged_rows",
    "need_pairs",
    "need_unknown_rows",
    "early_rows",
    "future_rows",
)


def upgrade() -> None:
    """Roll-ups, retention and leases."""
    op.create_table(
        "leases",
        sa.Column("shard", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("holder", sa.String(length=64), nullable=True),
        sa.Column("fencing", sa.BigInteger(), server_default="0", nullable=False),
        sa.PrimaryKeyConstraint("shard", name=op.f("pk_leases")),
    )
    op.create_table(
        "lease_terms",
        sa.Column("shard", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("fencing", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("holder", sa.String(length=64), nullable=False),
        sa.Column("taken_us", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("shard", "fencing", name=op.f("pk_lease_terms")),
    )
    op.create_table(
        "replicas",
        sa.Column("holder", sa.String(length=64), nullable=False),
        sa.Column("beats", sa.BigInteger(), server_default="0", nullable=False),
        sa.PrimaryKeyConstraint("holder", name=op.f("pk_replicas")),
    )
    op.create_table(
        "report_hours",
        sa.Column("stream_id", _STREAM_ID, nullable=False),
        sa.Column("slot_us", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("query_id", sa.String(length=64), nullable=False),
        sa.Column("batches", sa.BigInteger(), nullable=False),
        sa.Column("batch_ranges", sa.Text(), nullable=False),
        sa.Column("from_us", sa.BigInteger(), nullable=False),
        sa.Column("to_us", sa.BigInteger(), nullable=False),
        sa.Column("keys_per_row", sa.BigInteger(), nullable=False),
        *(sa.Column(name, sa.BigInteger(), nullable=False) for name in _SUMS),
        sa.ForeignKeyConstraint(
            ["stream_id"], ["streams.id"], name=op.f("fk_report_hours_stream_id_streams")
        ),
        sa.PrimaryKeyConstraint("stream_id", "slot_us", "query_id", name=op.f("pk_report_hours")),
    )
    op.create_table(
        "rollups",
        sa.Column("stream_id", _STREAM_ID, nullable=False),
        sa.Column("hours_until_us", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("days_until_us", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("split_report_id", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("needs_from_us", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("reports_from_us", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("bodies_from_us", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("ledger_from_us", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(["stream_id"], ["streams.id"], name=op.f("fk_rollups_stream_id_streams")),
        sa.PrimaryKeyConstraint("stream_id", name=op.f("pk_rollups")),
    )
    op.create_index(op.f("ix_reports_stream_id_id"), "reports", ["stream_id", "id"])
    # What is there was counted by the minute, and the needs of every partition with it.
    for table in ("need_slots", "need_sketches"):
        with op.batch_alter_table(table, schema=None) as batch_op:
            batch_op.add_column(
                sa.Column("width_us", sa.BigInteger(), server_default="60000000", nullable=False)
            )
    op.execute(
        "INSERT INTO rollups (stream_id, split_report_id) "
        "SELECT stream_id, max(id) FROM reports GROUP BY stream_id"
    )
    with op.batch_alter_table("queries", schema=None) as batch_op:
        batch_op.add_column(sa.Column("gone_batch", sa.BigInteger(), nullable=True))
        batch_op.add_column(sa.Column("gone_max_event_time_us", sa.BigInteger(), nullable=True))
    with op.batch_alter_table("recommendations", schema=None) as batch_op:
        batch_op.add_column(sa.Column("fencing", sa.BigInteger(), nullable=True))


def downgrade() -> None:
    """Take it back; needs that were rolled up stay so, at the start of their span."""
    with op.batch_alter_table("recommendations", schema=None) as batch_op:
        batch_op.drop_column("fencing")
    with op.batch_alter_table("queries", schema=None) as batch_op:
        batch_op.drop_column("gone_max_event_time_us")
        batch_op.drop_column("gone_batch")
    for table in ("need_sketches", "need_slots"):
        with op.batch_alter_table(table, schema=None) as batch_op:
            batch_op.drop_column("width_us")
    op.drop_index(op.f("ix_reports_stream_id_id"), table_name="reports")
    for table in ("rollups", "report_hours", "replicas", "lease_terms", "leases"):
        op.drop_table(table)
