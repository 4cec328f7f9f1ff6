"""Catching up offline with a finished query: any log that Spark writes, a crash, and what is then unknown."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tidemark.models.base.operators import tumbling
from tidemark.models.evidence.late_counts import NOTHING, LossCounts
from tidemark.spark_jobs.late.commands import operator_of

from support.command_line import exit_code
from support.late_streams import late_by_batch, late_in_ledger, side_rows, write_without_time
from support.spark_streams import SCHEMA, Job, Row, random_batches

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]

CONF = {
    "spark.sql.streaming.fileSource.log.compactInterval": "3",
    "spark.sql.streaming.fileSource.log.cleanupDelay": "0",
    "spark.sql.streaming.offsetLog.formatVersion": "2",
}
OLD_US = -3_600_000_000
"""Before 1970: late in batch 0 already, whose watermark is 0."""


@pytest.fixture(scope="module")
def finished(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Job:
    """Return a job that has run without keeping late rows, over logs of version 2 and compacted ones."""
    job = Job(spark, tmp_path_factory.mktemp("finished"), tumbling("5 seconds"))
    first, *others = random_batches(3, 7)
    job.write([[*first, Row(900, 0, OLD_US)], *others])
    write_without_time(job, 901)
    for key, value in CONF.items():
        spark.conf.set(key, value)
    try:
        job.run_available("1 second")
    finally:
        for key in CONF:
            spark.conf.unset(key)
    assert (job.folder / "checkpoint" / "offsets" / "0").read_text().startswith("v2")
    return job


def _catch_up(job: Job, checkpoint: Path, into: Path, *more: str) -> int:
    given = ["--parse", "support.late_streams:parse_rows", "--operator", 'tumbling("5 seconds")']
    given += ["--event-time", "ts", "--format", "json", "--schema", SCHEMA, "--partition", "partition"]
    return exit_code("late", "catch-up", given=[str(checkpoint), "--into", str(into), *given, *more])


def _counted(folder: Path) -> LossCounts:
    """Return the sum of what is counted by dimension."""
    bodies = [json.loads(path.read_text()) for path in (folder / "_counts").glob("[0-9]*")]
    fields = ("rows", "late", "no_event_time", "set_aside", "max_late_ms")
    each = [LossCounts(**{name: one[name] for name in fields}) for body in bodies for one in body["values"]]
    return sum(each, NOTHING)


def test_offline_it_finds_what_the_ledger_counted_and_a_crash_before_the_mark_changes_nothing(
    spark: SparkSession, finished: Job, tmp_path: Path
) -> None:
    into = tmp_path / "late rows"
    counting = "--dimension", "partition"
    assert _catch_up(finished, finished.folder / "checkpoint", into, "--batches", "4", *counting) == 0
    counted = _counted(into)
    assert late_by_batch(spark, into) == late_in_ledger(finished.recorded.reports)
    rows = {(row["id"], row["late"]) for row in side_rows(spark, into).select("id", "late").collect()}
    reasons = {identity: (late["reason"], late["by_us"], late["batch_id"]) for identity, late in rows}
    assert reasons[900] == ("late", 3_595_000_000, 0)
    assert reasons[901] == ("no event time", None, 0)

    (mark,) = [path for path in (into / "_done").iterdir() if path.name.isdecimal()]
    mark.rename(into / "_done" / "3")
    (into / "_done" / f".{mark.name}.crc").rename(into / "_done" / ".3.crc")
    assert _catch_up(finished, finished.folder / "checkpoint", into, *counting) == 0
    again = {(row["id"], row["late"]) for row in side_rows(spark, into).select("id", "late").collect()}
    assert again == rows
    assert _counted(into) == counted, "what was counted before the crash does not count twice"
    assert counted.late == sum(late_in_ledger(finished.recorded.reports).values())
    assert counted.no_event_time == 1
    assert late_by_batch(spark, into) == late_in_ledger(finished.recorded.reports)


def test_batches_whose_offsets_are_purged_or_whose_files_are_gone_are_unknown_and_the_others_are_exact(
    spark: SparkSession, finished: Job, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    checkpoint, into = tmp_path / "checkpoint", tmp_path / "late"
    shutil.copytree(finished.folder / "checkpoint", checkpoint)
    for number in (0, 1):
        (checkpoint / "offsets" / str(number)).unlink()
    gone = finished.folder / "in" / "00004.json"
    gone.rename(tmp_path / "kept")
    try:
        assert _catch_up(finished, checkpoint, into) == 0
    finally:
        (tmp_path / "kept").rename(gone)
    printed = capsys.readouterr().out

    expected = late_in_ledger(finished.recorded.reports)
    assert late_by_batch(spark, into) == {n: rows for n, rows in expected.items() if n not in {0, 1, 2, 4}}
    assert "batches 0 to 2 are unknown: Spark has purged" in printed
    assert "batches 4 to 4 are unknown: files of it are gone" in printed
    assert printed.endswith("4 batches are unknown\n")


def test_wrong_input_is_refused_with_the_way_out(
    finished: Job, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    checkpoint, into = finished.folder / "checkpoint", tmp_path / "late"
    other = tmp_path / "other"
    (other / "_done").mkdir(parents=True)
    (other / "_done" / "5").write_text('{"version": 1, "query_id": "another", "source": "0"}')
    for folder, target, more, said in (
        (tmp_path, into, (), "is no checkpoint"),
        (checkpoint, into, ("--source", "7"), "its sources are 0"),
        (checkpoint, into, ("--operator", "windows(3)"), "write it as in the job"),
        (checkpoint, into, ("--parse", "support.late_streams:none"), "module:function"),
        (checkpoint, other, (), "needs a new folder"),
    ):
        assert _catch_up(finished, folder, target, *more) == 2
        assert said in capsys.readouterr().err
    assert operator_of('tumbling("5 seconds", start="1 s")') == tumbling("5 seconds", "1 s")
