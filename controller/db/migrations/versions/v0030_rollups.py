"""One table of rollups instead of needs, blocks, series and hourly sums; with one offset."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from tidemark.controller.db.tables import OffsetRow, PartitionRollupRow, RollupRow

revision = "0030"
down_revision = "0029"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Drop what was derived and make the tables of rollups, empty."""
    old = (
        "need_slots",
        "need_sketches",
        "partition_sums",
        "need_blocks",
        "series",
        "report_hours",
        "rollups",
    )
    # A downgrade does not make them again.
    for name in {*old} & {*sa.inspect(op.get_bind()).get_table_names()}:
        op.drop_table(name)
    op.add_column("report_bodies", sa.Column("needs", sa.LargeBinary(), nullable=True))
    for row in (RollupRow, PartitionRollupRow, OffsetRow):
        row.__table__.create(op.get_bind())  # type: ignore[attr-defined]


def downgrade() -> None:
    """Drop the tables; what was derived before is gone."""
    for name in ("offsets", "partition_rollups", "rollups"):
        op.drop_table(name)
    op.drop_column("report_bodies", "needs")
