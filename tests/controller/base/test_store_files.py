"""The files of a SQLite store: however its connections end, what is left opens again."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from threading import Barrier, Event, Timer

import pytest
from sqlalchemy import text

from tidemark.controller.base.db.database import Database
from tidemark.controller.base.db.store_files import StoreFiles


def opens(file: Path) -> bool:
    """Return whether a store opens; it raises where the store is refused."""
    with closing(StoreFiles(file)) as files:
        return files.open().execute("SELECT count(*) FROM sqlite_master").fetchone() is not None


@pytest.mark.slow
def test_a_store_that_several_processes_close_together_opens_again(tmp_path: Path) -> None:
    """As when two replicas stop, or a backup ends while the controller stops."""
    file, replicas = tmp_path / "tidemark.db", 4
    for _ in range(50):
        stores = [StoreFiles(file) for _ in range(replicas)]
        for store in stores:
            store.open().execute("CREATE TABLE IF NOT EXISTS rows (value)")
        together = Barrier(replicas)

        def end(store: StoreFiles, together: Barrier = together) -> None:
            together.wait()
            store.close()

        with ThreadPoolExecutor(replicas) as pool:
            list(pool.map(end, stores))
        assert opens(file)
        assert [path.name for path in tmp_path.iterdir()] == ["tidemark.db"]


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
    assert opens(tmp_path / "tidemark.db")
