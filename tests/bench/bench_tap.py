"""What the tap costs: a windowed count with and without it, turn by turn in one run, on Parquet and on JSON."""

from __future__ import annotations

import statistics
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as F

from tidemark.spark_jobs import adaptive_watermark, flush, tumbling

from support.spark_streams import EPOCH_US, RecordingSink

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.bench, pytest.mark.spark, pytest.mark.timeout(1800)]

ROWS = {"parquet": 4_000_000, "json": 1_000_000}
TURNS = 7
SCHEMA = "partition int, name string, ts timestamp, value long, note string"
VARIANTS = ("plain withWatermark", "tap, numbered partitions", "tap, named partitions")


def _data(spark: SparkSession, folder: Path, form: str) -> str:
    """Write the input once: in order, 16 partitions, delays of seconds."""
    seconds = f"(id / 4000 - 6 * rand(7)) + {EPOCH_US // 1_000_000}"
    rows = spark.range(0, ROWS[form], 1, 4).selectExpr(
        "cast(id % 16 as int) as partition",
        "concat('device-', id % 16) as name",
        f"timestamp_micros(cast(({seconds}) * 1000000 as bigint)) as ts",
        "id as value",
        "concat('note ', id % 1000) as note",
    )
    target = str(folder / form)
    rows.write.format(form).save(target)
    return target


def _batch_ms(
    spark: SparkSession, folder: Path, form: str, source: str, variant: str, turn: int
) -> tuple[float, int]:
    """Run the query once over everything; return the time of its data batch and the rows the tap counted."""
    events = spark.readStream.schema(SCHEMA).format(form).load(source)
    sink = RecordingSink()
    if variant == VARIANTS[0]:
        events = events.withWatermark("ts", "10 seconds")
    else:
        partition = "partition" if variant == VARIANTS[1] else "name"
        events = events.transform(
            adaptive_watermark("ts", "10 seconds", tumbling("10 seconds"), partition=partition, sink=sink)
        )
    checkpoint = folder / f"{form}-{VARIANTS.index(variant)}-{turn}"
    query = (
        events.groupBy(F.window("ts", "10 seconds"))
        .agg(F.count("*"), F.sum("value"), F.max("note"))
        .writeStream.format("noop")
        .outputMode("update")
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    assert flush()
    first = next(progress for progress in query.recentProgress if progress.numInputRows)
    return float(first.durationMs["addBatch"]), sum(report.counted_rows for report in sink.reports)


def test_the_tap_costs_little_beside_reading_the_rows(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Printed as ratios of medians; nothing is asserted on time."""
    began = time.monotonic()
    lines = []
    for form, rows in ROWS.items():
        source = _data(spark, tmp_path, form)
        taken: dict[str, list[float]] = {variant: [] for variant in VARIANTS}
        for turn in range(TURNS + 1):
            for variant in VARIANTS:
                elapsed, counted = _batch_ms(spark, tmp_path, form, source, variant, turn)
                assert variant == VARIANTS[0] or counted == rows
                if turn:  # the first turn warms up
                    taken[variant].append(elapsed)
        plain = statistics.median(taken[VARIANTS[0]])
        for variant in VARIANTS:
            median = statistics.median(taken[variant])
            lines.append(
                f"  {form:8} {variant:26} {median:7.0f} ms ({min(taken[variant]):.0f} to {max(taken[variant]):.0f})"
                f"  x {median / plain:.2f}  {(median - plain) * 1_000_000 / rows:+6.0f} ns a row"
            )
    with capsys.disabled():
        print(
            f"\nthe tap, windowed counts on two cores, {TURNS} turns side by side ({time.monotonic() - began:.0f} s)"
        )
        print("\n".join(lines))
