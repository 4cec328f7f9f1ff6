"""A job for ``spark-submit``, ``early_results_job.py FOLDER FORMAT [CONTROLLER]``: early results, written to a table.

It prints how many rows went in, how many windows each answer had, and how many milliseconds the function of each batch
took.
"""

from __future__ import annotations

import json
import random
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidemark.spark_jobs import adaptive_watermark, commit_properties, flush, with_completeness
from tidemark.spark_jobs.core import early_results
from tidemark.spark_jobs.core.client import ControllerClient

from support.patience import PATIENCE_S, until
from support.spark_streams import EPOCH_US, SCHEMA, Row, write_batch

__all__ = ["BATCHES", "SECOND"]

SECOND = 1_000_000
BATCHES = 22
"""Two windows of 5 s for each."""
_START_US = EPOCH_US + 3_600 * SECOND


def _batches() -> list[list[Row]]:
    """Return batches of some 120 rows in 10 s, each row up to half a minute late."""
    rng = random.Random(5)
    return [
        [
            Row(
                batch * 1_000 + n,
                n % 4,
                _START_US + int((batch * 10 + rng.uniform(0, 10) - min(rng.expovariate(1 / 3), 30)) * SECOND),
            )
            for n in range(rng.randint(100, 140))
        ]
        for batch in range(BATCHES)
    ]


def _count_answers() -> list[int]:
    """Let every report be followed by a question, and return how many windows each answer had."""
    early_results._REST = 0
    asked, answers = ControllerClient.windows, list[int]()

    def windows(client: ControllerClient, job: str, stream: str, from_us: int) -> Any:
        answer = asked(client, job, stream, from_us)
        answers.append(len(answer))
        return answer

    ControllerClient.windows = windows  # type: ignore[assignment,method-assign]
    return answers


def _into(table: str, kind: str, took_ms: list[float]) -> Callable[[DataFrame, int], None]:
    def write(df: DataFrame, batch: int) -> None:
        began = time.monotonic()
        early = with_completeness(df).persist()
        rows = early.withColumn("batch", F.lit(batch))
        rows.write.format(kind).mode("append").options(**commit_properties(early)).save(table)
        early.unpersist()
        took_ms.append((time.monotonic() - began) * 1_000)

    return write


def _wait_for(answers: list[int], seen: int) -> None:
    until(lambda: len(answers) > seen, "an answer about the windows")


def _main(folder: Path, kind: str, url: str | None) -> None:
    spark = SparkSession.builder.getOrCreate()
    table, took_ms, answers = str(folder / "table"), list[float](), _count_answers()
    if kind == "iceberg":
        table = "lake.shop.counts"
        columns = (
            "window struct<start: timestamp, end: timestamp>, partition int, count bigint, share double, "
        )
        columns += "share_low double, rows_expected bigint, settled boolean, batch int"
        spark.sql(f"create table {table} ({columns}) using iceberg")
    (folder / "in").mkdir()
    source = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json(str(folder / "in"))
    line = adaptive_watermark("ts", "40 seconds", stream="early", controller_url=url)
    counts = source.transform(line).groupBy(F.window("ts", "5 seconds"), "partition").count()
    writer = counts.writeStream.outputMode("update").foreachBatch(_into(table, kind, took_ms))
    query = writer.option("checkpointLocation", str(folder / "checkpoint")).start()
    rows = 0
    for number, batch in enumerate(_batches()):
        seen = len(answers)
        write_batch(folder / "in", number, batch)
        query.processAllAvailable()
        rows += len(batch)
        if url is not None:
            _wait_for(answers, seen)
    flush(PATIENCE_S)
    query.stop()
    sys.stdout.write(f"\n{json.dumps({'sink': rows, 'took_ms': took_ms, 'answers': answers})}\n")


if __name__ == "__main__":
    _main(Path(sys.argv[1]), sys.argv[2], sys.argv[3] if sys.argv[3:] else None)
