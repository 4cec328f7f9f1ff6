"""Reports that are stored in groups: each caller has an answer, and nobody loses theirs by another's report."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import replace

import pytest
from prometheus_client import CollectorRegistry
from sqlalchemy import select

from tidemark.controller.base.counters import IntakeCounters
from tidemark.controller.base.db.database import Database
from tidemark.controller.base.db.tables import ReportRow
from tidemark.controller.base.errors import ReportConflictError
from tidemark.controller.evidence.roll_up import TailNeeds
from tidemark.controller.reports.group_commit import _MAX_TOGETHER, ReportWriter
from tidemark.controller.reports.take_reports import StoredReceipt
from tidemark.models.protocol.messages import Report

from support.empty_store import open_empty
from support.patience import PATIENCE_S
from support.reports import START_US, exponential_batches, query_reports
from support.streams import report_of
from support.taking import EVIDENCE

REPORTS = query_reports(exponential_batches(_MAX_TOGETHER + 6, 4))
UNSTORABLE = replace(REPORTS[1], state_rows=2**63)


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    found = open_empty(database_url)
    yield found
    found.close()


@pytest.fixture
def counters() -> IntakeCounters:
    return IntakeCounters(CollectorRegistry())


def writer_of(database: Database, counters: IntakeCounters) -> ReportWriter:
    return ReportWriter(database, lambda: START_US, counters, EVIDENCE, TailNeeds().add)


def taken(database: Database, counters: IntakeCounters, reports: list[Report]) -> list[Future[StoredReceipt]]:
    """Queue all reports before any is stored, and return their futures once the writer has stopped."""
    writer = writer_of(database, counters)
    futures = [writer.take(report) for report in reports]
    writer.start()
    writer.stop()
    return futures


def batches(database: Database) -> list[int]:
    with database.read() as session:
        return list(session.scalars(select(ReportRow.batch_id).order_by(ReportRow.id)))


def test_of_a_group_that_cannot_be_stored_together_each_report_is_tried_by_itself(
    database: Database, counters: IntakeCounters
) -> None:
    first, unstorable, last = taken(database, counters, [REPORTS[0], UNSTORABLE, REPORTS[2]])
    assert not first.result(PATIENCE_S).duplicate
    assert not last.result(PATIENCE_S).duplicate
    assert isinstance(unstorable.exception(PATIENCE_S), OverflowError)
    assert batches(database) == [0, 2]


def test_all_that_wait_are_stored_in_the_order_of_their_batches_in_as_few_groups_as_may_be(
    database: Database, counters: IntakeCounters
) -> None:
    writer = writer_of(database, counters)
    futures = [writer.take(report) for report in reversed(REPORTS)]
    assert writer.waiting == len(REPORTS)
    writer.start()
    writer.stop()
    assert [future.result(PATIENCE_S).received_us for future in futures] == [START_US] * len(REPORTS)
    assert writer.groups == 2
    stored = batches(database)
    assert stored == [*range(6, len(REPORTS)), *range(6)]


def test_a_report_whose_caller_is_gone_is_not_stored(database: Database, counters: IntakeCounters) -> None:
    writer = writer_of(database, counters)
    futures = [writer.take(report) for report in REPORTS[:3]]
    assert futures[1].cancel()
    writer.start()
    writer.stop()
    assert batches(database) == [0, 2]


def test_a_streams_first_report_is_told_to_who_waits_for_a_bound_once_it_can_be_read_and_no_later_one_is(
    database: Database, counters: IntakeCounters
) -> None:
    stored: list[list[int]] = []
    database.when_answers_change(lambda: stored.append(batches(database)))
    taken(database, counters, REPORTS[:2])
    assert stored == [[0, 1]]
    taken(database, counters, [REPORTS[0], REPORTS[2]])
    assert stored == [[0, 1]]


def test_a_report_that_is_refused_and_one_that_came_before_are_answered_so_and_counted_nowhere(
    database: Database, counters: IntakeCounters
) -> None:
    report = report_of(
        [("p", START_US)],
        REPORTS[0].operator,
        late_watermark_ms=0,
        started_us=START_US,
        uncounted=[("p", START_US), ("p", START_US)],
    )
    first, again, other = taken(database, counters, [report, report, replace(report, duration_ms=9)])
    assert (first.result(PATIENCE_S).duplicate, again.result(PATIENCE_S).duplicate) == (False, True)
    assert isinstance(other.exception(PATIENCE_S), ReportConflictError)
    assert counters.uncounted.labels(report.job, report.stream)._value.get() == 2
