"""A left semi join behind a control stream: each row is kept once, as without one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from support.join_state import predicted_state_rows
from support.live_comparisons import fates_of
from support.live_operators import AFTER_US, BEFORE_US, COPY, JOINED, NEAR, match
from support.live_streams import SECOND_US, LiveJob, run_side_by_side, trailing_batches

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def semi_join(inputs: Sequence[DataFrame]) -> DataFrame:
    """Return the left rows with a partner."""
    left, right = (
        frame.selectExpr(f"id as {side}_id", f"id % 4 as {side}_key", f"ts as {side}_ts")
        for frame, side in zip(inputs, ("left", "right"), strict=True)
    )
    ids = F.array("left_id").alias("ids")
    return left.join(right, F.expr(NEAR), "leftSemi").select(F.lit(None).cast("long").alias("key_us"), ids)


def test_a_left_semi_join_keeps_no_row_twice_because_of_the_control_stream(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Spark may push such a join through a union, and then keeps the whole right side for each part of it."""
    streams = [
        trailing_batches("semi, left", 4, stray_us=75 * SECOND_US),
        trailing_batches("semi, right", 4, partitions=4, first_id=COPY),
    ]
    without = [replace(entry, ceiling=None) for entry in JOINED]
    plain = LiveJob(spark, tmp_path / "plain", without, semi_join, mode="Off", stage=tmp_path)
    silent = LiveJob(spark, tmp_path / "silent", JOINED, semi_join, mode="Off", stage=tmp_path)
    live = LiveJob(spark, tmp_path / "live", JOINED, semi_join, stage=tmp_path)
    run_side_by_side([plain, silent, live], [streams])

    held = {
        name: {report.batch_id: report.state_rows for report in job.recorded["left"].reports}
        for name, job in (("plain", plain), ("silent", silent), ("live", live))
    }
    assert held["silent"] == held["plain"]
    assert silent.output == plain.output

    left, right = (fates_of(live, index, batches) for index, batches in enumerate(streams))
    sides = [(left, AFTER_US // 1_000 + 1), (right, BEFORE_US // 1_000 + 1)]
    for number, logged in enumerate(live.log()):
        read = [
            ([fate.row.event_time_us for fate in fates if fate.batch <= number and not fate.late], retention)
            for fates, retention in sides
        ]
        assert 0 < held["live"][number] <= predicted_state_rows(read, logged.watermark_ms), number
    came = sorted(ids for entries in live.output.values() for _, ids in entries)
    admitted = [fate.row for fate in right if not fate.late]
    assert came == sorted(
        (fate.row.id,)
        for fate in left
        if not fate.late and any(match(fate.row, partner) for partner in admitted)
    )
