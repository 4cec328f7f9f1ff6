"""What a live policy has learned is in the checkpoint: the next run of the query goes on with it."""

from __future__ import annotations

import hashlib
import json
import logging
import time
import zlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from tidemark.models.live.learned import FORMAT, unpacked
from tidemark.models.protocol.messages import Envelope
from tidemark.spark_jobs import flush
from tidemark.spark_jobs.core import connections
from tidemark.spark_jobs.live import learned as learned_files
from tidemark.spark_jobs.live.known_partitions import FOLDER, KnownPartitions
from tidemark.spark_jobs.live.learned import LearnedFiles, file_of
from tidemark.spark_jobs.live.live_plan import live_of
from tidemark.spark_jobs.spark.checkpoint import UNUSABLE

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


def run_until_learned(job: LiveJob, pairs: int = 0, put_aside: Path | None = None) -> None:
    """Run the query over rows that are as old as their file, until its policy has seen more than ``pairs``.

    A file that is to be put aside comes before that.
    """
    folder, query = job.folder / "in", job.start("1 second")
    live = live_of(connections.listener_of(job.spark)).queries

    def has_learned() -> bool:
        now_us, number = time.time_ns() // 1_000, len(list(folder.iterdir()))
        write_batch(folder, number, [Row(100 * number + k, k % 2, now_us - 200_000 * k) for k in range(20)])
        query.processAllAvailable()
        if put_aside is not None and not put_aside.exists():
            return False
        learned = live.learned(str(query.runId)).get(STREAM)
        return learned is not None and bool(learned.arrays["rules.pairs"] > pairs)

    try:
        until(has_learned, query)
    finally:
        query.stop()
        assert flush(PATIENCE_S)


@pytest.mark.long
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
    assert file.with_name(file.name + UNUSABLE).read_bytes() == b"no file of ours"
    first = unpacked(file.read_bytes())
    assert (first.partitions, first.target_ppm, first.trigger_us) == (("0", "1"), 990_000, 1_000_000)

    run_until_learned(job, int(first.arrays["rules.pairs"]))
    second = unpacked(file.read_bytes())
    assert second.arrays["elapsed"] > first.arrays["elapsed"]

    # What is well formed and cannot be counted with is kept as the policy that failed by it had it.
    name = "rules.stragglers.rows"
    rows = np.full_like(second.arrays[name], 1e37)
    file.write_bytes(replace(second, arrays=second.arrays | {name: rows}).packed())
    aside = file.with_name(file.name + UNUSABLE)
    aside.unlink()
    run_until_learned(job, put_aside=aside)
    assert unpacked(aside.read_bytes()).arrays[name].max() > 1e36
    assert unpacked(file.read_bytes()).arrays[name].max() < 1e36


def _of_another_kind(head: dict[str, object]) -> bytes:
    """Return a file with a right checksum."""
    text = json.dumps(head).encode()
    packed = zlib.compress(len(text).to_bytes(4, "big") + text)
    return hashlib.sha256(packed).digest() + packed


@pytest.mark.parametrize(
    "data",
    [
        b"",
        hashlib.sha256(b"text").digest() + b"text",
        _of_another_kind({}),
        _of_another_kind({"format": FORMAT - 1}),
        _of_another_kind({"format": FORMAT, "arrays": [["a", "<f8", [10**12]]]}),
        _of_another_kind({"format": FORMAT, "arrays": None}),
    ],
    ids=["empty", "no archive", "no head", "another format", "too few numbers", "no arrays"],
)
def test_a_file_that_cannot_be_used_is_put_aside_and_the_earlier_one_makes_room(
    spark: SparkSession, tmp_path: Path, data: bytes
) -> None:
    files, file = LearnedFiles(spark, str(tmp_path)), tmp_path / file_of(STREAM)
    file.parent.mkdir(parents=True)
    for each in (b"the one before", data):
        file.write_bytes(each)
        assert files.read(STREAM) is None
    assert not file.exists()
    assert file.with_name(file.name + UNUSABLE).read_bytes() == data
    assert files.read(STREAM) is None, "there is none"


@pytest.mark.parametrize("text", ["", "[1]", '{"a": 1}', '{"a": {"p": 1e999}}', "\x00"])
def test_partitions_that_cannot_be_read_are_put_aside(spark: SparkSession, tmp_path: Path, text: str) -> None:
    folder = tmp_path / FOLDER
    folder.mkdir(parents=True)
    (folder / "7").write_text(text)
    partitions = KnownPartitions(spark, str(tmp_path))
    assert partitions.read() == {}
    partitions.keep({"clicks": {"0": 5}})
    assert (folder / f"7{UNUSABLE}").read_text() == text
    assert KnownPartitions(spark, str(tmp_path)).read() == {"clicks": {"0": 5}}


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
