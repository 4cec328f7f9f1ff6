"""A store that fails while it is in use: writes are 503, readiness says why, and nothing is counted wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from sqlalchemy import create_engine, event, inspect, make_url, text

from tidemark.controller.base.db.database import Database
from tidemark.controller.base.errors import StoreUnavailableError, StoreUnusableError

from support.controller_app import Controller
from support.faults import Survived
from support.next_migration import use_next_migration
from support.patience import until
from support.postgres import lock_waits, postgres_or_skip, restartable_postgres
from support.reports import exponential_batches, query_reports
from support.totals import compared_totals, totals, totals_of

pytestmark = pytest.mark.slow

REPORTS = query_reports(exponential_batches(60, 20))


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, database_url: str) -> str:
    """Return the URL of an empty store, of each kind of database."""
    if request.param == "sqlite":
        return database_url
    return str(request.getfixturevalue("new_postgres_url"))


def writable(controller: Controller) -> float:
    (found,) = (
        family.samples[0].value
        for family in text_string_to_metric_families(controller.http.get("/metrics").text)
        if family.name == "tidemark_store_writable"
    )
    return found


def fails(controller: Controller, why: str) -> None:
    """Check what a caller, a probe and an alert see of a store that takes no writes."""
    answer = controller.report(REPORTS[-1])
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "5"), answer.text
    assert answer.json()["type"] == "urn:tidemark:problem:store-unavailable"
    assert answer.headers["connection"] == "close"
    assert controller.put("/slo", {"target_ppm": 900_000}).status_code == 503
    answer = controller.http.get("/readyz")
    assert answer.status_code == 503
    assert why in answer.json()["detail"]
    assert writable(controller) == 0


def works(controller: Controller) -> None:
    assert controller.http.get("/readyz").status_code == 200
    assert controller.report(REPORTS[-1]).status_code == 201
    assert writable(controller) == 1
    assert controller.status()["evidence"]["batches"] == len(REPORTS)


@contextmanager
def migrated_by_another_release(url: str) -> Iterator[None]:
    engine = create_engine(url)
    with engine.begin() as connection:
        before = connection.execute(text("SELECT version_num FROM alembic_version")).scalar_one()
        connection.execute(text("UPDATE alembic_version SET version_num = '0099'"))
    yield
    with engine.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = :before"), {"before": before})
    engine.dispose()


def test_an_old_replica_writes_nothing_once_another_release_has_migrated_the_database(url: str) -> None:
    """It would count by the old rules into the new tables."""
    with Controller(url) as controller:
        controller.report_all(REPORTS[:-1])
        with migrated_by_another_release(url):
            fails(controller, "the schema is at migration 0099, this release wants 00")
        works(controller)


def test_a_probe_does_not_wait_behind_the_writes_of_a_busy_controller(controller: Controller) -> None:
    """SQLite has one writer, and what has just been written proves enough."""
    controller.report_all(REPORTS[:1])
    with controller.service.database.write():
        assert controller.http.get("/readyz").status_code == 200


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_replicas_that_start_together_migrate_once(request: pytest.FixtureRequest, kind: str) -> None:
    url = request.getfixturevalue("database_url" if kind == "sqlite" else "bare_postgres_url")
    replicas = [Database(url) for _ in range(3)]
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(Database.migrate, replicas))
    for replica in replicas:
        replica.prove_writable()
        replica.close()


def test_a_migration_waits_for_the_writes_that_have_begun_and_later_ones_wait_for_it(
    new_postgres_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a write could be half by the old schema and half by the new one, and busy replicas hold a new one up."""
    old = Database(new_postgres_url)
    use_next_migration(monkeypatch, tmp_path)
    new = Database(new_postgres_url)
    with ThreadPoolExecutor(2) as pool:
        with old.write() as session:
            migration = pool.submit(new.migrate)
            until(lambda: lock_waits(session) == 1, "the migration to wait")
            later = pool.submit(old.prove_writable)
            until(lambda: lock_waits(session) == 2, "the later write to wait")
        migration.result()
        with pytest.raises(StoreUnavailableError, match=f"this release wants {old.release_version}"):
            later.result()
    old.close()
    new.close()


def test_a_controller_on_a_standby_is_not_ready_and_counts_once_that_is_promoted(tmp_path: Path) -> None:
    """As during a failover: what the driver sends meanwhile is refused, so that it sends it again."""
    programs = postgres_or_skip()
    with restartable_postgres(programs) as primary:
        with Controller(primary.url) as controller:
            controller.report_all(REPORTS[:-1])
        with restartable_postgres(programs, primary) as standby, Controller(standby.url) as controller:
            assert controller.status()["evidence"]["batches"] == len(REPORTS) - 1
            fails(controller, "during recovery")
            standby.promote()
            works(controller)


def test_a_full_disk_costs_no_report_that_was_acknowledged(
    database_url: str, tmp_path: Path, survived: Survived
) -> None:
    with Controller(database_url) as controller:
        with full_disk(controller):
            stored = next(
                number for number, report in enumerate(REPORTS) if not controller.report(report).is_success
            )
            assert controller.report(REPORTS[stored]).status_code == 503
            # What changes nothing succeeds all the same, and proves nothing.
            assert controller.put("/policy", {"mode": "Off"}, params={"dryRun": "All"}).status_code == 200
            with controller.service.database.write():
                pass
            assert writable(controller) == 0
            assert controller.http.get("/readyz").status_code == 503
            assert controller.status()["evidence"]["batches"] == stored
        controller.report_all(REPORTS[stored:-1])
        works(controller)
        found = totals(controller.service.database)
    wanted = totals_of(REPORTS, tmp_path)
    survived("the disk of the controller's store is full", times=1, **compared_totals(found, wanted))
    assert found == wanted


def test_a_controller_whose_disk_is_full_is_not_ready_until_there_is_room_for_a_report(
    database_url: str,
) -> None:
    """A small write that fits in a page that was free would prove nothing: every report is still refused."""
    with Controller(database_url) as controller:
        with full_disk(controller):
            next(report for report in REPORTS if not controller.report(report).is_success)
            for _ in range(3):
                assert controller.put("/policy", {"mode": "Off"}).status_code in {200, 201, 503}
                controller.service.decider.leases.keep(now=True)
                answer = controller.http.get("/readyz")
                assert answer.status_code == 503
                assert "full" in answer.json()["detail"]
                assert writable(controller) == 0
        assert controller.http.get("/readyz").status_code == 200
        assert writable(controller) == 1
        with controller.service.database.connect() as connection:
            assert not inspect(connection).has_table("tidemark_proof_of_room")


def test_proving_that_there_is_room_leaves_nothing_behind(url: str) -> None:
    database = Database(url)
    database.migrate()
    database._full = True
    database.prove_writable()
    assert database.writable
    with database.connect() as connection:
        assert not inspect(connection).has_table("tidemark_proof_of_room")
    database.close()


def test_without_a_probe_the_loop_finds_that_a_full_disk_has_room_again(database_url: str) -> None:
    with Controller(database_url) as controller:
        with full_disk(controller):
            next(report for report in REPORTS if not controller.report(report).is_success)
        controller.service.ticker._tick()
        assert writable(controller) == 1


def test_a_database_without_its_marker_is_said_and_left_as_it_is(database_url: str) -> None:
    """``table streams already exists`` told nobody what to do."""
    Database(database_url).migrate()
    engine = create_engine(database_url)
    with engine.begin() as connection:
        connection.execute(text("DROP TABLE alembic_version"))
    with pytest.raises(StoreUnusableError) as raised:
        Database(database_url).migrate()
    assert "it has a table 'streams' but no 'alembic_version'" in raised.value.detail
    assert "restore a whole backup, or name another database" in raised.value.detail
    assert not inspect(engine).has_table("alembic_version")


@contextmanager
def full_disk(controller: Controller) -> Iterator[None]:
    """Let SQLite grow its file no further, with the error of a full disk."""
    engine, pages = controller.service.database._engine, [1]

    def limit(connection: Any, *_: object) -> None:
        connection.execute(f"PRAGMA max_page_count = {pages[0]}")

    event.listen(engine, "checkout", limit)
    yield
    pages[0] = 2**32 - 2


@pytest.mark.parametrize("how", ["removed", "replaced"])
@pytest.mark.parametrize("part", ["", "-wal", "-shm"])
def test_a_database_file_that_is_gone_is_said_and_nothing_is_written_to_what_nobody_can_open_again(
    database_url: str, how: str, part: str
) -> None:
    file = Path(f"{make_url(database_url).database}{part}")
    with Controller(database_url) as controller:
        controller.report_all(REPORTS[:-1])
        file.rename(file.with_suffix(".aside"))
        if how == "replaced":
            file.touch()
        assert controller.http.get("/readyz").status_code == 503  # though a write has just succeeded
        fails(controller, f"the database file {file} was removed or replaced")
        file.unlink(missing_ok=True)
        file.with_suffix(".aside").rename(file)
        works(controller)


def test_a_database_file_that_is_corrupt_is_said(database_url: str) -> None:
    file = Path(make_url(database_url).database or "")
    with Controller(database_url) as controller:
        controller.report_all(REPORTS[:-1])
        controller.service.database._engine.dispose()
        content = file.read_bytes()
        with file.open("r+b") as open_file:
            open_file.write(b"\xff" * len(content))
        answer = controller.report(REPORTS[-1])
        assert answer.status_code == 503
        assert controller.http.get("/readyz").status_code == 503
        assert writable(controller) == 0
        with file.open("r+b") as open_file:
            open_file.write(content)


def test_a_defect_of_ours_is_not_blamed_on_the_store(
    controller: Controller, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A caller that waits for the store to come back would wait for ever."""
    write: Callable[..., Any] = controller.service.database.write

    @contextmanager
    def defect(**options: Any) -> Iterator[Any]:
        with write(**options) as session:
            yield session
            session.execute(text("INSERT INTO streams (id) VALUES (NULL)"))

    monkeypatch.setattr(controller.service.database, "write", defect)
    answer = controller.put("/slo", {"target_ppm": 900_000})
    assert (answer.status_code, answer.json()["type"]) == (500, "urn:tidemark:problem:internal")
    assert writable(controller) == 1
