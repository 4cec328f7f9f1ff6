"""A database as the first release made it opens in this one, keeps its data and goes on."""

from __future__ import annotations

import json
import zlib
from pathlib import Path
from typing import Any

import pytest
from alembic import command
from sqlalchemy import MetaData, Table, create_engine, func, inspect, select, text

from tidemark.controller.db.database import Database, _migrations
from tidemark.controller.db.migrations.versions.v0011_plain_names import COLUMNS
from tidemark.controller.db.tables import NeedSketchRow, ReportBodyRow, RollupRow
from tidemark.controller.intake.stored_bodies import stored_report
from tidemark.models.protocol.messages import AppendDelay

from support.controller_app import Controller
from support.policies import at_once
from support.reports import START_US, exponential_batches, query_reports
from support.rolled_job import RolledJob
from support.streams import SECOND
from support.waiting import count_by_partition

REPORTS = query_reports(exponential_batches(24, 50, slow=3))

FIRST, BEFORE = "0001", "0010"
"""The first migration, and the one before this release's."""

PLACEHOLDERS = {
    ("streams", "created_us"): 1,
    ("ledger", "partition"): "",
    ("need_slots", "version"): 1,
}
"""Values of columns that the first release had and this one does not."""

SUCCESSORS = {"ledger": "ledger_keys"}
"""Tables of this release that hold what others held in the first."""

UNCHANGED = (
    "evidence",
    "coverage",
    "completeness",
    "in_use_bound_ms",
    "effective_bound_ms",
    "applied",
    "mode",
)
"""What the status says of reports and acknowledgements, which every release counts alike."""


def first_database(url: str) -> None:
    """Make the tables of the first migration, and no more."""
    made = Database(url)
    with made._writer.begin() as connection:
        command.upgrade(_migrations(connection), FIRST)
    made.close()


def copy_to_first(new_url: str, old_url: str) -> dict[str, int]:
    """Write what a store of this release holds into one of the first, column by column; return its rows by table."""
    source, target = create_engine(new_url), create_engine(old_url)
    tables = MetaData()
    tables.reflect(target)
    copied = {}
    with source.connect() as reading, target.begin() as writing:
        for table in tables.sorted_tables:
            if table.name == "alembic_version":
                continue
            now = Table(SUCCESSORS.get(table.name, table.name), MetaData(), autoload_with=source)
            names = COLUMNS.get(table.name, {})
            renamed = {names.get(column.name, column.name): column.name for column in table.columns}
            rows = [dict(row) for row in reading.execute(select(now)).mappings()]
            for row in rows:
                # Most fields of an SLO and of a policy are in its JSON now.
                row.update(json.loads(row.pop("specification", "{}")))
            rows = [
                {
                    old: row[name] if name in row else PLACEHOLDERS[table.name, old]
                    for name, old in renamed.items()
                }
                for row in rows
            ]
            writing.execute(table.insert(), rows)
            copied[now.name] = len(rows)
            if target.dialect.name == "postgresql" and "id" in table.columns:
                # As if the rows had got their ids there.
                writing.execute(
                    text(
                        f"SELECT setval(pg_get_serial_sequence('{table.name}', 'id'), max(id)) FROM {table.name}"
                    )
                )
    source.dispose()
    target.dispose()
    return copied


def answers(controller: Controller) -> dict[str, Any]:
    status = controller.status()
    curve = controller.get("/curve", params={"bound_ms": [0, 5_000, 30_000]}).json()
    partitions = [
        {name: part[name] for name in ("partition", "rows", "pairs", "need_ms", "last_seen_us")}
        for part in controller.get("/partitions").json()["partitions"]
    ]
    return {
        **{name: status[name] for name in UNCHANGED},
        "target_ppm": status["slo"]["target_ppm"],
        "recommended": status["recommended"]["bound_ms"],
        "bound": controller.get("/bound").json(),
        "points": curve["points"],
        "partitions": partitions,
    }


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_a_database_of_the_first_migration_opens_with_its_data_and_goes_on(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    old_url = f"sqlite:///{tmp_path / 'old.db'}"
    if kind == "postgresql":
        old_url = request.getfixturevalue("bare_postgres_url")
    new_url = f"sqlite:///{tmp_path / 'new.db'}"
    with Controller(new_url) as controller:
        assert controller.put("/slo", {"target_ppm": 900_000}).status_code == 200
        assert controller.put("/policy", at_once()).status_code == 200
        controller.report_all(REPORTS[:20])
        controller.tick()
        bound = controller.get("/bound").json()
        controller.http.post(
            "/v1/jobs/job/streams/stream/acks",
            json={
                "query_id": "query",
                "run_id": "run",
                "bound_ms": bound["bound_ms"],
                "generation": bound["generation"],
                "source": "controller",
                "mode": "OnRestart",
                "applied_us": START_US,
            },
        )
        # The first release counted the needs of partitions with each report.
        count_by_partition(controller.service.database)
        first_database(old_url)
        copied = copy_to_first(new_url, old_url)
        wanted = answers(controller)
    assert min(copied.values()) >= 1, copied

    with Controller(old_url) as controller:
        database = controller.service.database
        database.prove_writable()
        with database.read() as session:
            assert session.get_one(RollupRow, 1).split_report_id == 20
            for name in copied:
                table = Table(name, MetaData(), autoload_with=session.get_bind())
                assert session.scalars(select(func.count()).select_from(table)).one() >= copied[name]
        assert answers(controller) == wanted
        # Earlier reports are known, and new ones are counted on top of them, once.
        assert controller.report(REPORTS[3]).json()["duplicate"] is True
        controller.report_all(REPORTS[20:])
        controller.tick()
        controller.clock.now_us += 600 * SECOND
        while controller.service.ticker._upkeep.tick(controller.clock()):
            controller.clock.now_us += 60 * SECOND
        with Controller(f"sqlite:///{tmp_path / 'plain.db'}") as plain:
            assert plain.put("/slo", {"target_ppm": 900_000}).status_code == 200
            plain.report_all(REPORTS)
            # The other one has not decided, so its curve has no point at a recommended bound.
            points = {point["bound_ms"]: point for point in controller.get("/curve").json()["points"]}
            for point in plain.get("/curve").json()["points"]:
                assert points[point["bound_ms"]] == point
            assert controller.status()["evidence"] == plain.status()["evidence"]
            parts = [
                [(part["partition"], part["pairs"], part["need_ms"]) for part in page["partitions"]]
                for page in (controller.get("/partitions").json(), plain.get("/partitions").json())
            ]
            assert parts[0] == parts[1]
        with database.read() as session:
            assert session.scalars(select(func.count()).select_from(NeedSketchRow)).one() > 0


def test_every_table_of_the_first_migration_is_still_there_but_the_ledger_by_partition(
    tmp_path: Path,
) -> None:
    url = f"sqlite:///{tmp_path / 'old.db'}"
    first_database(url)
    engine = create_engine(url)
    before = set(inspect(engine).get_table_names())
    opened = Database(url)
    opened.migrate()
    assert before - set(inspect(engine).get_table_names()) == {"ledger"}
    opened.close()
    engine.dispose()


def run_live(controller: Controller) -> None:
    """Fill a store: a rollout verified in Live, an envelope on its way, and reports with all that they may hold."""
    job = RolledJob(controller, bound_ms=120_000, live=True)
    slo = {"target_ppm": 950_000, "latency_cap_ms": 600_000, "on_conflict": "exceed_latency_cap"}
    job.put("slo", slo)
    job.run(3, 30.0, tick=False)
    job.put("policy", at_once("Live", on_no_data="max", max_bound_ms=150_000))
    job.run(30, 30.0)
    job.put("slo", {**slo, "target_ppm": 900_000})
    delay = AppendDelay(rows=40, min_us=-1_500, mean_us=20_999, max_us=3_000_000, by_broker=True)
    job.run(2, 30.0, append_delay=delay, dropped_reports=2)
    controller.tick()


def everything(controller: Controller) -> dict[str, Any]:
    """Return what the controller answers of the stream."""
    pages = (
        "/slo",
        "/policy",
        "/bound",
        "/bounds",
        "/acks",
        "/rollouts",
        "/predictions",
        "/events",
        "/reports",
    )
    found = {path: controller.get(path).json() for path in pages}
    first, (report, *_) = found["/rollouts"]["rollouts"][-1], found["/reports"]["reports"]
    paths = (f"/rollouts/{first['id']}", f"/reports/{report['query_id']}/{report['batch_id']}", "/curve")
    return {"status": controller.status(), **found, **{path: controller.get(path).json() for path in paths}}


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_a_store_taken_back_to_the_release_before_and_forth_again_answers_the_same(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    url = f"sqlite:///{tmp_path / 'tidemark.db'}"
    if kind == "postgresql":
        url = request.getfixturevalue("new_postgres_url")
    with Controller(url) as controller:
        run_live(controller)
        now_us, wanted = controller.clock(), everything(controller)
        with controller.service.database.read() as session:
            bodies = session.scalars(select(ReportBodyRow.body).order_by(ReportBodyRow.report_id.desc()))
            sent = stored_report(bodies.first() or b"")
    assert wanted["/slo"]["on_conflict"] == "exceed_latency_cap"
    assert wanted["/bound"]["envelope"]["max_bound_ms"] == 150_000
    assert {one["state"] for one in wanted["/rollouts"]["rollouts"]} & {"Verified", "Published", "Effective"}
    assert wanted["status"]["live"]["last_contact_us"]

    opened = Database(url)
    with opened._writer.begin() as connection:
        command.downgrade(_migrations(connection), BEFORE)
    with opened._writer.begin() as connection:
        columns = {column["name"] for column in inspect(connection).get_columns("slos")}
        assert {"yields", "slices_ppm"} <= columns
        assert connection.execute(text("SELECT yields FROM slos")).scalar_one() == "latency"
        body = connection.execute(
            text("SELECT body FROM report_bodies ORDER BY report_id DESC LIMIT 1")
        ).scalar_one()
        assert {"given_up_reports"} <= set(json.loads(zlib.decompress(body)))
    opened.migrate()
    opened.close()

    again = Controller(url)
    again.clock.now_us = now_us
    with again as controller:
        found = everything(controller)
        assert {name: answer for name, answer in found.items() if answer != wanted[name]} == {}
        # A report that was received before is still known.
        assert controller.report(sent).json()["duplicate"] is True
