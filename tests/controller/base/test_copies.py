"""Backups, crashes and restores of a store, and files of it that are taken away: whole, or refused, and never less."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, suppress
from pathlib import Path

import httpx
import pytest
from click.testing import CliRunner
from sqlalchemy import text
from sqlalchemy.exc import DatabaseError

from tidemark.controller.base.db.database import Database
from tidemark.controller.tools.cli import app
from tidemark.models.protocol.messages import Report, to_json_object

from support.controller_app import STREAM, Controller
from support.patience import PATIENCE_S, until
from support.replicas import Replica
from support.reports import exponential_batches, query_reports
from support.soak import with_soak

pytestmark = pytest.mark.slow

FIRST = 20
"""Reports before the backup."""
REPORTS = query_reports(exponential_batches(FIRST + 60, 20))
MOMENTS = (0, 1, 2, 3, 5, 8, 13, 21, 34, 55)
"""Reports after it, until the crash."""


def tidemark(*arguments: str | Path) -> tuple[int, str]:
    found = CliRunner().invoke(app, [str(each) for each in arguments])
    return found.exit_code, found.output


class Server(Replica):
    """A controller in a process of its own over a SQLite file."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "tidemark.db"
        super().__init__(folder, "server", f"sqlite:///{self.file}")

    def send(self, reports: Iterable[Report]) -> set[int]:
        """Send reports, and return the batches that were acknowledged."""
        with httpx.Client(base_url=self.url, timeout=PATIENCE_S) as http:
            return {
                report.batch_id
                for report in reports
                if http.post(STREAM + "/reports", json=to_json_object(report)).is_success
            }

    def stored(self) -> set[int]:
        """Return the batches that it has."""
        answer = httpx.get(f"{self.url}{STREAM}/reports?limit=1000", timeout=PATIENCE_S)
        return {report["batch_id"] for report in answer.json()["reports"]}

    def refuses(self, why: str) -> None:
        """Check that it does not start, and says why."""
        self.start_again()
        assert self.process.wait(PATIENCE_S) == 2
        assert why in self.log.read_text()

    def serves(self, batches: set[int]) -> None:
        """Check that it starts, has these batches and takes all others."""
        self.start_again()
        self.wait_ready()
        assert self.stored() == batches
        wanted = {report.batch_id for report in REPORTS}
        assert self.send(REPORTS) == wanted
        assert self.stored() == wanted


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    found = Server(tmp_path)
    try:
        found.wait_ready()
        yield found
    finally:
        found.end()


@pytest.mark.long
@pytest.mark.parametrize("more", with_soak(MOMENTS, soak=set(MOMENTS) - {8}))
def test_after_a_crash_the_backup_is_restored_and_nothing_of_the_old_log_is_played_over_it(
    server: Server, tmp_path: Path, more: int
) -> None:
    url, copy = ("--database-url", f"sqlite:///{server.file}"), tmp_path / "copy.db"
    before = server.send(REPORTS[:FIRST])
    assert len(before) == FIRST
    assert tidemark("backup", copy, *url)[0] == 0
    assert len(server.send(REPORTS[FIRST : FIRST + more])) == more
    server.kill()
    # Who copies by hand is not let in, however the two would fit.
    shutil.copy(copy, server.file)
    server.refuses("is of another file")
    code, said = tidemark("restore", copy, *url)
    assert (code, "has the new epoch" in said) == (0, True)
    server.serves(before)


@pytest.mark.long
def test_a_store_with_a_damaged_page_acknowledges_nothing_once_that_is_known(server: Server) -> None:
    """As after cp over the file of a running controller; the page is one that no request reads."""
    server.send(REPORTS[:FIRST])
    with closing(sqlite3.connect(server.file, isolation_level=None)) as other:
        other.execute("CREATE TABLE spare AS SELECT 1")
        (page,) = other.execute("SELECT rootpage FROM sqlite_master WHERE name = 'spare'").fetchone()
        (size,) = other.execute("PRAGMA page_size").fetchone()
        moved = "PRAGMA wal_checkpoint(TRUNCATE)"
        until(lambda: other.execute(moved).fetchone()[0] == 0, "a log without the page")
    server.send(REPORTS[FIRST:-1])
    server.kill()
    with server.file.open("r+b") as file:
        file.seek((page - 1) * size)
        file.write(b"\xff" * size)
    server.start_again()

    def is_known() -> bool:
        with suppress(httpx.TransportError):
            return "is damaged" in httpx.get(f"{server.url}/readyz", timeout=PATIENCE_S).text
        return False

    until(is_known, "the damage")
    assert server.send(REPORTS[-1:]) == set()


@pytest.mark.long
@pytest.mark.parametrize("end", ["crash", "stop"])
@pytest.mark.parametrize("more", with_soak(MOMENTS, soak=set(MOMENTS) - {8}))
def test_once_the_log_is_taken_away_nothing_is_acknowledged_and_nothing_is_missed_in_silence(
    server: Server, more: int, end: str
) -> None:
    before = server.send(REPORTS[: FIRST + more])
    log = Path(f"{server.file}-wal")
    log.unlink()
    if more % 2:
        Path(f"{server.file}-shm").unlink()
    assert server.send(REPORTS[FIRST + more : FIRST + more + 3]) == set()
    assert httpx.get(f"{server.url}/readyz", timeout=PATIENCE_S).status_code == 503
    if end == "stop":
        server.stop()
        server.serves(before)
    else:
        server.kill()
        server.refuses("its log")
        # Who looks at it leaves an empty log, which must not pass for a log.
        with closing(sqlite3.connect(f"{server.file.as_uri()}?mode=ro", uri=True)) as reader:
            reader.execute("SELECT count(*) FROM sqlite_master").fetchone()
        assert log.read_bytes() == b""
        server.refuses("missing or empty")


@pytest.mark.parametrize("version", [0, 1])
def test_a_store_whose_controller_died_before_it_acknowledged_anything_starts_again(
    tmp_path: Path, version: int
) -> None:
    """It died between the file's word that there is a log and the first commit in that."""
    file, log = tmp_path / "tidemark.db", tmp_path / "tidemark.db-wal"
    with closing(Database(f"sqlite:///{file}")) as database:
        database.migrate()
    with closing(sqlite3.connect(file)) as connection:
        connection.execute(f"PRAGMA user_version={version}")
    with file.open("r+b") as header:
        if version == 0:
            header.seek(18)
            header.write(b"\2\2")
    log.touch()
    with closing(Database(f"sqlite:///{file}")) as database:
        database.migrate()
        assert log.stat().st_size > 0


def empty(file: Path) -> None:
    file.write_bytes(b"")


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-8_192])


def blank(file: Path) -> None:
    content = file.read_bytes()
    file.write_bytes(content[:8_192] + bytes(len(content) - 8_192))


def orphaned(file: Path) -> None:
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("DELETE FROM streams")


def of_a_newer_release(file: Path) -> None:
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("UPDATE alembic_version SET version_num = '0099'")


@pytest.mark.parametrize("spoil", [Path.unlink, empty, cut, blank, orphaned, of_a_newer_release])
def test_a_backup_that_is_not_whole_is_refused_and_the_store_stays_as_it_was(
    database_url: str, tmp_path: Path, spoil: Callable[[Path], None]
) -> None:
    copy = tmp_path / "copy.db"
    with Controller(database_url) as controller:
        controller.report_all(REPORTS[:FIRST])
        assert tidemark("backup", copy, "--database-url", database_url)[0] == 0
        controller.report_all(REPORTS[FIRST:-1])
    spoil(copy)
    code, said = tidemark("restore", copy, "--database-url", database_url)
    assert (code, said.count("\n")) == (2, 1), said
    assert {path.name for path in tmp_path.iterdir()} - {"copy.db"} == {"tidemark.db"}
    with Controller(database_url) as controller:
        assert controller.report(REPORTS[-1]).status_code == 201
        assert controller.status()["evidence"]["batches"] == len(REPORTS)


def test_a_store_in_use_is_not_replaced_and_nothing_is_written_over_by_a_backup(
    each_url: str, tmp_path: Path
) -> None:
    with Controller(each_url) as controller:
        controller.report_all(REPORTS[:-1])
        code, said = tidemark("restore", "--database-url", each_url)
        assert (code, "stop every controller first" in said) == (2, True)
        if each_url.startswith("sqlite"):
            (tmp_path / "there").touch()
            for file in (tmp_path / "there", tmp_path / "tidemark.db"):
                assert (
                    "exists; name a file that does not"
                    in tidemark("backup", file, "--database-url", each_url)[1]
                )
        assert controller.report(REPORTS[-1]).status_code == 201
    assert tidemark("restore", "--database-url", each_url)[0] == 0


@pytest.mark.long
def test_a_crashed_store_that_was_backed_up_starts_all_the_same(server: Server, tmp_path: Path) -> None:
    """Who closes it last puts the log into the file, and that must not look like a log that is missing."""
    before = server.send(REPORTS[:FIRST])
    server.kill()
    assert tidemark("backup", tmp_path / "copy.db", "--database-url", f"sqlite:///{server.file}")[0] == 0
    server.serves(before)


def spoil_schema(database: Database) -> None:
    with database.write() as session:
        for statement in (
            "CREATE TABLE spoilt (a INTEGER)",
            "PRAGMA writable_schema = ON",
            "UPDATE sqlite_master SET sql = 'CREATE TABLE spoilt (' WHERE name = 'spoilt'",
            "PRAGMA writable_schema = RESET",
            "SELECT * FROM spoilt",
        ):
            session.execute(text(statement))


def test_a_store_that_sqlite_calls_damaged_acknowledges_nothing_more(database_url: str) -> None:
    """Other work may still succeed, which would say that the store is well."""
    with Controller(database_url) as controller:
        controller.report_all(REPORTS[:-1])
        with pytest.raises(DatabaseError, match="malformed"):
            spoil_schema(controller.service.database)
        assert controller.report(REPORTS[-1]).status_code == 503
        assert controller.http.get("/readyz").status_code == 503
