"""Which databases a test runs on, where its fixture has both."""

from __future__ import annotations

import pytest

__all__ = ["on_sqlite_alone"]


def on_sqlite_alone(fixture: str) -> pytest.MarkDecorator:
    """Run a test on SQLite alone: other tests ask PostgreSQL each statement that this one would.

    Args:
        fixture: the fixture that both databases are parameters of.
    """
    return pytest.mark.parametrize(fixture, ["sqlite"], indirect=True)
