"""The store's schema: what makes it, and what becomes of a store that is upgraded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import create_engine, inspect, text

from tidemark.controller.base.db.database import Database
from tidemark.controller.base.db.epoch import epoch_of
from tidemark.controller.base.db.tables import Base
from tidemark.controller.base.errors import StoreUnusableError

from support.controller_app import Controller
from support.next_migration import use_next_migration
from support.reports import exponential_batches, query_reports

REPORTS = query_reports(exponential_batches(6, 20))

SAME = ("evidence", "coverage", "completeness", "in_use_bound_ms", "effective_bound_ms")
"""What the status says of reports."""

POSTGRES = pytest.param("postgresql", marks=pytest.mark.slow)


@pytest.fixture(params=["sqlite", POSTGRES])
def url(request: pytest.FixtureRequest, database_url: str) -> str:
    """Return the URL of a database without any table, of each kind."""
    return database_url if request.param == "sqlite" else str(request.getfixturevalue("bare_postgres_url"))


def test_the_migrations_make_exactly_the_tables_of_the_code(url: str) -> None:
    database = Database(url)
    database.migrate()
    with database.connect() as connection:
        context = MigrationContext.configure(
            connection, opts={"compare_type": True, "compare_server_default": True}
        )
        assert compare_metadata(context, Base.metadata) == []
    with database.read() as session:
        assert epoch_of(session)
    database.close()


def stored(url: str) -> tuple[Any, set[str]]:
    """Return the version of the schema, and the columns of the streams."""
    engine = create_engine(url)
    with engine.connect() as connection:
        version = connection.scalar(text("SELECT version_num FROM alembic_version"))
        columns = {column["name"] for column in inspect(connection).get_columns("streams")}
    engine.dispose()
    return version, columns


def test_a_store_is_brought_to_the_next_release_with_its_data(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Controller(url) as controller:
        controller.report_all(REPORTS[:-2])
    use_next_migration(monkeypatch, tmp_path)
    found: dict[str, Any] = {}
    for new in REPORTS[-2:]:
        with Controller(url) as controller:
            version, columns = stored(url)
            assert version == controller.service.database.release_version
            assert "of_the_next_release" in columns
            assert controller.report(REPORTS[0]).json()["duplicate"]
            assert controller.report(new).status_code == 201
            found = controller.status()
    with Controller(f"sqlite:///{tmp_path / 'plain.db'}") as plain:
        plain.report_all(REPORTS)
        assert {name: plain.status()[name] for name in SAME} == {name: found[name] for name in SAME}


def test_a_migration_that_fails_changes_nothing_and_the_release_before_goes_on(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Controller(url) as controller:
        controller.report_all(REPORTS[:-1])
        before = stored(url)
        with monkeypatch.context() as patched:
            failing = 'op.execute("INSERT INTO no_such_table VALUES (1)")'
            use_next_migration(patched, tmp_path, failing)
            database = Database(url)
            with pytest.raises(StoreUnusableError, match="no_such_table"):
                database.migrate()
        assert stored(url) == before
        assert controller.report(REPORTS[-1]).status_code == 201
        database.close()


def test_a_database_of_a_newer_release_is_refused_in_one_line(url: str) -> None:
    database = Database(url)
    database.migrate()
    with database.write() as session:
        session.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(StoreUnusableError, match="was it made by a newer one"):
        database.migrate()
    database.close()
