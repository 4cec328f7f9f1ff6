"""A publication says which rollout it carries, and which one was rolled back to it; the store has an epoch."""

from __future__ import annotations

import secrets

import sqlalchemy as sa
from alembic import op

revision = "0029"
down_revision = "0028"
branch_labels = None
depends_on = None

_PUBLISHED = sa.table(
    "published_bounds",
    *(sa.column(name) for name in ("stream_id", "generation", "pin", "rollout_id", "rolled_back_id")),
)
_ROLLOUTS = sa.table("rollouts", *(sa.column(name) for name in ("id", "stream_id", "generation")))


def upgrade() -> None:
    """A publication says which rollout it carries, and which one was rolled back to it; the store has an epoch."""
    epoch = op.create_table(
        "store_epoch",
        sa.Column("id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("epoch", sa.String(length=64), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_store_epoch")),
    )
    op.bulk_insert(epoch, [{"id": 1, "epoch": secrets.token_hex(8)}])
    op.add_column("published_bounds", sa.Column("rolled_back_id", sa.BigInteger(), nullable=True))
    here, rollout = _PUBLISHED.c, _ROLLOUTS.c
    same_stream = rollout.stream_id == here.stream_id
    # Until now a rollout was found by the last generation that carried it; a later one of its own is its rollback.
    rolled_back = sa.exists().where(
        same_stream, rollout.id == here.rollout_id, rollout.generation < here.generation
    )
    op.execute(
        sa.update(_PUBLISHED)
        .where(rolled_back)
        .values({"rolled_back_id": here.rollout_id, "rollout_id": sa.null()})
    )
    carried = sa.select(sa.func.max(rollout.id)).where(same_stream, rollout.generation == here.generation)
    op.execute(
        sa.update(_PUBLISHED)
        .where(here.rollout_id.is_(None), here.rolled_back_id.is_(None), here.pin.is_(None))
        .values(rollout_id=carried.scalar_subquery())
    )


def downgrade() -> None:
    """Undo it."""
    op.drop_table("store_epoch")
    here = _PUBLISHED.c
    op.execute(
        sa.update(_PUBLISHED)
        .where(here.rolled_back_id.is_not(None))
        .values({"rollout_id": here.rolled_back_id})
    )
    op.drop_column("published_bounds", "rolled_back_id")
