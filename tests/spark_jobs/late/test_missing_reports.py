"""Batches whose reports were lost become known by the second read: the ledger is then as if none had been lost."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import quote

import pytest
from pyspark.sql.types import StructType

from tidemark.models.base.granules import Granules
from tidemark.models.base.operators import Operator, row_level, sliding, tumbling
from tidemark.models.protocol.messages import Report
from tidemark.spark_jobs import side
from tidemark.spark_jobs.core.binding import Binding
from tidemark.spark_jobs.core.bound import ChosenBound
from tidemark.spark_jobs.core.client import LedgerGaps
from tidemark.spark_jobs.core.tap import Tap
from tidemark.spark_jobs.late.late_rows import FutureRowTreatment, LateRule
from tidemark.spark_jobs.late.missing_reports import MissingReports
from tidemark.spark_jobs.late.origin import Origin
from tidemark.spark_jobs.late.reread import LateStream
from tidemark.spark_jobs.late.side_folder import ReportedRun, SideFolder
from tidemark.spark_jobs.live.future_rows import FutureRowRule
from tidemark.spark_jobs.spark.checkpoint import HadoopFiles

from support.controller_app import Controller
from support.job_settings import read_settings
from support.late_streams import CLOSING_ID, input_pairs, late_by_batch, main_pairs
from support.live_operators import windows
from support.live_streams import Input, LiveJob, trailing_batches
from support.losing import Losing
from support.served import served
from support.spark_streams import EPOCH_US, Job, RecordingSink, Row, random_batches

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidemark.spark_jobs.late.missing_reports import Ledger

pytestmark = [pytest.mark.spark, pytest.mark.slow]

END_US = EPOCH_US + 48 * 3_600_000_000
SLIDING = sliding("10 seconds", "4 seconds")
CLOSING = [[Row(CLOSING_ID + number, 0, END_US)] for number in range(2)]


def status_of(controller: Controller) -> tuple[str, dict[str, Any]]:
    """Return the address of the one stream, and its status."""
    (entry,) = controller.http.get("/v1/jobs").json()["jobs"]
    path = f"/v1/jobs/{quote(entry['job'])}/streams/test"
    return path, controller.http.get(path).json()


def test_a_ledger_with_lost_reports_becomes_that_of_the_sink_though_other_runs_lost_them(
    spark: SparkSession, tmp_path: Path
) -> None:
    folder, batches = tmp_path / "late", random_batches(21, 7)
    job = Job(spark, tmp_path, SLIDING)
    with Controller(f"sqlite:///{tmp_path / 'tidemark.db'}") as controller:
        controller.clock.now_us = time.time_ns() // 1_000
        losing = Losing(controller.http.app, {1, 3}, answers=False)
        with served(losing) as job.controller_url:
            job.late = side(str(folder), parse=lambda raw: raw)
            job.write(batches[:4])
            job.run_available("1 second")
            _, alone = status_of(controller)
            losing.answers, losing.lost = True, {7}
            job.write([*batches[4:], *CLOSING])
            job.run_available("3 seconds")
            path, status = status_of(controller)
            reports = controller.http.get(f"{path}/reports").json()["reports"]
            (query,) = status["coverage"]
            sent = controller.http.get(f"{path}/reports/bodies").json()["reports"]
            (detail,) = (each for each in sent if each["batch_id"] == 3)

    lost = input_pairs(batches, SLIDING) - main_pairs(job.output.values())
    assert alone["completeness"]["missing_batches"] == 2
    assert not alone["completeness"]["exact"]
    assert query["missing"] == []
    assert status["completeness"]["exact"]
    assert status["completeness"]["late_min"] == lost.total() > 20
    late = {each["batch_id"]: each["late_min"] for each in reports}
    assert {batch: rows for batch, rows in late.items() if rows} == late_by_batch(spark, folder)
    assert {each["bound_ms"] for each in reports if each["batch_id"] < 4} == {1_000}
    assert (detail["reread"], detail["bound_ms"]) == (True, 1_000), "as it was in the run that had the batch"


def test_without_side_and_without_the_record_of_a_run_lost_batches_stay_unknown(
    spark: SparkSession, tmp_path: Path
) -> None:
    job = Job(spark, tmp_path, SLIDING)
    with Controller(f"sqlite:///{tmp_path / 'tidemark.db'}") as controller:
        controller.clock.now_us = time.time_ns() // 1_000
        with served(Losing(controller.http.app, {1})) as job.controller_url:
            job.write(random_batches(21, 4))
            job.run_available("1 second")
            job.late = side(str(tmp_path / "late"), parse=lambda raw: raw)
            job.write(CLOSING)
            job.run_available("1 second")
            _, status = status_of(controller)

    (query,) = status["coverage"]
    assert query["missing"] == [{"first": 1, "last": 1}]
    assert not status["completeness"]["exact"]


@dataclass
class AllMissing(RecordingSink):
    """A ledger that lacks every report."""

    def count(self, counts: str) -> None:
        """Ignore."""

    def has_all(self, timeout_s: float) -> bool:  # noqa: ARG002 - as the ledger has it
        """Nothing is on its way."""
        return True

    def missing(self, query_id: str, from_batch: int) -> LedgerGaps:  # noqa: ARG002 - as above
        """Return all batches there may be."""
        return LedgerGaps([(from_batch, 10_000)])


def made_anew(
    spark: SparkSession,
    folder: Path,
    operator: Operator,
    granules: Granules,
    first: Report,
    future: FutureRowTreatment | None,
) -> list[Report]:
    """Return the reports that are made of a checkpoint's batches, with what ``first`` says of the run."""
    late, ledger = folder / "late", AllMissing()
    files = SideFolder(HadoopFiles(spark, str(late)), first.query_id, "0")
    chosen = ChosenBound(first.bound_ms, generation=first.generation)
    run = ReportedRun(first.run_id, first.output_mode, chosen)
    files.record_run(0, run, kept_from=0)
    files.record_future_rows(0, future)
    missing = MissingReports(
        spark,
        str(folder / "checkpoint"),
        str(late),
        LateStream(
            parse=lambda raw: raw,
            origin=Origin(
                "json", {}, StructType().add("id", "long").add("partition", "integer").add("ts", "timestamp")
            ),
            rule=LateRule("ts", operator, "partition"),
            source="0",
        ),
        binding=Binding(
            settings=read_settings(dict[str, str]().get, job=first.job, stream=first.stream),
            tap=Tap("ts", "partition", granules.granule_us, granules.closed),
            operator=operator,
            chosen=chosen,
            own_bound_ms=first.bound_ms,
            sink=ledger,
        ),
        granules=granules,
        ledger=cast("Ledger", ledger),
    )
    while missing.step(ending=False):
        pass
    return ledger.reports


def same(reports: Iterable[Report]) -> list[Report]:
    """Return the reports without what a second read does not know, or knows less exactly."""
    return [
        replace(
            each,
            started_us=0,
            duration_ms=0,
            late_base_ms=None,
            state_rows=0,
            state_bytes=0,
            dropped_by_spark=0,
            live=None,
            reread=False,
        )
        for each in sorted(reports, key=lambda report: report.batch_id)
    ]


@pytest.mark.parametrize("operator", [tumbling("5 seconds"), row_level()], ids=str)
def test_a_report_made_anew_is_the_same_as_the_one_that_was_lost(
    spark: SparkSession, tmp_path: Path, operator: Operator
) -> None:
    job = Job(spark, tmp_path, operator)
    job.write(random_batches(22, 4))
    job.run_available("2 seconds")
    first = job.recorded.reports
    granules = Granules(first[0].granule_us, first[0].closed)
    anew = made_anew(spark, tmp_path, operator, granules, first[0], None)

    assert len(first) >= 4
    assert same(anew) == same(first)
    assert all(each.reread and each.duration_ms > 0 for each in anew)


def test_in_live_it_is_the_same_too_with_future_dated_rows_set_back(
    spark: SparkSession, tmp_path: Path
) -> None:
    entry = Input(name="in", operator=tumbling("5 seconds"), bound="1 second", ceiling="30 seconds")
    job = LiveJob(spark, tmp_path, [entry], windows("5 seconds"))
    ahead = [Row(CLOSING_ID, 0, time.time_ns() // 1_000 + 10 * 86_400_000_000)]
    batches = trailing_batches("missing live", 4)
    job.run([[batches[:2]], [[ahead]], [batches[2:]]])
    first = job.recorded["in"].reports
    granules = Granules(first[0].granule_us, first[0].closed)
    rule = FutureRowRule("ts", 60_000_000)
    future = FutureRowTreatment(rule, granules.granule_us, granules.closed)
    anew = made_anew(spark, tmp_path, entry.operator, granules, first[0], future)

    assert sum(sum(each.counts.future_rows) for each in anew) == 1
    assert same(anew) == same(first)
