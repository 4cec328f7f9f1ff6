"""A prediction keeps what was counted under its bound, and over how long it is scored."""

from __future__ import annotations

import json

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None

_DAY_MS = 86_400_000
"""The horizon where the SLO is gone."""


def upgrade() -> None:
    """A prediction keeps what was counted under its bound, and over how long it is scored."""
    whole = sa.BigInteger()
    op.add_column("predictions", sa.Column("horizon_ms", whole, nullable=False, server_default="0"))
    op.add_column("predictions", sa.Column("counted_report_id", whole, nullable=False, server_default="0"))
    op.add_column("predictions", sa.Column("restored_ms", sa.Text(), nullable=False, server_default="{}"))
    connection = op.get_bind()
    horizons = [
        {"stream": stream_id, "horizon": json.loads(specification)["horizon_ms"]}
        for stream_id, specification in connection.execute(
            sa.text("SELECT stream_id, specification FROM slos")
        )
    ]
    connection.execute(sa.text("UPDATE predictions SET horizon_ms = :horizon"), {"horizon": _DAY_MS})
    if horizons:
        connection.execute(
            sa.text("UPDATE predictions SET horizon_ms = :horizon WHERE stream_id = :stream"), horizons
        )


def downgrade() -> None:
    """Undo it."""
    for name in ("restored_ms", "counted_report_id", "horizon_ms"):
        op.drop_column("predictions", name)
