"""What the job of a stream does with late rows."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0021"
down_revision = "0020"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """What the job of a stream does with late rows."""
    op.add_column("streams", sa.Column("late", sa.Text(), nullable=True))


def downgrade() -> None:
    """Undo it."""
    op.drop_column("streams", "late")
