"""Fixtures of the controller's tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.controller_app import Controller


@pytest.fixture
def database_url(tmp_path: Path) -> str:
    """Return the URL of a database that is not there yet."""
    return f"sqlite:///{tmp_path / 'tidemark.db'}"


@pytest.fixture
def controller(database_url: str) -> Iterator[Controller]:
    """Return a running controller on an empty store."""
    with Controller(database_url) as running:
        yield running
