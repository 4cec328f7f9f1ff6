"""What becomes of late rows, and its price: a windowed count without ``late=``, with ``side``, and with ``revise``.

They take turns in one run. With ``side`` each batch is read twice, and three times where lost rows are counted by a
dimension, so what counts is the CPU time of the driver until the last late row is kept; the time of a batch shows what
the query itself feels of the reading beside it. With ``revise`` windows stay open for long enough to count every row.
"""

from __future__ import annotations

import statistics
import time
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

import pytest
from pyspark.sql import functions as F

from tidemark.spark_jobs import adaptive_watermark, flush, revise, side, tumbling

from support.patience import PATIENCE_S
from support.process_usage import driver_busy_seconds
from support.spark_streams import EPOCH_US, RecordingSink

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tidemark.spark_jobs.late.revise import Revise
    from tidemark.spark_jobs.late.side import Side

pytestmark = [pytest.mark.bench, pytest.mark.spark, pytest.mark.timeout(1800)]

Variant = Literal["no late=", "side", "dimension", "revise"]
ROWS = 400_000
"""Rows of one batch."""
LATE_PERCENT = (0, 1, 10)
"""How many of a batch's rows are ten minutes late."""
BATCHES, WARM = 8, 3
"""Batches of a run, and how many of them start what a query starts once."""
ROUNDS = 5
SECONDS = 20
"""Event time of one batch."""


def _data(spark: SparkSession, folder: Path, late_percent: int) -> str:
    """Write the input once: one file a batch."""
    late = f"if(id % 100 < {late_percent}, 600, 0)"
    seconds = f"(id * {SECONDS} / {ROWS} - 3 * rand(7) - {late}) + {EPOCH_US // 1_000_000}"
    rows = spark.range(0, BATCHES * ROWS, 1, BATCHES).selectExpr(
        "cast(id % 1000 as int) as key",
        f"timestamp_micros(cast(({seconds}) * 1000000 as bigint)) as ts",
        "id as value",
    )
    target = str(folder / f"in-{late_percent}")
    rows.write.parquet(target)
    return target


def _parse(raw: DataFrame) -> DataFrame:
    return raw.filter("value >= 0")


def _collect(df: DataFrame, _: int) -> None:
    df.collect()


def _run(spark: SparkSession, source: str, folder: Path, variant: Variant) -> tuple[float, float]:
    """Run the query once over everything; return the mean time of its later batches, in ms, and CPU seconds."""
    raw = spark.readStream.schema("key int, ts timestamp, value long").option("maxFilesPerTrigger", 1)
    revised = revise("key", grace="15 minutes") if variant == "revise" else None
    late: Revise | Side | None = revised
    if variant in {"side", "dimension"}:
        late = side(str(folder / "late"), parse=_parse, dimension="key" if variant == "dimension" else None)
    before = driver_busy_seconds(spark)
    query = (
        raw.parquet(source)
        .transform(_parse)
        .transform(
            adaptive_watermark(
                "ts", "5 seconds", tumbling("1 minute"), partition=None, sink=RecordingSink(), late=late
            )
        )
        .groupBy(F.window("ts", "1 minute"), "key")
        .agg(F.count("*").alias("rows"), F.sum("value").alias("total"))
        .writeStream.outputMode("append" if revised is None else "update")
        .foreachBatch(_collect if revised is None else revised.into(_collect))
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    assert flush(PATIENCE_S)
    spent = driver_busy_seconds(spark) - before
    full = [progress for progress in query.recentProgress if progress.numInputRows]
    assert len(full) == BATCHES
    return statistics.mean(progress.durationMs["triggerExecution"] for progress in full[WARM:]), spent


def test_what_becomes_of_late_rows_has_its_price(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Printed as ratios of medians; nothing is asserted on time."""
    began = time.monotonic()
    lines = []
    for late_percent in LATE_PERCENT:
        source = _data(spark, tmp_path, late_percent)
        taken: dict[Variant, list[tuple[float, float]]] = {variant: [] for variant in get_args(Variant)}
        for number in range(ROUNDS + 1):
            for variant, runs in taken.items():
                found = _run(spark, source, tmp_path / f"{late_percent}-{number}-{variant}", variant)
                if number:  # the first round warms up
                    runs.append(found)
        medians = {
            variant: [statistics.median(each) for each in zip(*runs, strict=True)]
            for variant, runs in taken.items()
        }
        plain_ms, plain_s = medians["no late="]
        lines += [
            f"  {late_percent:2} % late  {variant:9} batch {batch_ms:5.0f} ms x {batch_ms / plain_ms:.2f}   "
            f"CPU {cpu_s:5.2f} s x {cpu_s / plain_s:.2f}"
            for variant, (batch_ms, cpu_s) in medians.items()
        ]
    with capsys.disabled():
        print(
            f"\n{BATCHES} batches of {ROWS:,} rows without late= and with it, {ROUNDS} rounds side by side "
            f"({time.monotonic() - began:.0f} s)"
        )
        print("\n".join(lines))
