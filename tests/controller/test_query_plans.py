"""What a turn costs must not grow with a stream's age: SQLite finds each row by an index."""

from __future__ import annotations

import re
from pathlib import Path

from sqlalchemy import event
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.pool import ConnectionPoolEntry

from tidemark.controller.db.database import Database
from tidemark.controller.db.tables import (
    Base,
    LedgerKeyRow,
    NeedBlockRow,
    NeedSketchRow,
    NeedSlotRow,
    ReportBodyRow,
    ReportHourRow,
    ReportRow,
    SeriesRow,
    StreamRow,
)
from tidemark.controller.decide.pace import Pace
from tidemark.controller.evidence.upkeep import Upkeep
from tidemark.controller.intake.take_reports import take_reports
from tidemark.controller.loop import run_once
from tidemark.controller.service import make_service
from tidemark.controller.settings import Settings
from tidemark.controller.stream_state.views import stream_status
from tidemark.models.retention import Retention

from support.full_store import END_US, Filling, fill, report_of

GROWING: tuple[type[Base], ...] = (
    LedgerKeyRow,
    NeedBlockRow,
    NeedSketchRow,
    NeedSlotRow,
    ReportBodyRow,
    ReportHourRow,
    ReportRow,
    SeriesRow,
)
"""Tables that get rows for as long as a stream reports."""

TURN_US = 15_000_000


def test_no_report_turn_status_or_scrape_reads_a_whole_table_that_grows(tmp_path: Path) -> None:
    now_us = END_US + 400_000
    service = make_service(Settings(database_url=f"sqlite:///{tmp_path}/t.db"), lambda: now_us)
    database = service.database
    database.migrate()
    filling = Filling(streams=2, full=2, partitions=2, days=0, trigger_us=60_000_000)
    fill(database, filling)
    service.decider.leases.keep(now=True)
    upkeep = Upkeep(database, service.decider.leases, Retention())
    statements = _statements(database)
    pace = Pace(lambda: now_us / 1e6)
    for turn in range(1, 5):
        now_us += TURN_US
        reports = [report_of(number, 2_000 + turn, now_us, filling) for number in range(filling.streams)]
        with database.write() as session:
            take_reports(session, reports, now_us)
        run_once(database, service.decider, service.loop, now_us, pace=pace)
        service.overviews.tick(now_us, 3_600)
        upkeep.run_upkeep(now_us, 100_000)
        with database.read() as session:
            stream_status(session, 1, now_us, service.kept)
        service.scrape.text()
    with database.connect() as connection:
        steps = {each: connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {each}").all() for each in statements}
    database.close()
    assert any(StreamRow.__tablename__ in each for each in steps)
    grows = re.compile(rf"SCAN ({'|'.join(table.__tablename__ for table in GROWING)})\b")
    assert [each for each, plan in steps.items() if any(grows.match(step.detail) for step in plan)] == []


def _statements(database: Database) -> set[str]:
    """Return a set that gets each statement of new connections, with its parameters filled in."""
    found: set[str] = set()

    def connected(connection: DBAPIConnection, _: ConnectionPoolEntry) -> None:
        connection.set_trace_callback(heard)

    def heard(statement: str) -> None:
        if statement.startswith(("SELECT", "INSERT", "UPDATE", "DELETE", "WITH")):
            found.add(statement)

    with database.connect() as connection:
        pool = connection.engine.pool
    event.listen(pool, "connect", connected)
    pool.dispose()
    return found
