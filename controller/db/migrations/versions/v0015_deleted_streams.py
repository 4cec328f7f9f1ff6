"""Streams, SLOs and policies can be deleted; partitions and queries that are gone age out."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None

_COUNTERS = ("gone_future_rows", "gone_missing_batches", "slo_generation", "policy_generation")


def upgrade() -> None:
    """Streams, SLOs and policies can be deleted; partitions and queries that are gone age out."""
    for name in _COUNTERS:
        op.add_column("streams", sa.Column(name, sa.BigInteger(), server_default="0", nullable=False))
    op.add_column("streams", sa.Column("deleted_us", sa.BigInteger(), nullable=True))
    op.add_column("streams", sa.Column("deleted_name", sa.String(length=200), nullable=True))


def downgrade() -> None:
    """Undo it; what a deleted stream has left shows under a name that no stream can have."""
    for name in ("deleted_name", "deleted_us", *reversed(_COUNTERS)):
        op.drop_column("streams", name)
