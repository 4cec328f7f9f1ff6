"""A job for ``spark-submit``, ``jar_job.py FOLDER``: windows over a few files. It prints what became of their rows."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tidemark.spark_jobs import adaptive_watermark, counts_of, flush, tumbling
from tidemark.spark_jobs.core import counting


def _write(folder: Path) -> None:
    """Write two files of ten minutes each, one that is late in part, and a row that closes all windows."""
    folder.mkdir()
    minutes = [[number // 10 + first for number in range(100)] for first in (0, 10, 3)]
    for number, batch in enumerate([*minutes, [50]]):
        rows = [f'{{"ts": "2026-01-01 00:{minute:02}:00"}}\n' for minute in batch]
        path = folder / f"{number}.json"
        path.write_text("".join(rows), encoding="utf-8")
        os.utime(path, (1e9 + number, 1e9 + number))


def _main(folder: Path) -> None:
    spark = SparkSession.builder.getOrCreate()
    _write(folder / "in")
    source = spark.readStream.schema("ts timestamp").option("maxFilesPerTrigger", 1).json(str(folder / "in"))
    began = time.monotonic()
    rows = source.transform(
        adaptive_watermark("ts", "1 minute", operator=tumbling("1 minute"), stream="rows")
    )
    planned = time.monotonic()
    counted = rows.groupBy(F.window("ts", "1 minute")).count().select("count")
    writer = counted.writeStream.format("parquet").option("path", str(folder / "out"))
    query = writer.option("checkpointLocation", str(folder / "checkpoint")).start()
    started = time.monotonic()
    query.processAllAvailable()
    flush()
    late = counts_of(query)["rows"].rows_late
    query.stop()
    sink = spark.read.parquet(str(folder / "out")).agg(F.sum("count")).collect()[0][0]
    classes = next(iter(counting._classes.values()))
    result = {
        "sink": sink,
        "late": late,
        "classes": classes and classes.package,
        "plan_s": planned - began,
        "start_s": started - planned,
    }
    sys.stdout.write(f"\n{json.dumps(result)}\n")


if __name__ == "__main__":
    _main(Path(sys.argv[1]))
