"""What reports add by partition is kept in memory until it is counted; from the bodies it comes out the same."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from sqlalchemy import select
from sqlalchemy.orm import Session, SessionTransaction

from tidemark.controller.db.database import Database
from tidemark.controller.db.tables import (
    NeedSketchRow,
    PartitionSumsRow,
    ReportRow,
    SeriesRow,
)
from tidemark.controller.evidence.rollups import locked_rollup
from tidemark.controller.intake import count_waiting
from tidemark.controller.intake.group_commit import ReportWriter
from tidemark.controller.intake.report_counts import ReportCounts, ReportCountsCache, counts_of
from tidemark.controller.intake.take_reports import take_report
from tidemark.controller.runtime.counters import IntakeCounters
from tidemark.models.base.operators import Operator, row_level, sliding, tumbling
from tidemark.models.protocol.messages import Report

from support.empty_store import open_empty
from support.reports import START_US, exponential_batches, query_reports
from support.streams import report_of
from support.waiting import count_by_partition

COUNTED = (NeedSketchRow, PartitionSumsRow, SeriesRow)


@pytest.fixture
def stores(tmp_path: Path) -> Iterator[tuple[Database, Database]]:
    made = [open_empty(f"sqlite:///{tmp_path / name}") for name in ("keeps.db", "forgets.db")]
    yield made[0], made[1]
    for database in made:
        database.close()


def take(database: Database, reports: list[Report]) -> None:
    with database.write() as session:
        receipts = [take_report(session, report, START_US + 10**10) for report in reports]
    for receipt in receipts:
        database.counted.add(receipt.counted)


def tables(database: Database) -> dict[str, list[Any]]:
    with database.read() as session:
        return {
            table.__tablename__: [tuple(row) for row in session.execute(select(*table.__table__.columns))]
            for table in COUNTED
        }


def kept(database: Database) -> int:
    return len(database.counted._held)


@pytest.mark.parametrize("operator", [tumbling("10s"), sliding("10s", "5s"), row_level()], ids=str)
def test_what_is_kept_and_what_is_read_again_count_the_same(
    stores: tuple[Database, Database], operator: Operator
) -> None:
    keeps, forgets = stores
    batches = query_reports(exponential_batches(9, 60), operator)
    for some in (batches[:5], batches[5:]):
        for database in stores:
            take(database, some)
        forgets.counted = ReportCountsCache()
        assert (kept(keeps), kept(forgets)) == (len(some), 0)
        for database in stores:
            count_by_partition(database)
        assert kept(keeps) == 0
        assert tables(keeps) == tables(forgets)
    assert all(tables(keeps)[name] for name in ("need_sketches", "series"))


def test_few_counts_are_in_memory_at_once_and_add_up_to_the_same(
    stores: tuple[Database, Database], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of a report of a wide sliding window may have a megabyte."""
    for database in stores:
        take(database, query_reports(exponential_batches(9, 60)))
    together, apart = stores
    count_by_partition(together)
    monkeypatch.setattr(count_waiting, "_MAX_BYTES", 1)
    with apart.write() as session:
        found = locked_rollup(session, 1)
        assert found is not None
        steps = list(iter(partial(count_waiting.count_waiting, session, found[0], apart.counted), False))
    assert len(steps) > 1
    assert tables(together) == tables(apart)


def test_what_was_counted_against_too_low_a_base_is_read_again(stores: tuple[Database, Database]) -> None:
    """A batch that comes late raises the base of later ones, whose needs were kept already."""
    keeps, forgets = stores
    batches = [replace(report, late_base_ms=None) for report in query_reports(exponential_batches(6, 60))]
    late = Random(3).sample(batches, len(batches))
    for database in stores:
        for report in late:
            take(database, [report])
    with keeps.read() as session:
        rows = session.execute(select(ReportRow.id, ReportRow.need_base_ms)).all()
    moved = [report_id for report_id, base in rows if keeps.counted._held[report_id][1].base_ms != base]
    assert moved
    forgets.counted = ReportCountsCache()
    for database in stores:
        count_by_partition(database)
    assert tables(keeps) == tables(forgets)


def test_what_is_not_committed_is_not_kept(
    stores: tuple[Database, Database], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The id of a row that was rolled back may be given to another report."""
    database, _ = stores
    first, second = query_reports(exponential_batches(2, 60))
    writer = ReportWriter(database, lambda: START_US, IntakeCounters(CollectorRegistry()))
    with monkeypatch.context() as patched:
        patched.setattr(Session, "commit", _interrupted)
        patched.setattr(SessionTransaction, "commit", _interrupted)
        with pytest.raises(InterruptedError):
            writer._together([first])
    assert kept(database) == 0
    writer._together([second])
    assert kept(database) == 1


def _interrupted(*_: object, **__: object) -> None:
    raise InterruptedError


def counted(number: int) -> ReportCounts:
    return counts_of(report_of([("p", number)], tumbling("10s"), late_watermark_ms=0), number)


def test_what_is_kept_is_of_one_report_and_one_base_and_taken_once() -> None:
    reports = ReportCountsCache()
    reports.add({1: ("digest", counted(5)), 2: ("digest", counted(5)), 3: ("digest", counted(5))})
    assert reports.take(1, "digest", 5) is not None
    assert reports.take(1, "digest", 5) is None
    assert reports.take(2, "another digest", 5) is None
    assert reports.take(3, "digest", 6) is None
    assert reports._bytes == 0


def test_what_came_first_goes_first_when_too_much_is_kept() -> None:
    size = counted(0).needs.size
    reports = ReportCountsCache(max_bytes=3 * size)
    for number in range(10):
        reports.add({number: ("digest", counted(number))})
    assert [reports.take(number, "digest", number) is not None for number in range(10)] == [False] * 7 + [
        True
    ] * 3
