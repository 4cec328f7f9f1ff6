"""In Live future-dated rows are set back before they are judged."""

from __future__ import annotations

import json
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tidemark.models.base.operators import row_level, tumbling
from tidemark.spark_jobs import side
from tidemark.spark_jobs.core.arguments import Treatment
from tidemark.spark_jobs.late.late_rows import DueBatch, FutureRowTreatment, LateRule, late_rows, with_batch
from tidemark.spark_jobs.live.future_rows import FutureRowRule

from support.late_streams import CLOSING_ID, late_by_batch, late_in_ledger, side_rows
from support.live_operators import windows
from support.live_streams import SECOND_US, Input, LiveJob, closing_batch, trailing_batches
from support.spark_streams import EPOCH_US, Row

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.mark.long
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
    assert len(list((late / "_future_rows").glob("[0-9]*"))) == job.runs, "each start says how it treats them"


@pytest.mark.parametrize(
    ("treatment", "expected"),
    [
        (None, {1: "late"}),
        ("clamp", {1: "late", 2: "late", 3: "late"}),
        ("aside", {1: "late", 2: "late", 3: "set aside"}),
    ],
)
def test_a_future_dated_row_is_judged_as_the_plan_of_its_batch_treats_it(
    spark: SparkSession, treatment: Treatment | None, expected: dict[int, str]
) -> None:
    """Row 2 is ahead of the batch's clock, row 3 of its own arrival too; the watermark is past that clock."""
    clock_us = EPOCH_US + 3_600 * SECOND_US
    batch = DueBatch(7, clock_us // 1_000 + 30_000, clock_us // 1_000, {"logOffset": 1}, {"logOffset": 2})
    times = {1: -10, 2: 300, 3: 900, 4: None}
    values = [
        f"({n}, {'null' if at is None else f'timestamp_micros({clock_us + at * SECOND_US})'}, "
        f"timestamp_micros({clock_us + 290 * SECOND_US}))"
        for n, at in times.items()
    ]
    rows = spark.sql(f"select * from values {', '.join(values)} as t(id, ts, arrived)")
    future = None
    if treatment is not None:
        rule = FutureRowRule("ts", 60 * SECOND_US, treatment, "arrived", None)
        future = FutureRowTreatment.from_json(
            json.loads(json.dumps(FutureRowTreatment(rule, SECOND_US, "right").to_json()))
        )
    found = late_rows(with_batch(rows, batch), [batch], LateRule("ts", row_level(), None, future)).collect()

    assert {row["id"]: row["late"]["reason"] for row in found} == expected
    assert all(row["late"]["batch_id"] == 7 for row in found)
    if treatment == "clamp":
        assert {row["id"]: row["late"]["by_us"] for row in found} == {
            1: 40 * SECOND_US,
            2: 30 * SECOND_US,
            3: 30 * SECOND_US,
        }
