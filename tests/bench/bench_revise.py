"""What versions of windows cost: a windowed count with late=revise and without, round by round in one run.

Without it the query is in append mode under the bound, and in update mode under bound + grace, which is the plan that
versions need. The sink of all three collects what comes out.
"""

from __future__ import annotations

import statistics
import time
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

import pytest
from pyspark.sql import functions as F

from tidemark.spark_jobs import adaptive_watermark, flush, revise, tumbling

from support.spark_streams import EPOCH_US, RecordingSink

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.bench, pytest.mark.spark, pytest.mark.timeout(1800)]

Variant = Literal["append, no late=", "update, no late=", "late=revise"]
ROWS = 200_000
"""Rows of one batch."""
KEYS = (10, 10_000, 100_000)
"""Keys in a batch, and so the windows that change in it, or twice as many where a minute ends."""
BATCHES, WARM = 8, 3
"""Batches of a run, and how many of them start what a query starts once."""
ROUNDS = 5
SECONDS = 20
"""Event time of one batch."""


def _data(spark: SparkSession, folder: Path, keys: int) -> str:
    """Write the input once: one file a batch, delays of seconds."""
    seconds = f"(id * {SECONDS} / {ROWS} - 6 * rand(7)) + {EPOCH_US // 1_000_000}"
    rows = spark.range(0, BATCHES * ROWS, 1, BATCHES).selectExpr(
        f"cast(id % {keys} as int) as key",
        f"timestamp_micros(cast(({seconds}) * 1000000 as bigint)) as ts",
        "id as value",
    )
    target = str(folder / f"in-{keys}")
    rows.write.parquet(target)
    return target


def _collect(df: DataFrame, _: int) -> None:
    df.collect()


def _batch_ms(events: DataFrame, variant: Variant, checkpoint: Path) -> float:
    """Run the query once over everything; return the mean time of its later data batches."""
    revised = revise("key", grace="2 minutes") if variant == "late=revise" else None
    bound = "120 seconds" if variant == "update, no late=" else "5 seconds"
    query = (
        events.transform(
            adaptive_watermark(
                "ts", bound, tumbling("1 minute"), partition=None, sink=RecordingSink(), late=revised
            )
        )
        .groupBy(F.window("ts", "1 minute"), "key")
        .agg(F.count("*").alias("rows"), F.sum("value").alias("total"))
        .writeStream.outputMode("append" if variant == "append, no late=" else "update")
        .foreachBatch(_collect if revised is None else revised.into(_collect))
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    assert flush()
    full = [progress for progress in query.recentProgress if progress.numInputRows]
    assert len(full) == BATCHES
    return statistics.mean(progress.durationMs["triggerExecution"] for progress in full[WARM:])


def test_versions_cost_little_beside_the_aggregate(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Printed as ratios of medians; nothing is asserted on time."""
    began = time.monotonic()
    variants: tuple[Variant, ...] = get_args(Variant)
    lines = []
    for keys in KEYS:
        source = _data(spark, tmp_path, keys)
        taken: dict[Variant, list[float]] = {variant: [] for variant in variants}
        for number in range(ROUNDS + 1):
            for variant in variants:
                stream = spark.readStream.schema("key int, ts timestamp, value long")
                events = stream.option("maxFilesPerTrigger", 1).parquet(source)
                checkpoint = tmp_path / f"{keys}-{variants.index(variant)}-{number}"
                elapsed = _batch_ms(events, variant, checkpoint)
                if number:  # the first round warms up
                    taken[variant].append(elapsed)
        plain = statistics.median(taken[variants[0]])
        for variant in variants:
            median = statistics.median(taken[variant])
            lines.append(
                f"  {keys:7,} keys  {variant:17} {median:7.0f} ms "
                f"({min(taken[variant]):.0f} to {max(taken[variant]):.0f})  x {median / plain:.2f}"
            )
    with capsys.disabled():
        print(
            f"\na batch of {ROWS:,} rows with versions and without, {ROUNDS} rounds side by side "
            f"({time.monotonic() - began:.0f} s)"
        )
        print("\n".join(lines))
