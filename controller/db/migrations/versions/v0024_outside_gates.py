"""Outside gates are asked about rollouts."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0024"
down_revision = "0023"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Outside gates are asked about rollouts; nobody was asked before."""
    op.add_column("rollouts", sa.Column("gate_answers", sa.Text(), nullable=True))


def downgrade() -> None:
    """Undo it; answers are forgotten."""
    op.drop_column("rollouts", "gate_answers")
