"""What a person discarded or rolled back is a veto on the rollout, and no failure that expires."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None

_ROLLOUTS = sa.table(
    "rollouts", sa.column("id"), sa.column("state"), sa.column("reason"), sa.column("vetoed")
)
_FAILED = sa.table("failed_bounds", sa.column("rollout_id"))


def upgrade() -> None:
    """What a person discarded or rolled back is a veto on the rollout, and no failure that expires."""
    op.add_column("rollouts", sa.Column("vetoed", sa.Boolean(), server_default=sa.false(), nullable=False))
    by_person = sa.or_(
        _ROLLOUTS.c.state == "Discarded",
        sa.and_(_ROLLOUTS.c.state == "RolledBack", _ROLLOUTS.c.reason.like("rolled back: %")),
    )
    remembered = _ROLLOUTS.c.id.in_(sa.select(_FAILED.c.rollout_id))
    op.execute(sa.update(_ROLLOUTS).where(by_person, remembered).values(vetoed=sa.true()))
    vetoed = sa.select(_ROLLOUTS.c.id).where(_ROLLOUTS.c.vetoed)
    op.execute(sa.delete(_FAILED).where(_FAILED.c.rollout_id.in_(vetoed)))


def downgrade() -> None:
    """Undo it; vetoes are forgotten."""
    op.drop_column("rollouts", "vetoed")
