"""A Live query that is started and ended many times in a row, as the runner does it: does every start live?

TIDEMARK_BENCH_STARTS says how many times.
"""

from __future__ import annotations

import os
import statistics
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tidemark.models.base.operators import tumbling
from tidemark.spark_jobs import flush
from tidemark.spark_jobs.restart.between_batches import end_between_batches

from support.live_operators import BEYOND, windows
from support.live_streams import SECOND_US, Input, LiveJob
from support.patience import until
from support.spark_streams import EPOCH_US, Row

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.bench, pytest.mark.spark, pytest.mark.timeout(7200)]

STARTS = int(os.environ.get("TIDEMARK_BENCH_STARTS", "30"))
STARTS_A_CHECKPOINT = 20
"""Then the query begins anew, so that both kinds of start are many."""


def _batch(number: int) -> list[Row]:
    """Return 10 s of two partitions, of which one trails by 5 s."""
    begin_us = EPOCH_US + (3_600 + 10 * number) * SECOND_US
    return [
        Row(20 * number + 2 * second + partition, partition, begin_us + (second - 5 * partition) * SECOND_US)
        for second in range(10)
        for partition in (0, 1)
    ]


def _start_and_end(job: LiveJob, number: int) -> None:
    """Start the query over two more batches, and end it between two as soon as it has run one."""
    job.publish([[_batch(2 * number), _batch(2 * number + 1)]])
    done = len(job.output)
    query = job.start()
    try:
        until(lambda: len(job.output) > done or not query.isActive, "the next batch")
        assert end_between_batches(query, 60.0), "it did not end"
    finally:
        query.stop()
    assert flush(60), "the listener did not report all batches"


def test_every_start_of_a_live_query_lives(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One of 15 died of a StackOverflowError once, and nobody knows why."""
    entry = Input(name="in", operator=tumbling("5 s"), bound="3 seconds", ceiling=BEYOND)
    failures: dict[int, str] = {}
    taken_s: list[float] = []
    batches = 0
    job = LiveJob(spark, tmp_path / "0", [entry], windows("5 seconds"))
    for number in range(STARTS):
        if number % STARTS_A_CHECKPOINT == 0:
            job = LiveJob(spark, tmp_path / str(number), [entry], windows("5 seconds"))
        before, began = len(job.log()), time.monotonic()
        try:
            _start_and_end(job, number)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is counted
            failures[number] = f"{type(error).__name__}: {str(error)[:2_000]}"
        taken_s.append(time.monotonic() - began)
        batches += len(job.log()) - before
        with capsys.disabled():
            print(f"start {number}: {taken_s[-1]:.2f} s {failures.get(number, '')}", flush=True)
    tenth = max(len(taken_s) // 10, 1)
    with capsys.disabled():
        print(
            f"\n{len(taken_s)} starts of a Live query, {batches} batches: {len(failures)} failures; "
            f"seconds from start to end: median {statistics.median(taken_s):.2f}, longest {max(taken_s):.2f}, "
            f"median of the first tenth {statistics.median(taken_s[:tenth]):.2f}, "
            f"of the last {statistics.median(taken_s[-tenth:]):.2f}"
        )

    assert failures == {}
    assert job.moves(), "it was steered"
