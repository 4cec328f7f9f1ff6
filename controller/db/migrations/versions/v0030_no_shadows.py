"""Nothing is tried beside the SLO of a stream any more."""

from __future__ import annotations

from alembic import op

revision = "0030"
down_revision = "0029"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Drop what was tried beside SLOs."""
    op.drop_table("shadow_days")
    op.drop_table("shadows")
