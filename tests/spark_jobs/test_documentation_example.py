"""The example of Spark's own documentation, on the real engine.

Bound 5 minutes; batch a holds 2:41, 2:47, 2:49, batch b 2:43, 2:45, 2:53. By the documentation the watermark after a is
2:44, so 2:43 is discarded, and 2:48 after b. The engine judges batch b by the watermark of the batch *before* it.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tidemark.models.base.operators import Operator, row_level, tumbling

from support.oracles import Ledger
from support.spark_streams import EPOCH_US, Job, Row

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def _at(clock: str) -> int:
    hours, minutes = map(int, clock.split(":"))
    return EPOCH_US + (hours * 60 + minutes) * 60_000_000


NAMES = ["2:41", "2:47", "2:49", "2:43", "2:45", "2:53"]
ROWS = [Row(number, 0, _at(clock)) for number, clock in enumerate(NAMES)]
BATCH_A, BATCH_B = ROWS[:3], ROWS[3:]


def _lost(job: Job) -> list[str]:
    kept = {identity for output in job.output.values() for _, ids in output for identity in ids}
    return [name for number, name in enumerate(NAMES) if number not in kept]


def _late(job: Job) -> int:
    ledger = Ledger()
    for report in job.recorded.reports:
        ledger.add(report)
    assert ledger.completeness().exact
    return ledger.completeness().late_min


@pytest.mark.parametrize(
    ("operator", "mode", "idle_between", "lost"),
    [
        # Back to back, b is judged by the watermark of batch a, which is still 0.
        pytest.param(row_level(), "append", False, [], id="row-level, back to back: nothing is lost"),
        # An idle moment brings a no-data batch, whose watermark is 2:44: now the documentation is right.
        pytest.param(
            row_level(), "append", True, ["2:43"], id="row-level, after a no-data batch: 2:43 is lost"
        ),
        # A window is compared by its end, 2:45, which 2:44 has not reached.
        pytest.param(tumbling("5 minutes"), "update", True, [], id="window of 5 minutes: nothing is lost"),
        pytest.param(tumbling("2 minutes"), "update", True, ["2:43"], id="window of 2 minutes: 2:43 is lost"),
    ],
)
def test_the_engine_judges_a_batch_by_the_watermark_of_the_batch_before_it_and_the_ledger_agrees(
    spark: SparkSession, tmp_path: Path, operator: Operator, mode: str, idle_between: bool, lost: list[str]
) -> None:
    """The one-batch lag is what every estimate from ``max - delay`` gets wrong."""
    job = Job(spark, tmp_path, operator, mode, granule="1 ms" if operator == row_level() else None)
    job.run("5 minutes", [[BATCH_A], [BATCH_B]] if idle_between else [[BATCH_A, BATCH_B]])

    assert lost == _lost(job)
    assert len(lost) == _late(job)
    assert [0, _at("2:44") // 1_000, _at("2:48") // 1_000] == sorted(
        {r.watermark_ms for r in job.recorded.reports}
    )
