"""Partitions that are gone give their places to others, and no count of the ledger changes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import func, select

from tidemark.controller.base.db.database import NO_LIMITS
from tidemark.controller.base.db.tables import LedgerKeyRow, PartitionRow, StreamRow
from tidemark.controller.control.retention.upkeep import Upkeep
from tidemark.models.evidence.slots import DAY_US, Retention
from tidemark.models.protocol.granule_counts import GranuleCounts
from tidemark.models.protocol.messages import Report

from support.controller_app import Controller
from support.reports import START_US, query_reports
from support.streams import SECOND

MAX = 4


@pytest.fixture(params=["sqlite", "postgresql"])
def controller(request: pytest.FixtureRequest) -> Iterator[Controller]:
    """One on each kind of database, whose streams have few places."""
    url = request.getfixturevalue("database_url" if request.param == "sqlite" else "new_postgres_url")
    with Controller(url, max_partitions=MAX) as running:
        yield running


def daily(days: Sequence[int]) -> list[Report]:
    """Return one batch on each of ``days``, each with two partitions of its own and ``all``, on time."""
    at = [START_US + day * DAY_US for day in days]
    rows = [
        [(name, time - SECOND * n) for n in range(20) for name in (f"{day}a", f"{day}b", "all")]
        for day, time in zip(days, at, strict=True)
    ]
    reports = query_reports(rows)
    return [replace(report, started_us=time) for report, time in zip(reports, at, strict=True)]


def send(controller: Controller, report: Report) -> Any:
    controller.clock.now_us = report.started_us + SECOND
    return controller.report(report)


def ledger(controller: Controller) -> tuple[Any, ...]:
    with controller.service.database.read() as session:
        row = LedgerKeyRow
        return tuple(session.execute(select(func.count(), func.sum(row.rows), func.sum(row.late_max))).one())


def names(controller: Controller) -> set[str]:
    with controller.service.database.read() as session:
        return set(session.scalars(select(PartitionRow.partition)))


def test_new_partitions_take_the_places_of_those_without_a_row_over_the_horizon(
    controller: Controller,
) -> None:
    reports = daily(range(0, 12, 2))
    for report in reports:
        assert send(controller, report).status_code == 201
    assert names(controller) == {"10a", "10b", "all"}
    assert controller.status()["evidence"]["batches"] > 0
    rows = sum(report.rows for report in reports)
    _, by_key, _ = ledger(controller)
    assert by_key == rows


def test_a_report_with_too_many_partitions_at_once_is_refused_and_forgets_nothing(
    controller: Controller,
) -> None:
    first, second = daily([0, 2])
    assert send(controller, first).status_code == 201
    parts = second.counts.by_partition()
    many = replace(
        second,
        counts=GranuleCounts.of(
            (*parts, *(replace(parts[0], partition=f"{parts[0].partition}{n}") for n in range(MAX)))
        ),
        rows=second.rows + parts[0].rows * MAX,
    )
    assert send(controller, many).json()["type"] == "urn:tidemark:problem:limit-reached"
    assert names(controller) == {"0a", "0b", "all"}
    assert send(controller, second).status_code == 201


def test_a_partition_leaves_once_its_ledger_is_over_and_the_counts_stay(controller: Controller) -> None:
    controller.service.database.limits = NO_LIMITS
    first, second = daily([0, 36])
    for report in (first, second):
        assert send(controller, report).status_code == 201
    with controller.service.database.write() as session:
        (row,) = session.scalars(select(PartitionRow).where(PartitionRow.partition == "0a"))
        row.future_rows = 5
    before, metrics = names(controller) | {"0a"}, future(controller)
    service = controller.service
    upkeep = Upkeep(service.database, service.decider.leases, Retention(ledger_days=35))
    with service.database.read() as session:
        stream_id = session.scalars(select(StreamRow.id)).one()
    counted = ledger(controller)
    assert before == {"0a", "0b", "all", "36a", "36b"}
    while upkeep.age(stream_id):
        pass
    # No other step is taken: the ledger has a retention of its own.
    while upkeep.forget(stream_id):
        pass
    assert names(controller) == {"all", "36a", "36b"}
    assert future(controller) == metrics
    assert ledger(controller) == counted


def future(controller: Controller) -> list[str]:
    answer = controller.http.get("/metrics").text
    return [line for line in answer.splitlines() if line.startswith("tidemark_rows_future_total")]
