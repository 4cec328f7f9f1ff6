"""A job each of whose batches has 96,000 distinct pairs of partition and second, and what its driver holds meanwhile.

    python -m support.wide_batches_job FOLDER BATCHES off|plain

prints a JSON object a line: the batch, the heap after a collection, the memory of Python, and the event log.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tidemark.models.protocol.messages import Acknowledgement, Report
from tidemark.spark_jobs import adaptive_watermark, tumbling
from tidemark.spark_jobs.spark.checkpoint import LOCAL_SPARK

from support.patience import until

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

PARTITIONS, SECONDS = 16, 6_000
SAMPLES = 10
"""How often it is measured."""


class _Nowhere:
    """Takes reports and keeps none."""

    dropped = 0

    def report(self, report: Report) -> None:
        """Take a report."""

    def acknowledge(self, job: str, stream: str, acknowledgement: Acknowledgement) -> None:
        """Take an acknowledgement."""


def _rows(spark: SparkSession) -> DataFrame:
    source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", PARTITIONS * SECONDS)
    second = f"timestamp_seconds(1700000000 + value div {PARTITIONS})"
    return source.load().select(
        F.expr(f"int(value % {PARTITIONS})").alias("partition"), F.expr(second).alias("ts")
    )


def _measured(spark: SparkSession, folder: Path, batch: int) -> dict[str, float]:
    jvm = spark._jvm
    assert jvm is not None
    jvm.java.lang.System.gc()
    used = jvm.java.lang.management.ManagementFactory.getMemoryMXBean().getHeapMemoryUsage().getUsed()
    resident = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * os.sysconf(
        "SC_PAGE_SIZE"
    )
    log = sum(file.stat().st_size for file in (folder / "log").rglob("*") if file.is_file())
    return {"batch": batch, "heap_mb": used / 1e6, "python_mb": resident / 1e6, "log_mb": log / 1e6}


def _main(folder: Path, batches: int, variant: str) -> None:
    (folder / "log").mkdir(parents=True)
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.sql.shuffle.partitions", "1").config("spark.driver.memory", "2g")
    builder = builder.config("spark.eventLog.enabled", "true").config(
        "spark.eventLog.dir", f"file://{folder}/log"
    )
    spark = builder.config("spark.driver.host", "127.0.0.1").config(map=LOCAL_SPARK).getOrCreate()
    rows = _rows(spark)
    if variant == "plain":
        rows = rows.withWatermark("ts", "10 seconds")
    else:
        rows = rows.transform(
            adaptive_watermark(
                "ts",
                "10 seconds",
                tumbling("1 minute"),
                partition="partition",
                granule="1 s",
                sink=_Nowhere(),
            )
        )
    query = (
        rows.groupBy(F.window("ts", "1 minute"))
        .count()
        .writeStream.format("noop")
        .outputMode("update")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .start()
    )

    def run() -> int:
        last = query.lastProgress
        return -1 if last is None else int(last.batchId)

    for sample in range(1, SAMPLES + 1):
        wanted = batches * sample // SAMPLES
        until(lambda wanted=wanted: run() >= wanted or not query.isActive, f"batch {wanted}")  # type: ignore[misc]
        print(json.dumps(_measured(spark, folder, run())), flush=True)
    progress = query.lastProgress
    print(json.dumps({"progress_kb": 0 if progress is None else len(progress.json) / 1e3}), flush=True)
    query.stop()
    spark.stop()


if __name__ == "__main__":
    _main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
