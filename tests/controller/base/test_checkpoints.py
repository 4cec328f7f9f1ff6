"""Checkpoints of SQLite: beside the writers and not within their commits, and the log does not grow without end."""

from __future__ import annotations

import logging
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import text

from tidemark.controller.base.db import checkpoints
from tidemark.controller.base.db.checkpoints import MAX_PAGES

from support.controller_app import Controller
from support.empty_store import open_empty
from support.patience import until

PAGE = 4_096


class Store:
    """A SQLite store with a table to fill."""

    def __init__(self, path: Path) -> None:
        self.path, self.log = path, path.with_name(path.name + "-wal")
        self.database = open_empty(f"sqlite:///{path}")
        with self.database.write() as session:
            session.execute(text("CREATE TABLE filled (content BLOB)"))

    def fill(self, pages: int) -> None:
        """Commit so many pages."""
        with self.database.write() as session:
            session.execute(
                text("INSERT INTO filled VALUES (:content)"), {"content": os.urandom(pages * PAGE)}
            )

    def rows(self) -> int:
        """Return how many rows are in the file itself, whatever stands in the log."""
        return _count(self.path, "filled")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    made = Store(tmp_path / "store.db")
    yield made
    made.database.close()


def taken(store: Store) -> bool:
    assert store.database.checkpoints is not None
    return store.database.checkpoints.take()


def test_a_commit_moves_nothing_and_a_checkpoint_moves_all(store: Store) -> None:
    assert taken(store)
    for _ in range(30):
        store.fill(100)
    assert store.rows() == 0
    assert taken(store)
    assert store.rows() == 30


def test_after_a_checkpoint_the_log_begins_anew(store: Store) -> None:
    for _ in range(10):
        store.fill(500)
        assert taken(store)
    assert store.log.stat().st_size < 1_000 * PAGE


def test_who_still_reads_what_was_keeps_it_and_the_rest_is_moved_later(store: Store) -> None:
    store.fill(10)
    with store.database.read() as session:
        count = text("SELECT count(*) FROM filled")
        assert session.execute(count).scalar_one() == 1
        store.fill(10)
        assert not taken(store)
        assert session.execute(count).scalar_one() == 1
    assert taken(store)
    assert store.rows() == 2


def test_where_no_checkpoint_is_taken_a_commit_moves_a_long_log(store: Store) -> None:
    for _ in range(30):
        store.fill(MAX_PAGES // 20)
    assert store.rows() >= 20
    assert store.log.stat().st_size < 2 * MAX_PAGES * PAGE


def test_a_server_takes_them_after_commits_and_ends_them_with_itself(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoints, "EVERY_SECONDS", 0.01)
    with Controller(database_url) as controller:
        found = controller.service.database.checkpoints
        assert found is not None
        controller.put("/slo", {"target_ppm": 900_000})
        file = Path(database_url.removeprefix("sqlite:///"))
        until(lambda: _count(file, "slos"), "what was committed to leave the log")
    assert not found._thread.alive


def test_a_checkpoint_that_fails_is_logged_and_tried_again(
    store: Store, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    found = store.database.checkpoints
    assert found is not None
    monkeypatch.setattr(found._thread, "_every_seconds", 0.01)
    connect, failures = found._connect, iter([sqlite3.OperationalError("disk I/O error")])

    def failing() -> object:
        for error in failures:
            raise error
        return connect()

    monkeypatch.setattr(found, "_connect", failing)
    with caplog.at_level(logging.WARNING):
        store.database.start()
        store.fill(10)
        until(store.rows, "what was committed to leave the log")
    assert "could not be moved into the database file yet: disk I/O error" in caplog.text


def _count(path: Path, table: str) -> int:
    try:
        with sqlite3.connect(f"file:{path}?immutable=1", uri=True) as connection:
            return int(connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0])
    except sqlite3.DatabaseError:
        return 0  # read while it is written
