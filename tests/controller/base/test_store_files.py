"""The files of a SQLite store: however its connections end, what is left opens again."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from threading import Barrier, Event, Timer

import pytest
from sqlalchemy import text

from tidemark.controller.base.db import store_files
from tidemark.controller.base.db.copies import restore
from tidemark.controller.base.db.database import Database
from tidemark.controller.base.db.store_files import StoreFiles
from tidemark.controller.base.errors import StoreUnusableError


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Return the file of a store that is closed."""
    path = tmp_path / "tidemark.db"
    with closing(StoreFiles(path)) as files:
        files.open().execute("CREATE TABLE rows AS SELECT 1 AS value")
    return path


@pytest.fixture
def crashed(file: Path) -> Path:
    """Return the file of a store whose process died with a second row in the log."""
    with closing(StoreFiles(file)) as files:
        files.open().execute("INSERT INTO rows VALUES (2)")
        folder = file.parent / "crashed"
        folder.mkdir()
        for part in ("", "-wal"):
            shutil.copy(f"{file}{part}", folder)
    return folder / file.name


def rows_of(file: Path) -> int:
    """Return how many rows a store has; it raises where the store is refused, and leaves the file alone."""
    with closing(StoreFiles(file)) as files:
        (rows,) = files.open().execute("SELECT count(*) FROM rows").fetchone()
    assert list(file.parent.glob(f"{file.name}-*")) == []
    return int(rows)


@pytest.mark.slow
def test_a_store_that_several_close_together_opens_again(file: Path) -> None:
    """As when two replicas stop, or a backup ends while the controller stops."""
    replicas = 4
    for _ in range(50):
        stores = [StoreFiles(file) for _ in range(replicas)]
        for store in stores:
            store.open()
        together = Barrier(replicas)

        def end(store: StoreFiles, together: Barrier = together) -> None:
            together.wait()
            store.close()

        with ThreadPoolExecutor(replicas) as pool:
            list(pool.map(end, stores))
        assert rows_of(file) == 1


def test_a_store_that_is_closed_within_a_transaction_opens_again(file: Path) -> None:
    """As when there is no room for a backup, or somebody interrupts it."""
    with closing(StoreFiles(file)) as files:
        keeper = files.open()
        keeper.execute("BEGIN")
        keeper.execute("SELECT count(*) FROM rows").fetchone()
    assert rows_of(file) == 1


def test_a_store_opens_again_after_a_start_that_was_interrupted(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(connection: sqlite3.Connection) -> None:
        begin(connection)
        raise KeyboardInterrupt

    begin = store_files._begin_log
    with monkeypatch.context() as patched:
        patched.setattr(store_files, "_begin_log", interrupted)
        with pytest.raises(KeyboardInterrupt):
            StoreFiles(file).open()
    assert rows_of(file) == 1


def test_a_store_whose_pages_are_checked_until_after_it_is_closed_opens_again(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = StoreFiles(file)
    files.open()

    @contextmanager
    def closing_late(connection: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
        connection.execute("SELECT count(*) FROM rows").fetchone()
        files.close()
        yield connection
        connection.close()

    with monkeypatch.context() as patched:
        patched.setattr(store_files, "closing", closing_late)
        files.check_pages()
    assert rows_of(file) == 1


def test_a_crashed_store_is_as_it_was_after_a_restore_that_fails(crashed: Path) -> None:
    with pytest.raises(StoreUnusableError, match="there is no store"):
        restore(f"sqlite:///{crashed}", None)
    assert rows_of(crashed) == 2


def test_a_crashed_store_is_opened_by_a_link_to_it_with_its_log(crashed: Path, tmp_path: Path) -> None:
    link = tmp_path / "link.db"
    link.symlink_to(crashed)
    assert rows_of(link) == 2
    assert list(crashed.parent.iterdir()) == [crashed]


def test_a_store_that_is_closed_while_another_thread_reads_opens_again(tmp_path: Path) -> None:
    """As when a controller stops and a long request has not ended."""
    database = Database(f"sqlite:///{tmp_path / 'tidemark.db'}")
    database.migrate()
    reads, ends = Event(), Event()

    def read() -> None:
        with database.read() as session:
            session.execute(text("SELECT count(*) FROM streams"))
            reads.set()
            ends.wait()

    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(read)
        reads.wait()
        Timer(0.1, ends.set).start()
        database.close()
        reading.result()
    assert [path.name for path in tmp_path.iterdir()] == ["tidemark.db"]
