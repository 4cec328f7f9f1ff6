"""What was at risk under a rollout, and the evidence that a first narrowing wants."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def _added() -> dict[str, list[sa.Column[Any]]]:
    """Return by table the columns that are new; made anew each time, because a column belongs to one table."""
    counters = (
        "counted_report_id",
        "at_risk_rows",
        "at_risk_late_least",
        "at_risk_late_most",
        "event_ms",
        "needed_event_ms",
    )
    return {
        "policies": [
            sa.Column("evidence_ms", sa.BigInteger(), server_default="3600000", nullable=False),
            sa.Column("evidence_windows", sa.BigInteger(), server_default="100", nullable=False),
        ],
        "rollouts": [
            sa.Column("effective_watermark_ms", sa.BigInteger(), nullable=True),
            sa.Column("at_risk_from_ms", sa.BigInteger(), nullable=True),
            *(sa.Column(name, sa.BigInteger(), server_default="0", nullable=False) for name in counters),
            sa.Column("missed_us", sa.BigInteger(), nullable=True),
        ],
    }


def upgrade() -> None:
    """What was at risk under a rollout, and the evidence that a first narrowing wants."""
    for table, columns in _added().items():
        for column in columns:
            op.add_column(table, column)


def downgrade() -> None:
    """Undo it."""
    # Not in batch mode: SQLite would copy the tables, and others refer to them.
    for table, columns in reversed(_added().items()):
        for column in reversed(columns):
            op.drop_column(table, column.name)
