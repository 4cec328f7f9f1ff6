"""Windows of a real Spark query as a real controller knows them: what came, what counts, and what was forecast."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tidemark.controller.tools.client.client import Client
from tidemark.models.base.operators import tumbling
from tidemark.spark_jobs.demo.controller_process import ControllerProcess

from support.patience import until
from support.spark_streams import EPOCH_US, Job, Row

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.long]

SECOND = 1_000_000
WINDOW = 5 * SECOND
BATCHES = 40
"""A batch for each window."""
START_US = EPOCH_US + 3_600 * SECOND


def batches() -> list[list[Row]]:
    """Return batches of 60 rows in 5 s, each up to some seconds late, and last a row that closes all windows."""
    rng = random.Random(5)
    found = [
        [
            Row(
                batch * 100 + n,
                n % 4,
                START_US + batch * WINDOW - int(min(rng.expovariate(1 / 2), 30) * SECOND),
            )
            for n in range(60)
        ]
        for batch in range(BATCHES)
    ]
    return [*found, [Row(10**6, 0, START_US + (BATCHES + 60) * WINDOW)]]


def test_the_counts_of_every_window_are_those_of_the_sink(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "controller").mkdir()
    controller = ControllerProcess(tmp_path / "controller", "tidemark-tests", "windows")
    controller.wait_until_ready()
    try:
        job = Job(
            spark, tmp_path / "job", tumbling("5 seconds"), stream="windows", controller_url=controller.url
        )
        rows = batches()
        job.write(rows)
        job.run_available("3 seconds")
        # Only now may the last rows have closed all.
        closed = {end_us: len(ids) for output in job.output.values() for end_us, ids in output}
        with Client(controller.url) as tidemark:
            until(
                lambda: (
                    sum(one.rows for one in tidemark.windows("tidemark-tests", "windows"))
                    == sum(map(len, rows))
                ),
                "the report of every row",
            )
            found = {
                one.end_us: one for one in tidemark.windows("tidemark-tests", "windows", share_ppm=900_000)
            }
    finally:
        controller.stop()
    came = Counter(row.event_time_us // WINDOW * WINDOW + WINDOW for batch in rows for row in batch)
    assert {end_us: one.rows for end_us, one in found.items()} == dict(came)
    assert sum(one.late_max for one in found.values()) > 0
    for end_us, count in closed.items():
        assert end_us is not None
        one = found[end_us]
        assert one.late_min == one.late_max
        assert one.rows - one.late_max == count
    settled = [
        (end_us, one.estimate) for end_us, one in found.items() if one.estimate and one.estimate.settled
    ]
    assert len(settled) > 3
    for end_us, estimate in settled:
        assert estimate.expected_min <= came[end_us] <= estimate.expected_max
