"""Every wait for the database ends, whether its server is gone, full, slow or a standby, or its disk hangs."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from sqlalchemy import make_url, text
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from tidemark.controller.base.db import database as database_module
from tidemark.controller.base.db import postgres, store_files
from tidemark.controller.base.db.database import Database

from support.bad_network import bad_network
from support.controller_app import Controller
from support.empty_store import bare_postgres, new_postgres
from support.patience import until
from support.policies import at_once
from support.postgres import postgres_or_skip, restartable_postgres
from support.reports import exponential_batches, query_reports
from support.rolled_job import RolledJob

pytestmark = pytest.mark.slow

REPORTS = query_reports(exponential_batches(60, 20))


def at(url: str, host: str, **query: str) -> str:
    """Return a URL with another host and port."""
    name, port = host.rsplit(":", 1)
    parsed = make_url(url).set(host=name, port=int(port))
    return parsed.update_query_dict(query).render_as_string(hide_password=False)


def address(url: str) -> str:
    parsed = make_url(url)
    return f"{parsed.host}:{parsed.port}"


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the limits short; a test that waited for ever would still do so."""
    monkeypatch.setattr(postgres.LimitedConnection, "answer_seconds", 1.0)
    monkeypatch.setattr(postgres, "_OPTIONS", "-c statement_timeout=500ms")
    monkeypatch.setattr(postgres, "_CONNECT_SECONDS", 2.0)
    monkeypatch.setattr(database_module, "_POOL_SECONDS", 0.1)
    monkeypatch.setattr(store_files, "BUSY_SECONDS", 0.1)
    monkeypatch.setattr(database_module, "BUSY_SECONDS", 0.1)


def test_a_store_that_changes_sides_in_silence_costs_a_moment(
    new_postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A primary that is gone closes no connection; a report, a decision and a probe must not wait for it for ever."""
    port = make_url(new_postgres_url).port
    assert port is not None
    with (
        bad_network(port) as (url, network),
        Controller(at(new_postgres_url, url.removeprefix("http://"))) as controller,
    ):
        controller.put("/slo", {"target_ppm": 900_000})
        controller.report_all(REPORTS[:-2])
        assert controller.tick().decided == 1
        monkeypatch.setattr(postgres.LimitedConnection, "answer_seconds", 1.0)
        network.lives += 1
        answers = [controller.report(REPORTS[-2]).status_code for _ in range(2)]
        assert answers in ([503, 201], [201, 200])
        network.lives += 1
        assert controller.tick().decided == 1
        network.lives += 1
        controller.service.database._written_s = float("-inf")
        assert controller.http.get("/readyz").status_code == 200
        assert controller.report(REPORTS[-1]).status_code == 201


def test_of_several_hosts_the_one_that_takes_writes_is_used_whichever_that_becomes() -> None:
    programs = postgres_or_skip()
    with restartable_postgres(programs) as primary, restartable_postgres(programs, primary) as standby:
        start, _, hosts = primary.url.partition("127.0.0.1")
        both = f"{start}{address(standby.url)},127.0.0.1{hosts}"
        with Controller(both) as controller:
            controller.report_all(REPORTS[:-1])
            with primary.away():
                standby.promote()
                until(lambda: controller.report(REPORTS[-1]).is_success, "the report to be taken")
            assert controller.http.get("/readyz").status_code == 200
            assert controller.status()["evidence"]["batches"] == len(REPORTS)


def sleeping(database: Database) -> None:
    with database.read() as session:
        session.execute(text("SELECT pg_sleep(3600)"))


def locked(database: Database) -> None:
    with database.connect() as holder:
        holder.execute(text("LOCK TABLE alembic_version IN EXCLUSIVE MODE"))
        database.prove_writable()


def full(database: Database) -> None:
    with database.connect(), database.read() as session:
        session.execute(text("SELECT 1"))


@pytest.mark.usefixtures("short")
@pytest.mark.parametrize(
    ("wait", "connections"), [(sleeping, 1), (locked, 2), (full, 1)], ids=["statement", "lock", "pool"]
)
def test_a_wait_for_a_server_that_is_there_ends(
    new_postgres_url: str, wait: Callable[[Database], None], connections: int
) -> None:
    with closing(Database(new_postgres_url, connections=connections)) as database:
        with pytest.raises(SQLAlchemyError):
            wait(database)
        database.prove_writable()


@contextmanager
def silent_server() -> Iterator[str]:
    """Accept connections and never say a word."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


@pytest.mark.usefixtures("short")
@pytest.mark.parametrize("what", ["server", "file"])
def test_a_wait_for_a_connection_ends(tmp_path: Path, new_postgres_url: str, what: str) -> None:
    """A file that nobody writes to stands for all that no limit of the driver is about, as the look-up of a name."""
    os.mkfifo(tmp_path / "password")
    with silent_server() as silent:
        url = (
            at(new_postgres_url, silent)
            if what == "server"
            else at(new_postgres_url, address(new_postgres_url), password_file=str(tmp_path / "password"))
        )
        ends = pytest.raises(DBAPIError, match=r"no connection within|timeout expired")
        with closing(Database(url)) as database, ends:
            database.prove_writable()
    (tmp_path / "password").unlink()


@pytest.mark.usefixtures("short")
def test_a_write_does_not_wait_for_ever_for_one_that_hangs(database_url: str) -> None:
    """As on a disk that does not answer: other requests and the probe say so."""
    with Controller(database_url) as controller:
        controller.report_all(REPORTS[:1])
        store = controller.service.database
        ended = threading.Event()

        def hang() -> None:
            with store.write():
                ended.wait()

        hanging = threading.Thread(target=hang)
        hanging.start()
        until(store._lock.locked, "the write to begin")
        store._written_s = float("-inf")
        try:
            assert controller.report(REPORTS[1]).status_code == 503
            answer = controller.http.get("/readyz")
            assert (answer.status_code, "another write" in answer.text) == (503, True)
        finally:
            ended.set()
            hanging.join()
        assert controller.http.get("/readyz").status_code == 200


def test_a_migration_may_take_as_long_as_it_needs_and_nothing_else_may(postgres_url: str) -> None:
    with closing(Database(bare_postgres(postgres_url))) as database:
        database.migrate()
        with database.connect() as connection:
            database_module._take_time(connection)
            assert connection.execute(text("SHOW statement_timeout")).scalar_one() == "1h"
        with database.connect() as connection:
            assert connection.execute(text("SHOW statement_timeout")).scalar_one() == "7s"


def test_all_work_of_a_controller_takes_turns_on_one_connection(each_url: str) -> None:
    """Work that held one while it waits for another would wait for itself once the pool is full."""
    with Controller(each_url, database_connections=1) as controller:
        job = RolledJob(controller)
        job.put("slo", {"target_ppm": 950_000})
        job.run(40, 8.0, tick=False)
        controller.tick()
        job.put("policy", at_once())
        assert job.published()["generation"] == 1
        controller.snapshot()
        controller.service.ticker._tick()
        paths = ["/v1/fleet", job.path, f"{job.path}/curve", "/metrics", "/readyz"]
        with ThreadPoolExecutor(60) as readers:
            assert {answer.status_code for answer in readers.map(controller.http.get, paths * 12)} == {200}
        pool = controller.service.database._engine.pool
        assert pool.checkedout() + pool.checkedin() <= 1  # type: ignore[attr-defined]  # both pools have it


def test_a_rotated_password_is_read_again_for_each_connection(tmp_path: Path) -> None:
    file = tmp_path / "password"
    with restartable_postgres(postgres_or_skip()) as server, closing(Database(server.url)) as admin:
        with admin.connect() as connection:
            rules = connection.execute(text("SHOW hba_file")).scalar_one()
            connection.execute(
                text(
                    f"COPY (SELECT 'host all rotated 127.0.0.1/32 scram-sha-256' UNION ALL SELECT "
                    f"'host all all 127.0.0.1/32 trust') TO '{rules}'"
                )
            )
            connection.execute(text("SELECT pg_reload_conf()"))
            connection.execute(text("CREATE ROLE rotated SUPERUSER LOGIN"))
            connection.commit()

        def rotate(password: str) -> None:
            with admin.connect() as connection:
                connection.execute(text(f"ALTER ROLE rotated PASSWORD '{password}'"))
                connection.commit()

        rotate("first")
        file.write_text("first\n")
        url = make_url(new_postgres(server.url)).set(username="rotated")
        with Controller(
            url.update_query_dict({"password_file": str(file)}).render_as_string(False)
        ) as controller:
            controller.report_all(REPORTS[:1])
            rotate("second")
            controller.service.database._engine.dispose()
            assert controller.report(REPORTS[1]).status_code == 503
            file.write_text("second\n")
            assert controller.report(REPORTS[1]).status_code == 201
