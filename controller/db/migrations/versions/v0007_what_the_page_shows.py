"""What the page shows: series, blocks of needs, what partitions cost, and an overview of each stream."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

_STREAM_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")

MARKS = ("tens_until_us", "hour_blocks_until_us", "day_blocks_until_us")

WIDTHS = (60_000_000, 3_600_000_000)


def upgrade() -> None:
    """What the page shows."""
    op.create_table(
        "partition_sums",
        sa.Column("stream_id", _STREAM_ID, nullable=False),
        sa.Column("from_us", sa.BigInteger(), nullable=False),
        sa.Column("needs", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(
            ["stream_id"], ["streams.id"], name=op.f("fk_partition_sums_stream_id_streams")
        ),
        sa.PrimaryKeyConstraint("stream_id", name=op.f("pk_partition_sums")),
    )
    op.create_table(
        "need_blocks",
        sa.Column("stream_id", _STREAM_ID, nullable=False),
        sa.Column("width_us", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("slot_us", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("share_ppm", sa.BigInteger(), nullable=False),
        sa.Column("cells", sa.Text(), nullable=False),
        sa.Column("needs", sa.LargeBinary(), nullable=True),
        sa.ForeignKeyConstraint(["stream_id"], ["streams.id"], name=op.f("fk_need_blocks_stream_id_streams")),
        sa.PrimaryKeyConstraint("stream_id", "width_us", "slot_us", name=op.f("pk_need_blocks")),
    )
    op.create_table(
        "series",
        sa.Column("stream_id", _STREAM_ID, nullable=False),
        sa.Column("width_us", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("slot_us", sa.BigInteger(), autoincrement=False, nullable=False),
        *(
            sa.Column(name, sa.BigInteger(), nullable=name == "effective_ms")
            for name in (
                "batches",
                "rows",
                "pairs",
                "late_least",
                "late_most",
                "unjudged_rows",
                "future_rows",
                "keys_per_row",
                "newest_us",
                "bound_ms",
                "effective_ms",
                "state_rows",
            )
        ),
        sa.ForeignKeyConstraint(["stream_id"], ["streams.id"], name=op.f("fk_series_stream_id_streams")),
        sa.PrimaryKeyConstraint("stream_id", "width_us", "slot_us", name=op.f("pk_series")),
    )
    op.create_table(
        "overviews",
        sa.Column("stream_id", _STREAM_ID, nullable=False),
        sa.Column("seen_us", sa.BigInteger(), nullable=False),
        sa.Column("report_id", sa.BigInteger(), nullable=False),
        *(
            sa.Column(name, sa.BigInteger(), nullable=True)
            for name in (
                "last_batch_us",
                "in_use_ms",
                "effective_ms",
                "bound_ms",
                "needs_from_us",
                "needs_share_ppm",
                "now_from_us",
                "now_least_ppm",
                "now_most_ppm",
                "window_least_ppm",
                "window_most_ppm",
            )
        ),
        sa.Column("provisional", sa.Boolean(), nullable=False),
        sa.Column("remaining_ppm", sa.BigInteger(), nullable=True),
        sa.Column("conditions", sa.Text(), nullable=False),
        sa.Column("worst", sa.String(length=40), nullable=True),
        *(
            sa.Column(name, sa.BigInteger(), nullable=False)
            for name in ("partitions", "idle", "behind", "skewed", "future")
        ),
        sa.Column("skewed_partition", sa.String(length=200), nullable=True),
        sa.Column("skewed_without_ms", sa.BigInteger(), nullable=True),
        sa.Column("skewed_costs_ms", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(["stream_id"], ["streams.id"], name=op.f("fk_overviews_stream_id_streams")),
        sa.PrimaryKeyConstraint("stream_id", name=op.f("pk_overviews")),
    )
    with op.batch_alter_table("partitions") as table:
        table.add_column(sa.Column("state", sa.String(length=20), nullable=True))
        table.add_column(sa.Column("skewed", sa.Boolean(), server_default=sa.text("false"), nullable=False))
        for name in ("skewed_us", "pairs", "need_ms", "without_bound_ms", "costs_ms"):
            table.add_column(sa.Column(name, sa.BigInteger(), nullable=True))
    with op.batch_alter_table("rollups") as table:
        for name in MARKS:
            table.add_column(sa.Column(name, sa.BigInteger(), server_default="0", nullable=False))
    _fill_series()


def downgrade() -> None:
    """Undo it."""
    with op.batch_alter_table("rollups") as table:
        for name in MARKS:
            table.drop_column(name)
    with op.batch_alter_table("partitions") as table:
        for name in ("costs_ms", "without_bound_ms", "need_ms", "pairs", "skewed_us", "skewed", "state"):
            table.drop_column(name)
    for name in ("overviews", "series", "need_blocks", "partition_sums"):
        op.drop_table(name)


def _fill_series() -> None:
    """Count the reports that the roll-ups have passed; the others are counted as they go on."""
    for width in WIDTHS:
        # Minutes are kept as long as needs are kept by the minute. How far the watermark trailed is not worked out.
        op.execute(
            f"""
            INSERT INTO series (stream_id, width_us, slot_us, batches, rows, pairs, late_least, late_most,
                unjudged_rows, future_rows, keys_per_row, newest_us, bound_ms, effective_ms, state_rows)
            SELECT summed.stream_id, {width}, summed.slot_us, summed.batches, summed.rows, summed.pairs,
                summed.late_least, summed.late_most, summed.unjudged_rows, summed.future_rows,
                summed.keys_per_row, newest.seen_us, newest.bound_ms, NULL, newest.state_rows
            FROM (
                SELECT reports.stream_id, reports.seen_us / {width} * {width} AS slot_us, count(*) AS batches,
                    sum(reports.rows) AS rows, sum(pairs) AS pairs, sum(late_least) AS late_least,
                    sum(late_most) AS late_most, sum(unjudged_rows) AS unjudged_rows,
                    sum(future_rows) AS future_rows, max(keys_per_row) AS keys_per_row, max(seen_us) AS seen_us
                FROM reports JOIN rollups ON rollups.stream_id = reports.stream_id
                WHERE reports.id <= rollups.split_report_id
                    AND reports.seen_us >= {"rollups.hours_until_us" if width == WIDTHS[0] else "0"}
                GROUP BY reports.stream_id, reports.seen_us / {width} * {width}
            ) AS summed
            JOIN reports AS newest ON newest.id = (
                SELECT max(last.id) FROM reports AS last
                WHERE last.stream_id = summed.stream_id AND last.seen_us = summed.seen_us
            )
            """  # noqa: S608 - both are numbers of this file
        )
