"""Late rows that corrected a window are counted apart."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0022"
down_revision = "0021"
branch_labels = None
depends_on = None

_TABLES = ("streams", "reports", "report_hours")
_COLUMNS = ("corrected_min", "corrected_max")


def upgrade() -> None:
    """Late rows that corrected a window are counted apart; reports before said nothing of them."""
    for table in _TABLES:
        for name in _COLUMNS:
            op.add_column(
                table, sa.Column(name, sa.BigInteger(), server_default=sa.text("0"), nullable=False)
            )


def downgrade() -> None:
    """Undo it."""
    for table in _TABLES:
        for name in _COLUMNS:
            op.drop_column(table, name)
