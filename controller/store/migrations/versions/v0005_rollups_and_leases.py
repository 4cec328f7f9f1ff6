"""Roll-ups and leases."""

from __future__ import annotations

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Roll-ups and leases."""


def downgrade() -> None:
    """Take it back."""
