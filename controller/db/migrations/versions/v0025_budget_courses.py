"""Overviews keep how the budget went over the SLO's window."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0025"
down_revision = "0024"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Overviews keep how the budget went; it is known from the next snapshots on."""
    op.add_column("overviews", sa.Column("budget_course", sa.Text(), nullable=True))


def downgrade() -> None:
    """Undo it."""
    op.drop_column("overviews", "budget_course")
