"""Calls that declare no operator: what is read from the plan judges rows as exactly as a declaration."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tidemark.models.base.operators import row_level, tumbling
from tidemark.models.evidence.ledger import judge
from tidemark.models.protocol.messages import Mode, Report

from support.live_comparisons import Compared, compare_ledger, compare_sink, fates_of
from support.live_operators import BEYOND, KINDS, stream_of, windows
from support.live_streams import SECOND_US, Input, LiveJob, closing_batch, run_side_by_side, trailing_batches
from support.spark_streams import EPOCH_US, Row

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]

BOUND = "3 seconds"
FILES = 6


@pytest.mark.parametrize(
    ("name", "mode", "granule"),
    [
        ("sliding", "Off", None),
        ("session", "Off", "1 ms"),
        ("tumbling, append", "Live", None),
        # The control falls on whole seconds, which are the edges of the default granules.
        ("deduplication", "Live", None),
    ],
)
def test_the_ledger_equals_the_sink(
    spark: SparkSession, tmp_path: Path, name: str, mode: Mode, granule: str | None
) -> None:
    kind = KINDS[name]
    batches, closing = stream_of(kind, name, trailing_batches(name, FILES))
    entry = Input(
        name="in",
        operator=kind.operator,
        bound=BOUND,
        ceiling=BEYOND if mode == "Live" else None,
        granule=granule,
        declared=False,
    )
    job = LiveJob(spark, tmp_path, [entry], kind.plan, mode=mode)
    job.run([[batches[:3]], [batches[3:]], [closing]])
    compared, batches = Compared(), [*batches, *closing]
    wrong = compare_ledger(job, 0, batches, compared)
    wrong += compare_sink(job, kind, fates_of(job, 0, batches), compared)

    assert wrong == []
    assert compared.late > 0
    assert {report.operator for report in job.recorded["in"].reports} == {kind.operator}


def test_the_reports_are_those_of_a_call_that_declares_the_operator(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The tap counts by seconds, and a report by 6 seconds, as by default for windows of a minute."""
    declared = Input(name="in", operator=tumbling("1 minute"), bound=BOUND, ceiling=None)
    jobs = [
        LiveJob(
            spark,
            tmp_path / str(entry.declared),
            [entry],
            windows("1 minute"),
            mode="Off",
            stage=tmp_path / "stage",
        )
        for entry in (declared, replace(declared, declared=False))
    ]
    batches = [*trailing_batches("reports", FILES, trail_us=200_000_000), closing_batch()]
    run_side_by_side(jobs, [[batches]])
    declared_reports, reports = ([*map(_content, job.recorded["in"].reports)] for job in jobs)

    assert reports == declared_reports
    assert sum(judge(report).total.late_min for report in reports) > 0
    assert {report.granule_us for report in reports} == {6_000_000}


def _content(report: Report) -> Report:
    """Return a report without what is another one in each run of a query."""
    return replace(report, query_id="-", run_id="-", started_us=0, duration_ms=0, state_bytes=0)


def test_where_the_watermark_cuts_a_second_a_row_level_ledger_is_an_interval_that_holds_what_spark_dropped(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Windows are exact by seconds; other keys need a granule of a millisecond for that."""
    entry = Input(name="in", operator=row_level(), bound=BOUND, ceiling=None, declared=False)
    job = LiveJob(spark, tmp_path, [entry], KINDS["deduplication"].plan, mode="Off")
    seconds = (10.5,), (11.0,), (6.0, 7.0, 7.2, 7.5, 7.7, 8.0, 8.2)
    job.run(
        [[[[Row(round(at * 10), 0, EPOCH_US + round(at * SECOND_US)) for at in batch] for batch in seconds]]]
    )
    report = next(report for report in job.recorded["in"].reports if report.batch_id == 2)
    total = judge(report).total

    assert report.late_watermark_ms == EPOCH_US // 1_000 + 7_500
    assert (total.late_min, report.dropped_by_spark, total.late_max) == (2, 4, 6)
