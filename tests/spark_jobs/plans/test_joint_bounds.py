"""Bounds chosen together from what a join reported: Spark admits what they were chosen for."""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tidemark.models.base.operators import row_level
from tidemark.models.evidence.joint_needs import JointNeeds
from tidemark.models.evidence.ledger import judge
from tidemark.models.recommend.joint_bounds import choose_joint_bounds

from support.live_operators import COPY, join
from support.live_streams import SECOND_US, Batches, Input, LiveJob
from support.spark_streams import EPOCH_US, Row

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.long]

FILES, ROWS = 16, 30
SIDES = ("left", "right")


def batches_of(first_id: int, *, trailing_s: float, stray_s: float) -> Batches:
    """Return a stream that trails in half of its batches, and one row in eight of which strays."""
    draw = random.Random(first_id)

    def row(number: int, identity: int) -> Row:
        late_s = draw.expovariate(1) + (trailing_s if number >= FILES // 2 else 0)
        late_s += draw.uniform(0, stray_s) if draw.random() < 1 / 8 else 0
        return Row(identity, 0, EPOCH_US + int((1_000 + 5 * number - late_s) * SECOND_US))

    return [[row(number, first_id + number * ROWS + n) for n in range(ROWS)] for number in range(FILES)]


def test_a_join_under_the_chosen_bounds_drops_the_rows_that_were_predicted(
    spark: SparkSession, tmp_path: Path
) -> None:
    """What one run reports predicts the next one over the same files, in the same batches."""
    streams = [batches_of(0, trailing_s=25, stray_s=10), batches_of(COPY, trailing_s=0, stray_s=60)]

    def ran_with(name: str, *bounds: str) -> LiveJob:
        inputs = [
            Input(name=side, operator=row_level(), bound=bound, ceiling=None, granule="1 ms")
            for side, bound in zip(SIDES, bounds, strict=True)
        ]
        job = LiveJob(spark, tmp_path / name, inputs, join("inner"), mode="Off")
        job.run([streams])
        return job

    observed = ran_with("observed", "10 minutes", "10 minutes")
    batches = zip(*(observed.recorded[side].reports for side in SIDES), strict=True)
    needs = JointNeeds.merged(
        JointNeeds.of_batch(reports, [report.late_base_ms for report in reports]) for reports in batches
    )
    chosen = choose_joint_bounds(needs, 800_000, 600_000)
    assert chosen is not None
    judged = ran_with("judged", *(f"{bound_ms} ms" for bound_ms in chosen.bounds_ms))
    tallies = [[judge(report).total for report in judged.recorded[side].reports] for side in SIDES]
    late = [sum(tally.late_min for tally in each) for each in tallies]

    assert late == (needs.rows_by_side - needs.admitted(chosen.bounds_ms)).tolist()
    assert late == [sum(tally.late_max for tally in each) for each in tallies], "the ledger is exact"
    assert all(late), "each side loses some, and together at most the error budget"
    assert sum(some / rows for some, rows in zip(late, needs.rows_by_side.tolist(), strict=True)) <= 0.2
    assert min(chosen.bounds_ms) < max(chosen.bounds_ms)
