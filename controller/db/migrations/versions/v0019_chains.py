"""What the bounds of a stream decide behind its own operator."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """What the bounds of a stream decide behind its own operator."""
    op.add_column("streams", sa.Column("downstream", sa.Text(), nullable=True))


def downgrade() -> None:
    """Undo it."""
    op.drop_column("streams", "downstream")
