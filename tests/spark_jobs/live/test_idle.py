"""Idle partitions and idle streams: the last windows close, that costs few batches, and slow is not idle."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tidemark.models.base.operators import tumbling
from tidemark.spark_jobs import flush

from support.live_faults import (
    Driver,
    LiveJob,
    Logged,
    logged_batches,
    trace,
    until,
    whole_second,
    write_trace,
)
from support.live_streams import RecordedSteering
from support.patience import PATIENCE_S
from support.spark_streams import EPOCH_US

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SECOND = 1_000_000
START_US = EPOCH_US + 3_600 * SECOND


# -- on Spark --------------------------------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.slow
def test_when_no_more_rows_come_the_last_windows_close_within_a_few_batches_and_then_no_batch_is_run(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Spark itself leaves them open for ever, and a watermark that ran after the clock would run batches for ever."""
    window_s, bound_s, ceiling_s, slots = 2, 1, 5, 10
    rows = [(START_US + k * SECOND // 2, START_US + k * SECOND // 2, "ab"[k % 2]) for k in range(slots * 4)]
    more = [(START_US + 86_400 * SECOND, START_US + 86_400 * SECOND, "a")]
    path = tmp_path / "trace.parquet"
    write_trace(path, rows + more)
    operator = tumbling(f"{window_s} seconds")
    job = LiveJob(
        spark,
        tmp_path,
        trace(spark, path, slot_us=str(window_s * SECOND), until=str(len(rows))),
        bound=f"{bound_s} seconds",
        ceiling=f"{ceiling_s} seconds",
        operator=operator,
    )
    last_end_us = (rows[-1][1] // operator.size_us + 1) * operator.size_us
    query = job.start("500 milliseconds")
    try:
        until(lambda: len(job.kept()) == len(rows), query)

        def watermark_us() -> int:
            return Logged.read(job.checkpoint, logged_batches(job.checkpoint)[-1]).watermark_ms * 1_000

        until(lambda: watermark_us() >= last_end_us + ceiling_s * SECOND, query)
        steering = RecordedSteering.runs[str(query.runId)]
        steering.wait_for_rests(4, query)
        batches = logged_batches(job.checkpoint)[-1]
        steering.wait_for_rests(20, query)
        stands = logged_batches(job.checkpoint)[-1]
    finally:
        query.stop()
    assert flush(PATIENCE_S)
    last_with_rows = max(report.batch_id for report in job.reports if report.rows)
    open_then = sum(
        end * operator.size_us > Logged.read(job.checkpoint, last_with_rows).watermark_ms * 1_000
        for end in range(rows[0][1] // operator.size_us + 1, last_end_us // operator.size_us + 1)
    )
    # A batch for each window that is still open, and for steps that double from a window to the ceiling. And the batch
    # without rows that the last rows bring.
    steps = math.ceil(math.log2(ceiling_s / window_s)) + 1
    most = open_then + steps + 1
    with capsys.disabled():
        print(
            f"\nidle: {open_then} windows were open, {batches - last_with_rows} batches came after the last row "
            f"(at most {most}), and none in 10 triggers after that"
        )

    assert sorted(job.kept()) == list(range(len(rows))), "every row once, in a window that was closed"
    assert batches - last_with_rows <= most
    assert stands == batches
    assert job.reports[-1].live is not None
    assert job.reports[-1].live.idle == ("a", "b")


# -- the driver's side alone -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("backlog", [{}, None], ids=["read to its end", "backlog unknown"])
def test_the_offer_keeps_behind_a_slow_partition_that_speaks(backlog: Mapping[str, int] | None) -> None:
    driver = Driver()
    for _ in range(60):
        driver.run(driver.rows("fast", "slow"), backlog)
        slow_us = whole_second(driver.now_us - SECOND - 60 * SECOND)
        assert driver.ask() <= slow_us - 10 * SECOND
    assert driver.ask() > START_US - 60 * SECOND, "it has moved"


def test_once_a_slow_partition_is_idle_the_offer_goes_on_without_it() -> None:
    driver = Driver()
    for _ in range(30):
        driver.run(driver.rows("fast", "slow"), {})
    for _ in range(30):
        driver.run(driver.rows("fast"), {})

    assert driver.now_us - 22 * SECOND < driver.ask() <= driver.now_us - 10 * SECOND


@pytest.mark.parametrize("given_s", [None, 5])
def test_a_batch_that_takes_long_makes_nobody_idle(given_s: int | None) -> None:
    """What came while it ran has not been looked at: a garbage collection must not cost a partition its rows."""
    driver = Driver(idle_timeout_us=None if given_s is None else given_s * SECOND)
    for _ in range(30):
        driver.run(driver.rows("fast", "slow"), {})
    driver.run(driver.rows("fast", "slow"), {}, takes_us=30 * SECOND)
    slow_us = whole_second(driver.now_us - 30 * SECOND - 60 * SECOND)

    assert driver.ask() <= slow_us - 10 * SECOND


@pytest.mark.parametrize("trigger_ms", [0, None], ids=["back to back", "availableNow"])
def test_without_a_trigger_nobody_is_idle_before_the_pace_is_known(trigger_ms: int | None) -> None:
    """Spark's default trigger, on a source that tells its backlog: the first ten batches must not overtake anybody."""
    driver = Driver(trigger_ms=trigger_ms)
    for number in range(12):
        slow_us = whole_second(driver.now_us - 60 * SECOND)
        driver.run(driver.rows("fast", "slow"), {}, takes_us=15 * SECOND)
        assert driver.ask() <= slow_us - 10 * SECOND, f"after batch {number}"
