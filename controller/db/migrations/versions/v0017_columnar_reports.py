"""Bodies of reports are stored in columns. Old ones stay as they are; releases that read only those write no more."""

from __future__ import annotations

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Change nothing: a new revision keeps older releases from counting bodies that they cannot read."""


def downgrade() -> None:
    """Change nothing; older releases cannot read the bodies that were stored since."""
