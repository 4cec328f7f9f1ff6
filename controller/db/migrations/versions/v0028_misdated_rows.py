"""Rows whose event time no delay explains are counted, and are no evidence."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0028"
down_revision = "0027"
branch_labels = None
depends_on = None

_COUNTS = {
    "streams": ("gone_misdated_rows",),
    "reports": ("misdated_rows", "misdated_late"),
    "report_hours": ("misdated_rows", "misdated_late"),
    "partitions": ("misdated_rows",),
}
_TIMES = ("last_misdated_us", "misdated_event_us")


def upgrade() -> None:
    """Rows whose event time no delay explains are counted, and are no evidence; reports before said nothing of them."""
    for table, names in _COUNTS.items():
        for name in names:
            op.add_column(
                table, sa.Column(name, sa.BigInteger(), server_default=sa.text("0"), nullable=False)
            )
    for name in _TIMES:
        op.add_column("partitions", sa.Column(name, sa.BigInteger(), nullable=True))


def downgrade() -> None:
    """Undo it; the counts are forgotten."""
    for name in _TIMES:
        op.drop_column("partitions", name)
    for table, names in _COUNTS.items():
        for name in names:
            op.drop_column(table, name)
