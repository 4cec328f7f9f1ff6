"""The driver's side of live queries, without Spark: which rows steer which, and whether Spark does what was asked."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from tidemark.models.base.operators import tumbling
from tidemark.models.live.defaults import CEILING_ALARM_PPM
from tidemark.spark_jobs.core.watch import Orders
from tidemark.spark_jobs.live.queries import LiveQueries
from tidemark.spark_jobs.live.streams import LiveStream

from support.streams import SECOND, report_of

START_US = 1_790_000_000 * SECOND
CEILING_US = 7_200 * SECOND


class Query:
    """One query of a plan, whose batches read a row of one partition at a time of their own."""

    def __init__(self, queries: LiveQueries, run_id: str, *, alone: bool = True) -> None:
        self.queries, self.run_id = queries, run_id
        self.batches, self.required_ms = 0, 0
        queries.started(run_id, {"tap": tumbling("10 s")}, 1_000, alone=alone)

    def batch(
        self, time_us: int, watermark_ms: int | None = None, *, name: str = "p", decides: bool = True
    ) -> Any:
        """Run a batch under a watermark, the required one unless given; return what is reported before it decides."""
        started_us = START_US + (1_000 + self.batches * 60) * SECOND
        in_force_ms = self.required_ms if watermark_ms is None else watermark_ms
        report = report_of(
            [(name, time_us)],
            tumbling("10 s"),
            late_watermark_ms=0,
            granule_us=SECOND,
            batch_id=self.batches,
            started_us=started_us,
            watermark_ms=in_force_ms,
        )
        self.queries.batch(self.run_id, in_force_ms, started_us)
        self.batches += 1
        state = self.queries.observe(self.run_id, "tap", report, {name: report.counts.granules[0]}, None)
        required_ms = self.queries.requires(self.run_id, finds_nothing=False) if decides else None
        if required_ms is not None:
            self.required_ms = required_ms
            self.queries.moved(self.run_id, required_ms)
        return state


@pytest.fixture
def queries() -> LiveQueries:
    known = LiveQueries(lambda: START_US + 1_000 * SECOND)
    stream = LiveStream(
        name="clicks",
        ceiling_us=CEILING_US,
        idle_timeout_us=None,
        orders=Orders(None, 5_000, "Live", None),
    )
    known.add("tap", stream)
    return known


def test_two_queries_of_one_plan_are_each_steered_by_their_own_rows(queries: LiveQueries) -> None:
    ahead, behind = Query(queries, "run 1"), Query(queries, "run 2")
    for number in range(6):
        ahead.batch(START_US + number * 60 * SECOND)
        behind.batch(START_US - 9_000 * SECOND + number * 60 * SECOND)

    assert ahead.required_ms * 1_000 == START_US + 5 * 60 * SECOND - 5 * SECOND
    assert behind.required_ms * 1_000 == START_US - 9_000 * SECOND + 5 * 60 * SECOND - 5 * SECOND


def test_a_watermark_below_what_the_batch_before_asked_for_is_reported_as_not_steered_and_logged_once(
    queries: LiveQueries, caplog: pytest.LogCaptureFixture
) -> None:
    query = Query(queries, "run")
    with caplog.at_level(logging.ERROR, "tidemark.spark"):
        states = [query.batch(START_US + number * 60 * SECOND, watermark_ms=0) for number in range(6)]

    assert [state.reason.startswith("not steered") for state in states] == [
        False,
        False,
        True,
        True,
        True,
        True,
    ]
    assert states[-1].ceiling_used_ppm == 0, "a watermark of 0 is none"
    assert len(caplog.records) == 1
    assert "stream clicks is not steered" in caplog.text


def test_beside_a_watermark_of_another_input_nothing_says_how_far_spark_must_have_come(
    queries: LiveQueries,
) -> None:
    """Spark takes the lesser of the two, which may be the other's."""
    query = Query(queries, "run", alone=False)
    states = [query.batch(START_US + number * 60 * SECOND, watermark_ms=0) for number in range(6)]

    assert not any(state.reason.startswith("not steered") for state in states)


def decided_once(queries: LiveQueries) -> Query:
    """Return a query whose watermark was required to be two hours and a half ago."""
    query = Query(queries, "run")
    for number in range(2):
        query.batch(START_US - 9_060 * SECOND + number * 60 * SECOND)
    assert query.required_ms
    return query


LATER_US = START_US - 9_000 * SECOND + CEILING_US - 60 * SECOND
"""When the watermark from before is nearly the ceiling behind."""


def test_while_decisions_fail_each_report_names_the_error_in_place_of_an_old_reason(
    queries: LiveQueries, caplog: pytest.LogCaptureFixture
) -> None:
    query = decided_once(queries)
    with caplog.at_level(logging.WARNING, "tidemark.spark"):
        for _ in range(2):
            queries.decided("run", ValueError("shapes (395,) and\n(396,)"))
            query.batch(LATER_US, decides=False)
        failing = query.batch(LATER_US, decides=False)
        logged = list(caplog.records)
    queries.decided("run")
    query.batch(LATER_US)
    decided = query.batch(LATER_US)

    assert failing.reason == failing.failure
    assert failing.failure == (
        "nothing can be decided, the ceiling alone holds: ValueError: shapes (395,) and (396,)"
    )
    assert failing.ceiling_used_ppm > 900_000
    assert len(logged) == 1, "once, with its traceback, and nobody is told to raise the ceiling"
    assert logged[0].exc_info is not None
    assert (decided.failure, decided.reason) == (None, "5 s behind partition p")


def test_a_thread_that_decides_nothing_any_more_shows_in_the_reports(queries: LiveQueries) -> None:
    query = decided_once(queries)
    states = [query.batch(LATER_US, decides=False) for _ in range(12)]

    assert [state.failure is not None for state in states] == [False] * 10 + [True] * 2
    assert states[-1].reason == "nothing was decided in the last 10 batches, the ceiling alone holds"
    query.batch(LATER_US)
    assert query.batch(LATER_US).failure is None


def test_a_batch_that_spans_more_than_the_ceiling_is_no_alarm_of_a_ceiling_that_is_near(
    queries: LiveQueries, caplog: pytest.LogCaptureFixture
) -> None:
    """Over a backlog each does: Live has not been asked since its newest row was read."""
    query = Query(queries, "run")
    states = [query.batch(START_US - (40 - 2 * number) * CEILING_US) for number in range(20)]

    assert max(state.ceiling_used_ppm for state in states) < CEILING_ALARM_PPM
    assert "of the ceiling" not in caplog.text


def test_a_partition_that_holds_the_watermark_back_by_the_ceiling_is_one(
    queries: LiveQueries, caplog: pytest.LogCaptureFixture
) -> None:
    query = Query(queries, "run")
    for number in range(6):
        query.batch(START_US - CEILING_US + number * 60 * SECOND, name="slow")
    states = [query.batch(START_US - CEILING_US + number * CEILING_US // 20) for number in range(1, 20)]

    assert states[-1].ceiling_used_ppm >= CEILING_ALARM_PPM
    assert "of the ceiling" in caplog.text
