"""The driver's side of live queries, without Spark: which source is whose, and whether Spark does what was asked."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from tidemark.models.base.operators import tumbling
from tidemark.spark_jobs.core.watch import Orders
from tidemark.spark_jobs.live.queries import LiveQueries, LiveStream

from support.streams import SECOND, report_of

START_US = 1_790_000_000 * SECOND
CEILING_US = 7_200 * SECOND


class Query:
    """One query of a plan, whose batches read a row of one partition at a time of their own."""

    def __init__(
        self, queries: LiveQueries, run_id: str, source: str, *, watermark_nodes: int | None = 1
    ) -> None:
        self.queries, self.run_id = queries, run_id
        self.offset: dict[str, Any] = {"source": source, "watermark_ms": None, "partitions": {}}
        self.batches = 0
        queries.started(run_id, {"tap": tumbling("10 s")}, 1_000, watermark_nodes=watermark_nodes)

    def batch(self, time_us: int, watermark_ms: int | None = None) -> Any:
        """Plan a batch and run it under a watermark, that of its offset unless given; return what is reported."""
        before_ms = self.offset["watermark_ms"] or 0
        self.queries.runs_of("tap", self.offset["source"])
        self.offset = self.queries.answer("tap", self.offset) or self.offset
        report = report_of(
            [("p", time_us)],
            tumbling("10 s"),
            late_watermark_ms=0,
            granule_us=SECOND,
            batch_id=self.batches,
            started_us=START_US + self.batches * 60 * SECOND,
        )
        granule = report.counts.granules[0]
        self.queries.recognise(
            self.run_id, [self.offset], before_ms if watermark_ms is None else watermark_ms
        )
        self.batches += 1
        return self.queries.observe(self.run_id, "tap", report, {"p": granule}, None)


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
    ahead, behind = Query(queries, "run 1", "a"), Query(queries, "run 2", "b")
    for number in range(6):
        ahead.batch(START_US + number * 60 * SECOND)
        behind.batch(START_US - 9_000 * SECOND + number * 60 * SECOND)

    assert ahead.offset["watermark_ms"] * 1_000 == START_US + 4 * 60 * SECOND - 5 * SECOND
    assert behind.offset["watermark_ms"] * 1_000 == START_US - 9_000 * SECOND + 4 * 60 * SECOND - 5 * SECOND


def test_a_watermark_below_what_the_batch_before_asked_for_is_reported_as_not_steered_and_logged_once(
    queries: LiveQueries, caplog: pytest.LogCaptureFixture
) -> None:
    query = Query(queries, "run", "a")
    with caplog.at_level(logging.ERROR, "tidemark.spark"):
        states = [query.batch(START_US + number * 60 * SECOND, watermark_ms=0) for number in range(6)]

    assert [state.reason.startswith("not steered") for state in states] == [
        False,
        False,
        False,
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
    query = Query(queries, "run", "a", watermark_nodes=2)
    states = [query.batch(START_US + number * 60 * SECOND, watermark_ms=0) for number in range(6)]

    assert not any(state.reason.startswith("not steered") for state in states)
