"""The first tables."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """The first tables."""
    op.create_table(
        "streams",
        sa.Column(
            "id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False
        ),
        sa.Column("job", sa.String(length=200), nullable=False),
        sa.Column("stream", sa.String(length=200), nullable=False),
        sa.Column("created_us", sa.BigInteger(), nullable=False),
        sa.Column("registered_us", sa.BigInteger(), nullable=True),
        sa.Column("reports", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("duplicates", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("pairs", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("late_least", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("late_most", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("unjudged_rows", sa.BigInteger(), server_default="0", nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_streams")),
        sa.UniqueConstraint("job", "stream", name=op.f("uq_streams_job_stream")),
    )
    op.create_table(
        "acknowledgements",
        sa.Column(
            "id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False
        ),
        sa.Column("stream_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("query_id", sa.String(length=64), nullable=False),
        sa.Column("run_id", sa.String(length=64), nullable=False),
        sa.Column("bound_ms", sa.BigInteger(), nullable=False),
        sa.Column("generation", sa.BigInteger(), nullable=True),
        sa.Column("source", sa.String(length=20), nullable=False),
        sa.Column("mode", sa.String(length=20), nullable=False),
        sa.Column("applied_us", sa.BigInteger(), nullable=False),
        sa.Column("received_us", sa.BigInteger(), nullable=False),
        sa.Column("fingerprint", sa.String(length=64), nullable=False),
        sa.ForeignKeyConstraint(
            ["stream_id"], ["streams.id"], name=op.f("fk_acknowledgements_stream_id_streams")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_acknowledgements")),
        sa.UniqueConstraint(
            "stream_id", "fingerprint", name=op.f("uq_acknowledgements_stream_id_fingerprint")
        ),
    )
    with op.batch_alter_table("acknowledgements", schema=None) as batch_op:
        batch_op.create_index(
            batch_op.f("ix_acknowledgements_stream_id_applied_us"), ["stream_id", "applied_us"], unique=False
        )

    op.create_table(
        "events",
        sa.Column(
            "id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False
        ),
        sa.Column("stream_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("at_us", sa.BigInteger(), nullable=False),
        sa.Column("kind", sa.String(length=40), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("before", sa.Text(), nullable=True),
        sa.Column("after", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(["stream_id"], ["streams.id"], name=op.f("fk_events_stream_id_streams")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_events")),
    )
    with op.batch_alter_table("events", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_events_stream_id_id"), ["stream_id", "id"], unique=False)

    op.create_table(
        "ledger",
        sa.Column("stream_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("key_us", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("partition", sa.String(length=200), nullable=False),
        sa.Column("rows", sa.BigInteger(), nullable=False),
        sa.Column("late_least", sa.BigInteger(), nullable=False),
        sa.Column("late_most", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["stream_id"], ["streams.id"], name=op.f("fk_ledger_stream_id_streams")),
        sa.PrimaryKeyConstraint("stream_id", "key_us", "partition", name=op.f("pk_ledger")),
    )
    op.create_table(
        "need_sketches",
        sa.Column("stream_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("slot_us", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("partition", sa.String(length=200), nullable=False),
        sa.Column("sketch", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(
            ["stream_id"], ["streams.id"], name=op.f("fk_need_sketches_stream_id_streams")
        ),
        sa.PrimaryKeyConstraint("stream_id", "slot_us", "partition", name=op.f("pk_need_sketches")),
    )
    op.create_table(
        "need_slots",
        sa.Column("stream_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("slot_us", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("sketch", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(["stream_id"], ["streams.id"], name=op.f("fk_need_slots_stream_id_streams")),
        sa.PrimaryKeyConstraint("stream_id", "slot_us", name=op.f("pk_need_slots")),
    )
    op.create_table(
        "partitions",
        sa.Column("stream_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("partition", sa.String(length=200), nullable=False),
        sa.Column("rows", sa.BigInteger(), nullable=False),
        sa.Column("last_event_time_us", sa.BigInteger(), nullable=False),
        sa.Column("last_seen_us", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["stream_id"], ["streams.id"], name=op.f("fk_partitions_stream_id_streams")),
        sa.PrimaryKeyConstraint("stream_id", "partition", name=op.f("pk_partitions")),
    )
    op.create_table(
        "policies",
        sa.Column("stream_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("generation", sa.BigInteger(), nullable=False),
        sa.Column("mode", sa.String(length=20), nullable=False),
        sa.Column("least_bound_ms", sa.BigInteger(), nullable=False),
        sa.Column("greatest_bound_ms", sa.BigInteger(), nullable=True),
        sa.Column("updated_us", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["stream_id"], ["streams.id"], name=op.f("fk_policies_stream_id_streams")),
        sa.PrimaryKeyConstraint("stream_id", name=op.f("pk_policies")),
    )
    op.create_table(
        "published_bounds",
        sa.Column("stream_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("generation", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("mode", sa.String(length=20), nullable=False),
        sa.Column("bound_ms", sa.BigInteger(), nullable=True),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("published_us", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["stream_id"], ["streams.id"], name=op.f("fk_published_bounds_stream_id_streams")
        ),
        sa.PrimaryKeyConstraint("stream_id", "generation", name=op.f("pk_published_bounds")),
    )
    op.create_table(
        "queries",
        sa.Column("stream_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("query_id", sa.String(length=64), nullable=False),
        sa.Column("first_batch", sa.BigInteger(), nullable=False),
        sa.Column("last_batch", sa.BigInteger(), nullable=False),
        sa.Column("reports", sa.BigInteger(), server_default="0", nullable=False),
        sa.ForeignKeyConstraint(["stream_id"], ["streams.id"], name=op.f("fk_queries_stream_id_streams")),
        sa.PrimaryKeyConstraint("stream_id", "query_id", name=op.f("pk_queries")),
    )
    op.create_table(
        "recommendations",
        sa.Column("stream_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("decided_us", sa.BigInteger(), nullable=False),
        sa.Column("bound_ms", sa.BigInteger(), nullable=True),
        sa.Column("steps", sa.Text(), nullable=False),
        sa.Column("conflict", sa.Boolean(), nullable=False),
        sa.Column("newest_report_id", sa.BigInteger(), nullable=False),
        sa.Column("slo_generation", sa.BigInteger(), nullable=False),
        sa.Column("policy_generation", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["stream_id"], ["streams.id"], name=op.f("fk_recommendations_stream_id_streams")
        ),
        sa.PrimaryKeyConstraint("stream_id", name=op.f("pk_recommendations")),
    )
    op.create_table(
        "reports",
        sa.Column(
            "id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False
        ),
        sa.Column("stream_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("query_id", sa.String(length=64), nullable=False),
        sa.Column("run_id", sa.String(length=64), nullable=False),
        sa.Column("batch_id", sa.BigInteger(), nullable=False),
        sa.Column("received_us", sa.BigInteger(), nullable=False),
        sa.Column("seen_us", sa.BigInteger(), nullable=False),
        sa.Column("started_us", sa.BigInteger(), nullable=False),
        sa.Column("duration_ms", sa.BigInteger(), nullable=False),
        sa.Column("operator", sa.String(length=20), nullable=False),
        sa.Column("keys_per_row", sa.BigInteger(), nullable=False),
        sa.Column("output_mode", sa.String(length=20), nullable=False),
        sa.Column("bound_ms", sa.BigInteger(), nullable=False),
        sa.Column("generation", sa.BigInteger(), nullable=True),
        sa.Column("late_watermark_ms", sa.BigInteger(), nullable=True),
        sa.Column("watermark_ms", sa.BigInteger(), nullable=False),
        sa.Column("late_base_ms", sa.BigInteger(), nullable=True),
        sa.Column("max_event_time_us", sa.BigInteger(), nullable=True),
        sa.Column("rows", sa.BigInteger(), nullable=False),
        sa.Column("null_rows", sa.BigInteger(), nullable=False),
        sa.Column("uncounted_rows", sa.BigInteger(), nullable=False),
        sa.Column("state_rows", sa.BigInteger(), nullable=False),
        sa.Column("state_bytes", sa.BigInteger(), nullable=False),
        sa.Column("dropped_by_spark", sa.BigInteger(), nullable=False),
        sa.Column("given_up_reports", sa.BigInteger(), nullable=False),
        sa.Column("first_key_us", sa.BigInteger(), nullable=True),
        sa.Column("pairs", sa.BigInteger(), nullable=False),
        sa.Column("late_least", sa.BigInteger(), nullable=False),
        sa.Column("late_most", sa.BigInteger(), nullable=False),
        sa.Column("unjudged_rows", sa.BigInteger(), nullable=False),
        sa.Column("need_base_ms", sa.BigInteger(), nullable=True),
        sa.Column("need_pairs", sa.BigInteger(), nullable=False),
        sa.Column("need_unknown_rows", sa.BigInteger(), nullable=False),
        sa.Column("early_rows", sa.BigInteger(), nullable=False),
        sa.Column("fingerprint", sa.String(length=64), nullable=False),
        sa.ForeignKeyConstraint(["stream_id"], ["streams.id"], name=op.f("fk_reports_stream_id_streams")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_reports")),
        sa.UniqueConstraint(
            "stream_id", "query_id", "batch_id", name=op.f("uq_reports_stream_id_query_id_batch_id")
        ),
    )
    with op.batch_alter_table("reports", schema=None) as batch_op:
        batch_op.create_index(
            batch_op.f("ix_reports_stream_id_query_id_max_event_time_us_batch_id"),
            ["stream_id", "query_id", "max_event_time_us", "batch_id"],
            unique=False,
        )
        batch_op.create_index(
            batch_op.f("ix_reports_stream_id_seen_us"), ["stream_id", "seen_us"], unique=False
        )

    op.create_table(
        "slos",
        sa.Column("stream_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("generation", sa.BigInteger(), nullable=False),
        sa.Column("target_ppm", sa.BigInteger(), nullable=False),
        sa.Column("latency_cap_ms", sa.BigInteger(), nullable=True),
        sa.Column("yields", sa.String(length=20), nullable=True),
        sa.Column("confidence_ppm", sa.BigInteger(), nullable=False),
        sa.Column("horizon_ms", sa.BigInteger(), nullable=False),
        sa.Column("updated_us", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["stream_id"], ["streams.id"], name=op.f("fk_slos_stream_id_streams")),
        sa.PrimaryKeyConstraint("stream_id", name=op.f("pk_slos")),
    )
    op.create_table(
        "report_bodies",
        sa.Column("report_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(
            ["report_id"], ["reports.id"], name=op.f("fk_report_bodies_report_id_reports")
        ),
        sa.PrimaryKeyConstraint("report_id", name=op.f("pk_report_bodies")),
    )


def downgrade() -> None:
    """Undo it."""
    op.drop_table("report_bodies")
    op.drop_table("slos")
    with op.batch_alter_table("reports", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_reports_stream_id_seen_us"))
        batch_op.drop_index(batch_op.f("ix_reports_stream_id_query_id_max_event_time_us_batch_id"))

    op.drop_table("reports")
    op.drop_table("recommendations")
    op.drop_table("queries")
    op.drop_table("published_bounds")
    op.drop_table("policies")
    op.drop_table("partitions")
    op.drop_table("need_slots")
    op.drop_table("need_sketches")
    op.drop_table("ledger")
    with op.batch_alter_table("events", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_events_stream_id_id"))

    op.drop_table("events")
    with op.batch_alter_table("acknowledgements", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_acknowledgements_stream_id_applied_us"))

    op.drop_table("acknowledgements")
    op.drop_table("streams")
