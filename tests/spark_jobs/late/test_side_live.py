"""In Live: the offset log has a line of the control stream, and future-dated rows are set back before being judged."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tidemark.models.operators import tumbling
from tidemark.spark_jobs import side

from support.late_streams import CLOSING_ID, late_by_batch, late_in_ledger, side_rows
from support.live_operators import windows
from support.live_streams import Input, LiveJob, closing_batch, trailing_batches
from support.spark_streams import Row

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def test_in_live_main_and_side_add_up_over_a_crash_and_a_start_in_another_mode(
    spark: SparkSession, tmp_path: Path
) -> None:
    late = tmp_path / "late"
    entry = Input(name="in", operator=tumbling("5 seconds"), bound="1 second", ceiling="30 seconds")
    job = LiveJob(spark, tmp_path, [entry], windows("5 seconds"), late=side(str(late), parse=lambda raw: raw))
    batches = trailing_batches("late live", 12)
    ahead = [Row(CLOSING_ID + 9, 0, time.time_ns() // 1_000 + 10 * 86_400_000_000)]
    job.run([[batches[:2]], [batches[2:4]], [batches[4:9]]], crash_from=2)
    job.mode = "Off"
    job.run([[batches[9:]]])
    job.mode = "Live"
    job.run([[[closing_batch()]], [[ahead]], [[ahead]]])
    lost = [row["id"] for row in side_rows(spark, late).select("id").collect()]
    kept = [identity for rows in job.output.values() for _, ids in rows for identity in ids]

    assert job.replayed
    assert len(lost) >= 10
    truth = Counter(row.id for rows in batches for row in rows)
    assert Counter(i for i in kept if i is not None and i < CLOSING_ID) + Counter(lost) == truth
    assert late_by_batch(spark, late) == late_in_ledger(job.recorded["in"].reports)
    assert len(list((late / "_future_rows").glob("[0-9]*"))) == 3, "each start says how it treats them"
