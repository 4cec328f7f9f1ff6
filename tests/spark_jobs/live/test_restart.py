"""A driver that is killed in the middle of a batch: the next one replays it to the letter and overtakes nobody."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tidemark.models.evidence.ledger import judge
from tidemark.spark_jobs.live import known_partitions
from tidemark.spark_jobs.live.known_partitions import FOLDER, KnownPartitions

from support.live_faults import (
    BATCH_OF_THE_KILL,
    Driver,
    Logged,
    job_to_be_killed,
    logged_batches,
    steady,
    windows_of,
)
from support.patience import PATIENCE_S
from support.spark_streams import write_batch
from support.tree import ROOT

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.slow
def test_a_driver_killed_between_the_offset_log_and_the_commit_replays_the_batch_and_forgets_no_partition(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The watermark was moved, the batch was written, and nothing was committed. And the slow partition is silent
    when the driver comes back: nobody may move on without it."""
    # The slow partition is silent from the batch of the kill on, so only the checkpoint can know of it.
    alone = range(BATCH_OF_THE_KILL, BATCH_OF_THE_KILL + 4)
    again = range(alone.stop, alone.stop + 3)
    batches = [steady(number) for number in range(alone.start)]
    batches += [steady(number, slow=False) for number in alone]
    batches += [steady(number, trailing_s=60 + 10 * len(alone)) for number in again]
    for number in range(BATCH_OF_THE_KILL + 1):
        write_batch(tmp_path / "in", number, batches[number])
    killed = subprocess.run(
        [sys.executable, "-m", "support.live_faults", str(tmp_path), str(BATCH_OF_THE_KILL)],
        env={**os.environ, "PYTHONPATH": str(ROOT / "tests")},
        start_new_session=True,
        capture_output=True,
        timeout=3 * PATIENCE_S,
        check=False,
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()[-2_000:]
    checkpoint = tmp_path / "checkpoint"
    assert logged_batches(checkpoint)[-1] == BATCH_OF_THE_KILL
    assert not (checkpoint / "commits" / str(BATCH_OF_THE_KILL)).exists()
    before = {batch: Logged.read(checkpoint, batch) for batch in logged_batches(checkpoint)}
    replayed, previous = before[BATCH_OF_THE_KILL], before[BATCH_OF_THE_KILL - 1]
    assert replayed.watermark_ms > previous.watermark_ms, "the kill came after a move"
    written = (tmp_path / "out" / f"{BATCH_OF_THE_KILL}.json").read_text()

    # The fast partition alone, a minute and more ahead; then the slow one again, where it had stopped.
    for number in range(BATCH_OF_THE_KILL + 1, again.stop):
        write_batch(tmp_path / "in", number, batches[number])
    job = job_to_be_killed(spark, tmp_path)
    job.run()
    watermarks = job.watermarks_ms()

    assert min(watermarks) == BATCH_OF_THE_KILL, "the batch is run again"
    assert (tmp_path / "out" / f"{BATCH_OF_THE_KILL}.json").read_text() == written, "and gives the same"
    assert {batch: Logged.read(checkpoint, batch) for batch in before} == before, "what was logged stays"
    assert watermarks == {batch: Logged.read(checkpoint, batch).watermark_ms for batch in watermarks}
    assert watermarks[BATCH_OF_THE_KILL] == replayed.watermark_ms

    slow_us = max(row.event_time_us for row in batches[BATCH_OF_THE_KILL - 1] if row.partition == 1)
    while_alone = [report for report in job.reports if report.counts.partitions == ("0",)]
    assert len(while_alone) == len(alone)
    assert max(report.watermark_ms for report in while_alone) * 1_000 <= slow_us - 10_000_000
    assert sum(t.late_max for r in job.reports for t in judge(r).tallies.values()) == 0

    emitted = [
        (end, ids)
        for path in sorted((tmp_path / "out").glob("*.json"))
        for end, ids in json.loads(path.read_text())
    ]
    expected = windows_of((row for rows in batches for row in rows), job.operator)
    last_us = max(end for end, _ in emitted)
    with capsys.disabled():
        print(
            f"\nrestart: batch {BATCH_OF_THE_KILL} replayed at watermark {replayed.watermark_ms} ms, "
            f"{len(emitted)} windows closed, each once and whole"
        )
    assert len({end for end, _ in emitted}) == len(emitted), "no window twice"
    assert {end: sorted(ids) for end, ids in emitted} == {
        end: ids for end, ids in expected.items() if end <= last_us
    }, "no row lost, none doubled"
    assert last_us > slow_us - 30_000_000, "windows went on closing after the restart"


def test_a_partition_that_the_checkpoint_knows_holds_the_watermark_before_it_has_spoken_in_the_new_run() -> (
    None
):
    first = Driver()
    for _ in range(30):
        first.run(first.rows("fast", "slow"), {})
    first.ask()
    slow_us = first.bases_us["slow"]
    second = Driver(
        bases_us=first.bases_us, watermark_ms=first.watermark_ms, now_us=first.now_us + 120_000_000
    )
    for _ in range(4):
        second.run(second.rows("fast"), {})
        assert second.ask() <= max(slow_us - 10_000_000, first.watermark_ms * 1_000)


def test_a_partition_that_is_new_is_kept_before_a_watermark_has_regard_for_it(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Windows of an hour close once an hour; a driver may be killed in between."""
    monkeypatch.setattr(known_partitions, "KEEP_SECONDS", math.inf)
    kept = KnownPartitions(spark, str(tmp_path))
    kept.keep({"s": {"fast": 1}})
    kept.keep({"s": {"fast": 2}})
    assert KnownPartitions(spark, str(tmp_path)).read() == {"s": {"fast": 1}}, "not time yet"
    kept.keep({"s": {"fast": 3, "new": 3}})
    assert KnownPartitions(spark, str(tmp_path)).read() == {"s": {"fast": 3, "new": 3}}
    kept.keep({"s": {"fast": 4, "new": 3}}, at_once=True)

    again = KnownPartitions(spark, str(tmp_path))
    assert again.read() == {"s": {"fast": 4, "new": 3}}
    again.keep({"s": {"fast": 5}})
    assert KnownPartitions(spark, str(tmp_path)).read() == {"s": {"fast": 5}}
    assert len(list((tmp_path / FOLDER).glob("[0-9]*"))) == 1


def test_what_cannot_be_read_is_said_and_nothing_is_known(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / FOLDER).mkdir(parents=True)
    (tmp_path / FOLDER / "7").write_text("no file of ours")

    assert KnownPartitions(spark, str(tmp_path)).read() == {}
    assert "how far partitions had come cannot be read" in caplog.text
