"""The joined output of several streams may have an SLO."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0023"
down_revision = "0022"
branch_labels = None
depends_on = None

_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """The joined output of several streams may have an SLO."""
    op.create_table(
        "joins",
        sa.Column("id", _ID, autoincrement=True, nullable=False),
        sa.Column("job", sa.String(length=200), nullable=False),
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("updated_us", sa.BigInteger(), nullable=False),
        sa.Column("specification", sa.Text(), nullable=False),
        sa.Column("choice", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_joins")),
        sa.UniqueConstraint("job", "name", name=op.f("uq_joins_job_name")),
    )
    with op.batch_alter_table("slos") as batch:
        batch.add_column(sa.Column("join_id", _ID, nullable=True))
        batch.create_foreign_key(op.f("fk_slos_join_id_joins"), "joins", ["join_id"], ["id"])


def downgrade() -> None:
    """Undo it; joins are forgotten."""
    with op.batch_alter_table("slos") as batch:
        batch.drop_constraint(op.f("fk_slos_join_id_joins"), type_="foreignkey")
        batch.drop_column("join_id")
    op.drop_table("joins")
