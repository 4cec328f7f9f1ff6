"""What reports add by partition is kept in memory until it is rolled up; from the bodies it comes out the same."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from sqlalchemy import select
from sqlalchemy.orm import Session, SessionTransaction

from tidemark.controller.base.counters import IntakeCounters
from tidemark.controller.base.db.database import Database
from tidemark.controller.base.db.tables import PartitionRollupRow, ReportRow, RollupRow
from tidemark.controller.evidence import roll_up
from tidemark.controller.evidence.roll_up import TailNeeds, locked_offset
from tidemark.controller.reports.group_commit import ReportWriter
from tidemark.controller.reports.store_reports import NewNeeds
from tidemark.models.base.operators import Operator, row_level, sliding, tumbling
from tidemark.models.evidence.needs import needs_against
from tidemark.models.evidence.partition_needs import PartitionNeeds
from tidemark.models.protocol.messages import Report

from support.empty_store import open_empty
from support.reports import START_US, exponential_batches, query_reports
from support.streams import report_of
from support.taking import EVIDENCE, take_report

COUNTED = (PartitionRollupRow, RollupRow)


@dataclass
class Store:
    """A store, and what is kept in memory of its tail."""

    database: Database
    tail: TailNeeds = field(default_factory=TailNeeds)

    def take(self, reports: list[Report]) -> None:
        with self.database.write() as session:
            receipts = [take_report(session, report, START_US + 10**10) for report in reports]
        for receipt in receipts:
            self.tail.add(receipt.needs)

    def roll_up(self) -> int:
        """Roll up what waits; return in how many steps."""
        with self.database.write() as session:
            found = locked_offset(session, 1)
            assert found is not None
            return 1 + len(list(iter(partial(roll_up.roll_up, session, found[0], self.tail), False)))

    def tables(self) -> dict[str, list[Any]]:
        with self.database.read() as session:
            return {
                table.__tablename__: [tuple(row) for row in session.execute(select(*table.__table__.columns))]
                for table in COUNTED
            }

    @property
    def kept(self) -> int:
        return len(self.tail._held)


@pytest.fixture
def stores(tmp_path: Path) -> Iterator[tuple[Store, Store]]:
    made = [Store(open_empty(f"sqlite:///{tmp_path / name}")) for name in ("keeps.db", "forgets.db")]
    yield made[0], made[1]
    for store in made:
        store.database.close()


@pytest.mark.parametrize("operator", [tumbling("10s"), sliding("10s", "5s"), row_level()], ids=str)
def test_what_is_kept_and_what_is_read_again_count_the_same(
    stores: tuple[Store, Store], operator: Operator
) -> None:
    keeps, forgets = stores
    batches = query_reports(exponential_batches(9, 60), operator)
    for some in (batches[:5], batches[5:]):
        for store in stores:
            store.take(some)
        forgets.tail = TailNeeds()
        assert (keeps.kept, forgets.kept) == (len(some), 0)
        for store in stores:
            store.roll_up()
        assert keeps.kept == 0
        assert keeps.tables() == forgets.tables()
    assert all(keeps.tables().values())


def test_few_counts_are_in_memory_at_once_and_add_up_to_the_same(
    stores: tuple[Store, Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of a report of a wide sliding window may have a megabyte."""
    for store in stores:
        store.take(query_reports(exponential_batches(9, 60)))
    together, apart = stores
    assert together.roll_up() == 1
    monkeypatch.setattr(roll_up, "_MAX_BYTES", 1)
    assert apart.roll_up() > 1
    assert together.tables() == apart.tables()


def test_what_was_counted_against_too_low_a_base_is_read_again(stores: tuple[Store, Store]) -> None:
    """A batch that comes late raises the base of later ones, whose needs were kept already."""
    keeps, forgets = stores
    batches = [replace(report, late_base_ms=None) for report in query_reports(exponential_batches(6, 60))]
    late = Random(3).sample(batches, len(batches))
    for store in stores:
        for report in late:
            store.take([report])
    with keeps.database.read() as session:
        rows = session.execute(select(ReportRow.id, ReportRow.need_base_ms)).all()
    assert [report_id for report_id, base in rows if keeps.tail._held[report_id].base_ms != base]
    forgets.tail = TailNeeds()
    for store in stores:
        store.roll_up()
    assert keeps.tables() == forgets.tables()


def test_what_is_not_committed_is_not_kept(
    stores: tuple[Store, Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The id of a row that was rolled back may be given to another report."""
    store, _ = stores
    first, second = query_reports(exponential_batches(2, 60))
    counters = IntakeCounters(CollectorRegistry())
    writer = ReportWriter(store.database, lambda: START_US, counters, EVIDENCE, store.tail.add)
    with monkeypatch.context() as patched:
        patched.setattr(Session, "commit", _interrupted)
        patched.setattr(SessionTransaction, "commit", _interrupted)
        with pytest.raises(InterruptedError):
            writer._together([first])
    assert store.kept == 0
    writer._together([second])
    assert store.kept == 1


def _interrupted(*_: object, **__: object) -> None:
    raise InterruptedError


def kept_needs(number: int) -> NewNeeds:
    report = report_of([("p", number)], tumbling("10s"), late_watermark_ms=0)
    return NewNeeds("fingerprint", number, PartitionNeeds.counted(needs_against(report, number)))


def row(number: int, fingerprint: str = "fingerprint", base_ms: int | None = None) -> ReportRow:
    base_ms = number if base_ms is None else base_ms
    return ReportRow(id=number, fingerprint=fingerprint, need_base_ms=base_ms)


def test_what_is_kept_is_of_one_report_and_one_base_and_taken_once() -> None:
    tail = TailNeeds()
    tail.add({1: kept_needs(1), 2: kept_needs(2), 3: kept_needs(3)})
    assert tail.take(row(1)) is not None
    assert tail.take(row(1)) is None
    assert tail.take(row(2, fingerprint="another")) is None
    assert tail.take(row(3, base_ms=6)) is None
    assert tail._bytes == 0


def test_what_came_first_goes_first_when_too_much_is_kept() -> None:
    tail = TailNeeds(max_bytes=3 * kept_needs(0).needs.size)
    for number in range(10):
        tail.add({number: kept_needs(number)})
    assert [tail.take(row(number)) is not None for number in range(10)] == [False] * 7 + [True] * 3
