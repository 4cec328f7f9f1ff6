"""Reports that are taken together: what is stored is the same as one by one, and each has an outcome of its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from sqlalchemy import delete, select, update

from tidemark.controller.base.db.database import NO_LIMITS, Database, Limits
from tidemark.controller.base.db.tables import (
    LedgerKeyRow,
    OffsetRow,
    OperatorRow,
    PartitionRollupRow,
    PartitionRow,
    QueryRow,
    ReportBodyRow,
    ReportRow,
    RollupRow,
    StreamRow,
)
from tidemark.controller.base.errors import TidemarkError
from tidemark.controller.reports.stored_facts import stored_facts
from tidemark.controller.reports.take_reports import StoredReceipt
from tidemark.models.base.operators import Operator, row_level, sliding, tumbling
from tidemark.models.evidence.slots import HOUR_US
from tidemark.models.protocol.granule_counts import GranuleCounts
from tidemark.models.protocol.messages import Report

from support.empty_store import new_postgres, open_empty
from support.reports import START_US, exponential_batches, query_reports
from support.streams import SECOND
from support.taking import take_report, take_reports
from support.waiting import roll_up_all

NOW_US = START_US + 600 * SECOND
OPERATORS: tuple[Operator, ...] = (tumbling("10s"), sliding("10s", "5s"), row_level())
TABLES = (
    StreamRow,
    OperatorRow,
    ReportRow,
    ReportBodyRow,
    LedgerKeyRow,
    PartitionRow,
    QueryRow,
    RollupRow,
    PartitionRollupRow,
)

Outcome = tuple[str, bool, bool]


@pytest.fixture(params=["sqlite", "postgresql"])
def open_store(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[], Database]:
    def opened() -> Database:
        if request.param == "postgresql":
            database = open_empty(new_postgres(request.getfixturevalue("postgres_url")))
        else:
            database = open_empty(f"sqlite:///{tmp_path_factory.mktemp('store') / 't.db'}")
        request.addfinalizer(database.close)
        return database

    return opened


def mixed_reports(rng: Random) -> list[Report]:
    """Return reports of three streams: out of order, repeated, contradicted, and one far ahead of the clock."""
    found: list[Report] = []
    for number, operator in enumerate(OPERATORS):
        batches = query_reports(exponential_batches(6, 40), operator)
        found += [replace(report, stream=f"s{number}", late_base_ms=None) for report in batches]
    found += rng.choices(found, k=6)
    found += [replace(report, state_rows=99) for report in rng.sample(found, 3)]
    ahead_us = NOW_US + 10**13
    found.append(replace(found[5], batch_id=70, max_event_time_us=ahead_us))
    rng.shuffle(found)
    return found


def outcome(taken: StoredReceipt | TidemarkError) -> Outcome:
    if isinstance(taken, TidemarkError):
        return taken.kind, False, False
    return "stored", taken.duplicate, taken.first


def one_by_one(database: Database, reports: list[Report], limits: Limits) -> list[Outcome]:
    found = []
    for report in reports:
        try:
            with database.write() as session:
                found.append(outcome(take_report(session, report, NOW_US, limits)))
        except TidemarkError as error:
            found.append(outcome(error))
    return found


def together(database: Database, reports: list[Report], limits: Limits) -> list[Outcome]:
    with database.write() as session:
        return [outcome(taken) for taken in take_reports(session, reports, NOW_US, limits)]


def stored(database: Database) -> dict[str, list[Any]]:
    """Return all that is stored, without the numbers that the store gives its rows."""
    with database.read() as session:
        streams = {row.id: row.stream for row in session.scalars(select(StreamRow))}
        reports = {
            row.id: (streams[row.stream_id], row.batch_id) for row in session.scalars(select(ReportRow))
        }

        def plain(row: Any) -> tuple[Any, ...]:
            values = dict(row)
            values.pop("id", None)
            for name, names in (("stream_id", streams), ("report_id", reports), ("after_report_id", reports)):
                if name in values:
                    values[name] = names.get(values[name])
            return tuple(map(repr, values.items()))

        return {
            table.__tablename__: sorted(
                plain(row) for row in session.execute(select(table.__table__)).mappings()
            )
            for table in TABLES
        }


@pytest.mark.parametrize("seed", range(3))
def test_reports_that_are_taken_together_are_stored_as_one_by_one(
    open_store: Callable[[], Database], seed: int
) -> None:
    reports = mixed_reports(Random(seed))
    apart, joint = open_store(), open_store()
    wanted = one_by_one(apart, reports, Limits())
    found = [
        each
        for first in range(0, len(reports), 9)
        for each in together(joint, reports[first : first + 9], Limits())
    ]
    assert {kind for kind, _, _ in wanted} == {"stored", "report-conflict"}
    assert found == wanted
    assert stored(joint) == stored(apart)


def test_an_operator_is_stored_once_for_a_stream_and_every_report_keeps_its_own(
    open_store: Callable[[], Database],
) -> None:
    """A query may change it between two runs, and change it back."""
    database = open_store()
    first, *_ = query_reports(exponential_batches(1, 40), tumbling("10s"))
    changed = (
        tumbling("10s"),
        tumbling("10s"),
        tumbling("20s"),
        tumbling("10s"),
        sliding("20s", "10s"),
        tumbling("20s"),
    )
    reports = [
        replace(first, stream=stream, batch_id=batch, operator=operator)
        for batch, operator in enumerate(changed)
        for stream in ("s", "t")
    ]
    together(database, reports, NO_LIMITS)
    with database.read() as session:
        numbered = select(OperatorRow.stream_id, OperatorRow.number, OperatorRow.operator)
        kept = [tuple(row) for row in session.execute(numbered.order_by(*numbered.selected_columns[:2]))]
        of_reports = session.execute(
            select(ReportRow.stream_id, ReportRow.batch_id, ReportRow.operator).order_by(ReportRow.id)
        )
        reported = {(stream_id, batch): operator for stream_id, batch, operator in of_reports}
    distinct = list(enumerate((tumbling("10s"), tumbling("20s"), sliding("20s", "10s")), start=1))
    assert kept == [(stream_id, *operator) for stream_id in (1, 2) for operator in distinct]
    assert reported == {
        (stream_id, batch): operator for stream_id in (1, 2) for batch, operator in enumerate(changed)
    }


def test_a_report_that_comes_late_raises_the_bases_of_its_own_query_alone(
    open_store: Callable[[], Database],
) -> None:
    """Each query of a stream has a watermark of its own."""
    database = open_store()
    missing, *rest = query_reports(exponential_batches(4, 40), late_base_ms=None)
    ahead = replace(missing, max_event_time_us=START_US + 600 * SECOND)
    together(
        database, [replace(report, query_id=query) for query in ("q1", "q2") for report in rest], NO_LIMITS
    )

    def bases() -> dict[str, list[int | None]]:
        query = select(ReportRow.query_id, ReportRow.need_base_ms).where(ReportRow.batch_id > 0)
        found: dict[str, list[int | None]] = {"q1": [], "q2": []}
        with database.read() as session:
            for query_id, base_ms in session.execute(query.order_by(ReportRow.batch_id)):
                found[query_id].append(base_ms)
        return found

    before = bases()
    together(database, [replace(ahead, query_id="q1")], NO_LIMITS)
    after = bases()
    assert after["q1"] != before["q1"]
    assert after["q2"] == before["q2"]


def test_what_has_no_room_is_rejected_by_itself_and_leaves_nothing(
    open_store: Callable[[], Database],
) -> None:
    first, second, *_ = query_reports(exponential_batches(3, 40))
    reports = [
        replace(first, stream="taken"),
        replace(
            first,
            stream="wide",
            counts=GranuleCounts.of(
                replace(part, partition=f"{part.partition}{copy}")
                for copy in range(9)
                for part in first.counts.by_partition()
            ),
            rows=first.rows * 9,
        ),
        replace(second, stream="taken"),
        replace(first, stream="zone"),
    ]
    limits = Limits(streams=3, partitions=len(first.counts.partitions) * 2)
    database = open_store()
    assert together(database, reports, limits) == [
        ("stored", False, True),
        ("limit-reached", False, False),
        ("stored", False, False),
        ("limit-reached", False, False),
    ]
    rows = stored(database)
    assert len(rows["reports"]) == 2
    assert [each for row in rows["streams"] for each in row if each.startswith("('stream'")] == [
        "('stream', 'taken')"
    ]


def test_a_batch_that_comes_late_raises_the_base_of_the_second_after_it_also_when_that_is_the_newest(
    tmp_path: Path,
) -> None:
    batches = [[("p", START_US + at * SECOND) for at in (second, second - 4)] for second in (10, 90, 50, 60)]
    reports = [replace(report, late_base_ms=None) for report in query_reports(batches)]
    found: list[Any] = []
    for number, order in enumerate(([0, 1, 2, 3], [0, 2, 3, 1])):
        database = open_empty(f"sqlite:///{tmp_path / f'{number}.db'}")
        one_by_one(database, [reports[batch] for batch in order], NO_LIMITS)
        roll_up_all(database)
        found.append(stored(database)[PartitionRollupRow.__tablename__])
        with database.read() as session:
            bases = select(ReportRow.batch_id, ReportRow.need_base_ms).order_by(ReportRow.batch_id)
            found.append(session.execute(bases).all())
        database.close()
    assert found[:2] == found[2:]


def test_a_batch_up_to_the_last_whose_report_is_gone_is_refused_and_the_next_one_is_taken(
    tmp_path: Path,
) -> None:
    """The last one that aged out, sent again, would be counted twice."""
    reports = query_reports(exponential_batches(6, 20))
    database = open_empty(f"sqlite:///{tmp_path / 't.db'}")
    one_by_one(database, reports[:4], NO_LIMITS)
    with database.write() as session:
        aged = select(ReportRow.id).where(ReportRow.batch_id <= 3)
        session.execute(delete(ReportBodyRow).where(ReportBodyRow.report_id.in_(aged)))
        session.execute(delete(ReportRow).where(ReportRow.batch_id <= 3))
        session.execute(update(QueryRow).values(deleted_batch=3))
    assert [kind for kind, _, _ in one_by_one(database, reports[2:5], NO_LIMITS)] == [
        "report-too-old",
        "report-too-old",
        "stored",
    ]
    database.close()


def test_a_batch_without_rows_that_comes_late_is_taken_and_raises_no_base(tmp_path: Path) -> None:
    batches = [[("p", START_US + second * SECOND)] if second else [] for second in (10, 0, 30, 40)]
    reports = query_reports(batches)
    database = open_empty(f"sqlite:///{tmp_path / 't.db'}")
    found = one_by_one(database, [reports[batch] for batch in (0, 2, 3, 1)], NO_LIMITS)
    assert [kind for kind, _, _ in found] == ["stored"] * 4
    database.close()


def test_what_aged_out_counts_for_the_base_of_a_batch_once_it_comes_before_all_that_the_batch_knew(
    tmp_path: Path,
) -> None:
    """Its late filter knew the batches up to the second before it; its base, those up to the one before."""
    reports = query_reports(exponential_batches(7, 20))
    database = open_empty(f"sqlite:///{tmp_path / 't.db'}")
    one_by_one(database, reports[:1], NO_LIMITS)
    with database.write() as session:
        session.execute(delete(ReportBodyRow))
        session.execute(delete(ReportRow))
        session.execute(update(QueryRow).values(deleted_batch=3, deleted_max_event_time_us=77))
        stream_id = session.scalars(select(StreamRow.id)).one()
        found = [stored_facts(session, {stream_id: reports[batch]})[stream_id] for batch in (3, 4, 5)]
    assert [(each.late_max_us, each.before_max_us) for each in found] == [(None, None), (None, 77), (77, 77)]
    database.close()


def test_a_batch_that_comes_late_counts_in_an_hour_that_is_rolled_up_and_raises_the_bases_there(
    tmp_path: Path,
) -> None:
    batches = [[("p", START_US + at * SECOND) for at in (second, second - 4)] for second in (10, 90, 50, 60)]
    reports = [replace(report, late_base_ms=None) for report in query_reports(batches)]
    found = []
    for number, order in enumerate(([0, 1, 2, 3], [0, 2, 3, 1])):
        database = open_empty(f"sqlite:///{tmp_path / f'{number}.db'}")
        one_by_one(database, reports[:1], NO_LIMITS)
        with database.write() as session:
            stream_id = session.scalars(select(StreamRow.id)).one()
            session.add(OffsetRow(stream_id=stream_id, hours_until_us=START_US + HOUR_US))
        for batch in order[1:]:
            one_by_one(database, [reports[batch]], NO_LIMITS)
            roll_up_all(database)
        with database.read() as session:
            assert session.scalars(select(RollupRow).where(RollupRow.width_us < HOUR_US)).all() == []
            (hour,) = session.scalars(select(RollupRow).where(RollupRow.width_us == HOUR_US)).all()
            sums = ("batches", "pairs", "late_max", "need_pairs", "need_unknown_rows", "batch_ranges")
            found.append({name: getattr(hour, name) for name in sums})
        database.close()
    assert found[0] == found[1]
    assert (found[0]["batches"], found[0]["batch_ranges"]) == (4, '{"query": [[0, 3]]}')
