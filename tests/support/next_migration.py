"""The migration of the next release."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tidemark.controller.base.db import database

__all__ = ["add_migration", "use_next_migration"]

_MIGRATION = """
from alembic import op
import sqlalchemy as sa

revision, down_revision, branch_labels, depends_on = "{after}", "{before}", None, None


def upgrade():
    op.add_column("streams", sa.Column("of_the_next_release", sa.BigInteger(), nullable=True))
    {more}
"""


def add_migration(migrations: Path, more: str = "") -> str:
    """Add a migration to a folder of them and return its revision.

    Args:
        migrations: the folder.
        more: what it does beside adding the column ``of_the_next_release`` to the table of streams.
    """
    versions = migrations / "versions"
    before = max(path.name[1:5] for path in versions.glob("v*.py"))
    after = f"{int(before) + 1:04}"
    (versions / f"v{after}_of_the_next_release.py").write_text(
        _MIGRATION.format(before=before, after=after, more=more)
    )
    return after


def use_next_migration(monkeypatch: pytest.MonkeyPatch, folder: Path, more: str = "") -> None:
    """Let each store that is opened from now on be of the next release; arguments as for ``add_migration``."""
    migrations = folder / "migrations"
    shutil.copytree(database._MIGRATIONS, migrations)
    after = add_migration(migrations, more)
    monkeypatch.setattr(database, "_MIGRATIONS", migrations)
    monkeypatch.setattr(database, "_release_version", lambda: after)
