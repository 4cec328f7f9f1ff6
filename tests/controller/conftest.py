"""Fixtures of the controller's tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.controller_app import Controller
from support.empty_store import bare_postgres, new_postgres
from support.shared_statements import share_statements

share_statements()


@pytest.fixture
def new_postgres_url(postgres_url: str) -> str:
    """Return the URL of an empty store of its own on the PostgreSQL that tests share."""
    return new_postgres(postgres_url)


@pytest.fixture
def bare_postgres_url(postgres_url: str) -> str:
    """Return the URL of a database of its own without any table."""
    return bare_postgres(postgres_url)


@pytest.fixture(scope="module")
def module_postgres_url(postgres_url: str) -> str:
    """Return the URL of an empty store that the tests of a module have to themselves."""
    return new_postgres(postgres_url)


@pytest.fixture
def database_url(tmp_path: Path) -> str:
    """Return the URL of a database that is not there yet."""
    return f"sqlite:///{tmp_path / 'tidemark.db'}"


@pytest.fixture
def controller(database_url: str) -> Iterator[Controller]:
    """Return a running controller on an empty store."""
    with Controller(database_url) as running:
        yield running


@pytest.fixture(scope="module")
def untouched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Controller]:
    """Return a running controller that the tests of a file share for what is refused: its store stays empty."""
    with Controller(f"sqlite:///{tmp_path_factory.mktemp('untouched') / 'tidemark.db'}") as running:
        yield running
        assert running.http.get("/v1/jobs").json()["jobs"] == []
        assert running.http.get("/v1/events").json()["events"] == []


@pytest.fixture(params=["sqlite", "postgresql"])
def each_url(request: pytest.FixtureRequest) -> str:
    """Return the URL of an empty store of its own, on each kind of database."""
    return str(request.getfixturevalue("database_url" if request.param == "sqlite" else "new_postgres_url"))


@pytest.fixture
def either(each_url: str) -> Iterator[Controller]:
    """Return a running controller on an empty store, on each kind of database."""
    with Controller(each_url) as running:
        yield running
