"""How Alembic runs the migrations: on the connection that ``Database`` hands over, inside its transaction."""

from __future__ import annotations

from alembic import context

from tidemark.controller.db.tables import Base

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=Base.metadata,
    # SQLite cannot make most changes in place; batch mode copies the table instead.
    render_as_batch=True,
)
context.run_migrations()
