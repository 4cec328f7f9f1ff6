"""Where the demonstration's job gets its rows from, and how far it has read."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Protocol

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from tidemark.spark_jobs.demo.generator import GeneratedRows
from tidemark.spark_jobs.demo.plan import Plan


class Feed(Protocol):
    """The way from the trace to the job."""

    @property
    def interval(self) -> str:
        """The job's processing-time trigger."""
        ...

    def events(self, spark: SparkSession, until_rows: int) -> DataFrame:
        """Return the stream of ``event_time`` and ``partition``, which ends at row ``until_rows`` of the trace."""
        ...

    def send(self, until_rows: int) -> None:
        """Bring the rows up to ``until_rows`` to where the job reads them; return when they are there, or stopped."""
        ...

    def stop(self) -> None:
        """End ``send`` early."""
        ...

    def rows_read(self, end_offset: str) -> int:
        """Return how many rows of the trace had been read at an offset, as Spark's progress has it."""
        ...


class FileFeed:
    """Each slot of the trace becomes a file, and each file is one batch.

    Spark reads files without a Python process of its own. Planning a Python source starts one, and the query fails
    where that takes more than ten seconds, as on a busy machine (Spark 4.2.0, ``PythonWorkerFactory.scala``).

    Args:
        plan: the trace and its slots.
        folder: where the files go; it must not exist.
    """

    interval = "0 seconds"

    def __init__(self, plan: Plan, folder: Path) -> None:
        self._plan, self._folder = plan, folder
        folder.mkdir()
        self._ends = plan.batch_ends().tolist()
        self._written = 0

    def events(self, spark: SparkSession, until_rows: int) -> DataFrame:  # noqa: ARG002 - send() stops there
        """Return the stream of the files."""
        columns = "event_time timestamp, partition string"
        return spark.readStream.schema(columns).option("maxFilesPerTrigger", 1).parquet(str(self._folder))

    def send(self, until_rows: int) -> None:
        """Write the files of the batches up to ``until_rows``."""
        while self._written < len(self._ends) and self._ends[self._written] <= until_rows:
            first = self._ends[self._written - 1] if self._written else 0
            rows, last = self._plan.arrivals, self._ends[self._written]
            self.write(
                GeneratedRows(
                    rows.event_time_us[first:last],
                    rows.arrival_time_us[first:last],
                    rows.partition[first:last],
                )
            )

    def write(self, rows: GeneratedRows) -> None:
        """Write one file, the rows of a batch."""
        table = pa.table(
            {
                "event_time": pa.array(rows.event_time_us, pa.timestamp("us", tz="UTC")),
                "partition": pa.array(rows.partition, pa.string()),
            }
        )
        # Spark skips names that begin with a dot, and takes files in the order of their times of modification.
        hidden = self._folder / f".{self._written}"
        pq.write_table(table, hidden)
        os.utime(hidden, (self._written, self._written))
        hidden.rename(self._folder / f"{self._written:06}.parquet")
        self._written += 1

    def stop(self) -> None:
        """Do nothing: writing takes no time."""

    def rows_read(self, end_offset: str) -> int:
        """Return the rows of the files up to the offset, which counts batches from 0."""
        return int(self._ends[json.loads(end_offset)["logOffset"]])
