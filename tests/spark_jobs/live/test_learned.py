"""What a live policy has learned is in the checkpoint: the next run of the query goes on with it."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tidemark.models.live.learned import unpacked
from tidemark.models.protocol.messages import Envelope
from tidemark.spark_jobs import flush
from tidemark.spark_jobs.core import connections
from tidemark.spark_jobs.live import learned as learned_files
from tidemark.spark_jobs.live.learned import file_of
from tidemark.spark_jobs.live.live_plan import live_of

from support.bound_server import BoundServer
from support.live_faults import LiveJob, files, until
from support.patience import PATIENCE_S
from support.spark_streams import Row, write_batch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]

STREAM = "clicks: EU ü"
"""A name that no file may have."""


@pytest.fixture
def server() -> Iterator[BoundServer]:
    with BoundServer("tidemark-tests", STREAM) as server:
        server.publish(10_000, mode="Live", envelope=Envelope(target_ppm=990_000))
        yield server


@pytest.fixture
def job(spark: SparkSession, tmp_path: Path, server: BoundServer) -> LiveJob:
    given = {"stream": STREAM, "controller_url": server.url}
    return LiveJob(spark, tmp_path, files(spark, tmp_path / "in"), given=given)


def run_until_learned(job: LiveJob, pairs: int = 0) -> None:
    """Run the query over rows that are as old as their file, until its policy has seen more than ``pairs``."""
    folder, query = job.folder / "in", job.start("1 second")
    live = live_of(connections.listener_of(job.spark)).queries

    def has_learned() -> bool:
        now_us, number = time.time_ns() // 1_000, len(list(folder.iterdir()))
        write_batch(folder, number, [Row(100 * number + k, k % 2, now_us - 200_000 * k) for k in range(20)])
        query.processAllAvailable()
        learned = live.learned(str(query.runId)).get(STREAM)
        return learned is not None and bool(learned.arrays["rules.pairs"] > pairs)

    try:
        until(has_learned, query)
    finally:
        query.stop()
        assert flush(PATIENCE_S)


def test_a_query_goes_on_with_what_it_learned_before_it_was_stopped_and_anew_after_a_damaged_file(
    job: LiveJob, caplog: pytest.LogCaptureFixture
) -> None:
    file = job.checkpoint / file_of(STREAM)
    file.parent.mkdir(parents=True)
    file.write_bytes(b"no file of ours")
    with caplog.at_level(logging.WARNING, "tidemark.spark"):
        run_until_learned(job)
    assert f"stream {STREAM}: its policy begins anew" in caplog.text
    assert "its checksum is wrong" in caplog.text
    first = unpacked(file.read_bytes())
    assert (first.partitions, first.target_ppm, first.trigger_us) == (("0", "1"), 990_000, 1_000_000)

    run_until_learned(job, int(first.arrays["rules.pairs"]))
    second = unpacked(file.read_bytes())
    assert second.arrays["elapsed"] > first.arrays["elapsed"]


def test_it_is_saved_while_the_query_runs(job: LiveJob, monkeypatch: pytest.MonkeyPatch) -> None:
    """A driver that is killed says nothing any more."""
    monkeypatch.setattr(learned_files, "SAVE_SECONDS", 0.1)
    write_batch(job.folder / "in", 0, [Row(1, 0, time.time_ns() // 1_000)])
    query = job.start("100 milliseconds")
    try:
        until((job.checkpoint / file_of(STREAM)).exists, query)
    finally:
        query.stop()
        assert flush(PATIENCE_S)
