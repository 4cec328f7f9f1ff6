"""A job for ``spark-submit`` in mode ``local-cluster``: an executor is killed in every fifth batch, while it has tasks.

``killed_executors.py FOLDER`` prints what became of the rows.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidemark.spark_jobs import adaptive_watermark, counts_of, flush, tumbling

BATCHES, ROWS, EVERY = 12, 120, 5


def _write(folder: Path) -> None:
    """Write a file a batch, of ten minutes each; some rows are late by up to half an hour. The last closes all."""
    folder.mkdir()
    for number in range(BATCHES + 1):
        minutes = (number * 10 + n % 10 - 30 * (n % 11 == 0 < number) for n in range(ROWS))
        seconds = [60 * minute for minute in minutes] if number < BATCHES else [10**6]
        path = folder / f"{number:02}.json"
        path.write_text(
            "".join(f'{{"s": {1_767_225_600 + second}}}\n' for second in seconds), encoding="utf-8"
        )
        os.utime(path, (1e9 + number, 1e9 + number))


def _executors(jvm: int) -> list[int]:
    """Return the processes of the executors: children of the JVM that has the workers."""
    tasks = Path(f"/proc/{jvm}/task").glob("*/children")
    children = [int(child) for task in tasks for child in task.read_text().split()]
    return [
        child
        for child in children
        if b"CoarseGrainedExecutorBackend" in Path(f"/proc/{child}/cmdline").read_bytes()
    ]


def _main(folder: Path) -> None:
    spark = SparkSession.builder.getOrCreate()
    jvm: Any = spark._jvm
    pid = jvm.java.lang.ProcessHandle.current().pid()
    _write(folder / "in")
    killed, out = list[int](), list[int]()

    def collect(df: DataFrame, batch: int) -> None:
        if batch % EVERY == EVERY - 1:
            victim = _executors(pid)[0]
            os.kill(victim, signal.SIGKILL)
            killed.append(victim)
        out.extend(row["count"] for row in df.collect())

    source = spark.readStream.schema("s long").option("maxFilesPerTrigger", 1).json(str(folder / "in"))
    rows = source.select(F.timestamp_seconds("s").alias("ts")).transform(
        adaptive_watermark("ts", "1 minute", operator=tumbling("1 minute"), stream="rows")
    )
    counted = rows.groupBy(F.window("ts", "1 minute")).count().select("count")
    writer = counted.writeStream.foreachBatch(collect)
    query = writer.option("checkpointLocation", str(folder / "checkpoint")).start()
    query.processAllAvailable()
    flush()
    counts = counts_of(query)["rows"]
    query.stop()
    result = {
        "sink": sum(out),
        "late": counts.rows_late,
        "unknown": counts.rows_unknown,
        "judged": counts.rows_judged,
        "rows": BATCHES * ROWS,
        "closing": 1,
        "kills": len(killed),
    }
    sys.stdout.write(f"\n{json.dumps(result)}\n")


if __name__ == "__main__":
    _main(Path(sys.argv[1]))
