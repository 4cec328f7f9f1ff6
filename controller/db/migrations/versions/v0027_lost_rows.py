"""Rollouts that wait for their jobs' turn to restart remember what is lost meanwhile."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0027"
down_revision = "0025"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Rollouts that wait for their jobs' turn to restart remember what is lost meanwhile."""
    op.add_column(
        "rollouts", sa.Column("lost_rows", sa.BigInteger(), server_default=sa.text("0"), nullable=False)
    )
    op.add_column("rollouts", sa.Column("waits_us", sa.BigInteger(), nullable=True))


def downgrade() -> None:
    """Undo it."""
    op.drop_column("rollouts", "waits_us")
    op.drop_column("rollouts", "lost_rows")
