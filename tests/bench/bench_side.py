"""What keeping late rows costs: a windowed count with ``late=side`` and without, round by round in one run.

Each batch is read twice with it, so what counts is the CPU time of the JVM until the last late row is kept; the time of
a batch shows what the query itself feels of the reading beside it.
"""

from __future__ import annotations

import os
import statistics
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as F

from tidemark.spark_jobs import adaptive_watermark, flush, side, tumbling

from support.patience import PATIENCE_S
from support.spark_streams import EPOCH_US, RecordingSink

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.bench, pytest.mark.spark, pytest.mark.timeout(1800)]

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


def _cpu_seconds(pid: int) -> float:
    """Return the CPU time of a process, without that of its children."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _run(spark: SparkSession, source: str, folder: Path, *, keeps: bool) -> tuple[float, float]:
    """Run the query once over everything; return the mean time of its later batches, in ms, and CPU seconds."""
    jvm = spark.sparkContext._gateway.proc.pid  # type: ignore[union-attr]
    raw = spark.readStream.schema("key int, ts timestamp, value long").option("maxFilesPerTrigger", 1)
    late = side(str(folder / "late"), parse=_parse) if keeps else None
    before = _cpu_seconds(jvm)
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
        .writeStream.outputMode("append")
        .format("noop")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    assert flush(PATIENCE_S)
    spent = _cpu_seconds(jvm) - before
    full = [progress for progress in query.recentProgress if progress.numInputRows]
    assert len(full) == BATCHES
    return statistics.mean(progress.durationMs["triggerExecution"] for progress in full[WARM:]), spent


def test_late_rows_are_kept_beside_the_query(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Printed as ratios of medians; nothing is asserted on time."""
    began = time.monotonic()
    lines = []
    for late_percent in LATE_PERCENT:
        source = _data(spark, tmp_path, late_percent)
        taken: dict[bool, list[tuple[float, float]]] = {False: [], True: []}
        for number in range(ROUNDS + 1):
            for keeps, runs in taken.items():
                found = _run(spark, source, tmp_path / f"{late_percent}-{number}-{keeps}", keeps=keeps)
                if number:  # the first round warms up
                    runs.append(found)
        (batch_ms, cpu_s), (side_ms, side_cpu_s) = (
            [statistics.median(each) for each in zip(*runs, strict=True)] for runs in taken.values()
        )
        kept = (
            spark.read.parquet(str(tmp_path / f"{late_percent}-1-True" / "late")).count()
            if late_percent
            else 0
        )
        lines.append(
            f"  {late_percent:2} % late, {kept:7,} kept  batch {batch_ms:5.0f} -> {side_ms:5.0f} ms "
            f"x {side_ms / batch_ms:.2f}   CPU {cpu_s:5.2f} -> {side_cpu_s:5.2f} s x {side_cpu_s / cpu_s:.2f}"
        )
    with capsys.disabled():
        print(
            f"\n{BATCHES} batches of {ROWS:,} rows without late= and with side(...), {ROUNDS} rounds side by side "
            f"({time.monotonic() - began:.0f} s)"
        )
        print("\n".join(lines))
