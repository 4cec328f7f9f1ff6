"""What a job lost and what its side folder holds, as multisets that must add up to what came in."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidemark.models.base.operators import Operator, TimeWindow
from tidemark.models.evidence.ledger import judge
from tidemark.models.protocol.messages import Report

from support.spark_streams import Job, Row

Pair = tuple[int | None, int]
"""The key of a window (None for other operators) and a row's id."""

CLOSING_ID = 10**9
"""Rows from this id on only close what is open."""


def parse_rows(raw: DataFrame) -> DataFrame:
    """Return rows as a user's function makes them: columns selected, computed and filtered."""
    return raw.filter("id >= 0").select("id", "partition", "ts", (F.col("id") % 7).alias("kind"))


def side_rows(spark: SparkSession, folder: Path) -> DataFrame:
    """Return the late rows in a folder, read as a user would."""
    return spark.read.parquet(str(folder))


def side_pairs(spark: SparkSession, folder: Path, operator: Operator) -> Counter[Pair]:
    """Return what is in a side folder."""
    if not list(folder.glob("from_batch=*")):
        return Counter()
    rows = side_rows(spark, folder).select("id", F.unix_micros("late.key").alias("key")).collect()
    return Counter((row["key"] if isinstance(operator, TimeWindow) else None, row["id"]) for row in rows)


def main_pairs(output: Iterable[Sequence[tuple[int | None, tuple[int, ...]]]]) -> Counter[Pair]:
    """Return what the query's sink has, without the rows that only close windows."""
    return Counter(
        (key, identity) for rows in output for key, ids in rows for identity in ids if identity < CLOSING_ID
    )


def input_pairs(batches: Iterable[Iterable[Row]], operator: Operator) -> Counter[Pair]:
    """Return what came in, by the operator's own keys."""
    rows = [row for batch in batches for row in batch if row.id < CLOSING_ID]
    if not isinstance(operator, TimeWindow):
        return Counter((None, row.id) for row in rows)
    which, keys = operator.keys(np.array([row.event_time_us for row in rows], np.int64))
    return Counter((key, rows[index].id) for index, key in zip(which.tolist(), keys.tolist(), strict=True))


def late_by_batch(spark: SparkSession, folder: Path) -> dict[int, int]:
    """Return how many rows the folder has of each batch that were below the watermark."""
    late = side_rows(spark, folder).filter("late.reason = 'late'")
    counts = late.groupBy("late.batch_id").count().collect()
    return {row["batch_id"]: row["count"] for row in counts}


def late_in_ledger(reports: Iterable[Report]) -> dict[int, int]:
    """Return how many pairs of each reported batch were late; every one must be certain."""
    found = {}
    for report in reports:
        total = judge(report).total
        assert total.late_min == total.late_max
        if total.late_min:
            found[report.batch_id] = total.late_min
    return found


def write_without_time(job: Job, identity: int) -> None:
    """Add a row without an event time to the first batch, which is read first all the same."""
    path = job.folder / "in" / "00000.json"
    written = path.stat()
    with path.open("a") as file:
        file.write(f'{{"id": {identity}, "partition": 2, "ts": null}}\n')
    os.utime(path, (written.st_atime, written.st_mtime))


def uncommit_last(folder: Path) -> int:
    """Take away a job's last commit, as a driver leaves it that died after writing and before committing."""
    commits = folder / "checkpoint" / "commits"
    last = max(int(path.name) for path in commits.iterdir() if path.name.isdecimal())
    (commits / str(last)).unlink()
    (commits / f".{last}.crc").unlink(missing_ok=True)
    return last


def done(folder: Path) -> int:
    """Return the last batch that the folder has dealt with."""
    return max(int(path.name) for path in (folder / "_done").iterdir() if path.name.isdecimal())
