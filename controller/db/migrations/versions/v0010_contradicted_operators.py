"""How a query's plan contradicts the operator that its job declares."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """How a query's plan contradicts the operator that its job declares."""
    op.add_column("live_states", sa.Column("contradiction", sa.Text(), nullable=True))


def downgrade() -> None:
    """Undo it."""
    op.drop_column("live_states", "contradiction")
