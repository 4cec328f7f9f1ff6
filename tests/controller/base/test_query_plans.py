"""What a turn costs must not grow with a stream's age, which SQLite's own steps show."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import event, update
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.pool import ConnectionPoolEntry

from tidemark.controller.base.db.database import Database
from tidemark.controller.base.db.tables import (
    Base,
    LedgerKeyRow,
    PartitionRollupRow,
    ReportBodyRow,
    ReportRow,
    RollupRow,
    SloRow,
    StreamRow,
)
from tidemark.controller.base.settings import Settings
from tidemark.controller.control.decide.pace import Pace
from tidemark.controller.control.retention.upkeep import Upkeep
from tidemark.controller.server.process.loop import run_once
from tidemark.controller.server.process.service import Service, make_service
from tidemark.controller.server.schemas.views import stream_status
from tidemark.controller.specs.store import slo_values
from tidemark.models.evidence.slots import Retention
from tidemark.models.specs.slo import Slo

from support.empty_store import put_sqlite
from support.full_store import END_US, Filling, fill, report_of
from support.steered_stream import report_under, steer
from support.taking import take_reports

GROWING: tuple[type[Base], ...] = (
    LedgerKeyRow,
    PartitionRollupRow,
    ReportBodyRow,
    ReportRow,
    RollupRow,
)
"""Tables that get rows for as long as a stream reports."""

TURN_US = 15_000_000


STREAMS = 2


class Turns:
    """A controller that decides streams which Tidemark steers, as old as they are made.

    Args:
        folder: where the store is made.
        days: how many days of batches, one a minute, each stream has.
    """

    def __init__(self, folder: Path, days: int) -> None:
        self.now_us = END_US + 400_000
        url = f"sqlite:///{folder}/t.db"
        put_sqlite(url)
        self.service: Service = make_service(Settings(database_url=url), lambda: self.now_us)
        self.database = self.service.database
        self.filling = Filling(
            streams=STREAMS, full=STREAMS, partitions=2, days=0, full_days=days, trigger_us=60_000_000
        )
        fill(self.database, self.filling)
        for stream_id in range(1, STREAMS + 1):
            steer(self.database, stream_id)
        # A status adds up the hours of the SLO's window: some hundred rows more for a month.
        slo = slo_values(Slo(target_ppm=990_000, window_ms=86_400_000))
        with self.database.write() as session:
            session.execute(update(SloRow).values(slo))
        self.batch = days * 1_440 + 9
        self.service.decider.leases.keep(now=True)
        self.upkeep = Upkeep(self.database, self.service.decider.leases, Retention())
        self.pace = Pace(lambda: self.now_us / 1e6)

    def report(self) -> None:
        """Have every stream report a batch."""
        self.batch += 1
        self.now_us += TURN_US
        reports = [
            report_under(report_of(number, self.batch, self.now_us, self.filling))
            for number in range(STREAMS)
        ]
        with self.database.write() as session:
            take_reports(session, reports, self.now_us)

    def decide(self) -> None:
        tick = run_once(self.database, self.service.decider, self.service.loop, self.now_us, pace=self.pace)
        assert tick.decided == STREAMS

    def snapshots(self) -> None:
        assert self.service.overviews.tick(self.now_us, 3_600) == STREAMS

    def statuses(self) -> None:
        for stream_id in range(1, STREAMS + 1):
            with self.database.read() as session:
                stream_status(
                    session, stream_id, self.now_us, self.service.cache, destinations={}, may_link_to=bool
                )

    def steps(self) -> dict[str, Callable[[], object]]:
        return {
            "reports": self.report,
            "decisions": self.decide,
            "snapshots": self.snapshots,
            "upkeep": lambda: self.upkeep.run_upkeep(self.now_us, 100_000),
            "statuses": self.statuses,
            "scrape": self.service.scrape.text,
        }


@pytest.mark.slow
def test_no_report_turn_status_or_scrape_reads_a_whole_table_that_grows(tmp_path: Path) -> None:
    turns = Turns(tmp_path, days=1)
    statements = _statements(turns.database)
    for _ in range(4):
        for step in turns.steps().values():
            step()
    with turns.database.connect() as connection:
        steps = {each: connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {each}").all() for each in statements}
    turns.database.close()
    assert any(StreamRow.__tablename__ in each for each in steps)
    grows = re.compile(rf"SCAN ({'|'.join(table.__tablename__ for table in GROWING)})\b")
    assert [each for each, plan in steps.items() if any(grows.match(step.detail) for step in plan)] == []


@pytest.mark.slow
def test_a_turn_of_a_steered_stream_is_the_same_work_for_sqlite_after_four_days_as_after_one(
    tmp_path: Path,
) -> None:
    found = {}
    for days in (1, 4):
        folder = tmp_path / str(days)
        folder.mkdir()
        turns = Turns(folder, days)
        steps = _vm_steps(turns.database)
        for _ in range(3):
            # What was read from scratch once is kept from then on.
            for step in turns.steps().values():
                step()
        work: dict[str, int] = {}
        for name, step in turns.steps().items():
            before = steps()
            step()
            work[name] = steps() - before
        turns.database.close()
        found[days] = work
    print(f"hundreds of steps of SQLite's machine, by days of batches: {found}")
    assert {name: old for name, old in found[4].items() if old > 1.5 * found[1][name] + 5} == {}


def _vm_steps(database: Database) -> Callable[[], int]:
    """Return a function that says how many hundreds of steps SQLite's virtual machine took on new connections."""
    taken = 0

    def connected(connection: DBAPIConnection, _: ConnectionPoolEntry) -> None:
        connection.set_progress_handler(stepped, 100)

    def stepped() -> int:
        nonlocal taken
        taken += 1
        return 0

    with database.connect() as connection:
        pool = connection.engine.pool
    event.listen(pool, "connect", connected)
    pool.dispose()
    return lambda: taken


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
