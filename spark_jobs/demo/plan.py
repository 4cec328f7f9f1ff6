"""The plan of a demonstration, which rows go into which batch; and where its job gets them from."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from tidemark.models.base.operators import Int64s
from tidemark.spark_jobs.demo.generator import GeneratedRows

TRACE_COLUMNS = ("seq", "event_time_us", "arrival_time_us", "partition")
"""Columns that a trace must have: order of arrival, times in UTC microseconds, and the name of the partition."""

MAX_BATCHES = 150
"""A demonstration has at most this many batches."""

_NICE_US = [
    number * unit
    for unit, numbers in (
        (1_000, (10, 20, 50, 100, 200, 500)),
        (1_000_000, (1, 2, 5, 10, 15, 30)),
        (60_000_000, (1, 2, 5, 10, 15, 30)),
        (3_600_000_000, (1, 2, 3, 6, 12)),
        (86_400_000_000, (1, 2, 7, 14, 28)),
    )
    for number in numbers
]


@dataclass(frozen=True, slots=True)
class Plan:
    """A trace cut into slots of arrivals; each slot that has rows is one batch."""

    path: Path
    arrivals: GeneratedRows
    """Its rows, in order of arrival."""
    slot_us: int
    switch_rows: int
    """Rows before the bound changes: half of the batches."""
    batches: int
    """Slots that have rows."""

    @property
    def rows(self) -> int:
        """Rows of the trace."""
        return len(self.arrivals.event_time_us)

    def batch_ends(self) -> Int64s:
        """Return the number of rows up to the end of each batch, shape (``batches``,)."""
        arrivals = self.arrivals.arrival_time_us
        slots = (arrivals - arrivals[0]) // self.slot_us
        return np.append(np.flatnonzero(np.diff(slots)) + 1, len(slots))

    def wall_us(self, rows: int) -> int:
        """Return when, by the trace's clock, the batch runs whose last row is number ``rows``."""
        first = int(self.arrivals.arrival_time_us[0])
        slot = (int(self.arrivals.arrival_time_us[max(rows, 1) - 1]) - first) // self.slot_us
        return first + (slot + 1) * self.slot_us


def write_trace(path: Path, arrivals: GeneratedRows) -> None:
    """Write rows as a trace, in row groups small enough that a batch reads little more than its own rows."""
    table = pa.table(
        {
            "seq": np.arange(len(arrivals.event_time_us), dtype=np.int64),
            "event_time_us": arrivals.event_time_us,
            "arrival_time_us": arrivals.arrival_time_us,
            "partition": pa.array(arrivals.partition, pa.string()),
        }
    )
    pq.write_table(table, path, row_group_size=8_192)


def read_trace(path: Path) -> GeneratedRows:
    """Return the rows of a trace.

    Raises:
        ValueError: when the file is no trace, or has no rows.
        OSError: when it cannot be read.
    """
    if not rows_of(path):
        raise ValueError(f"{path} has no rows")
    table = pq.read_table(path, columns=list(TRACE_COLUMNS))
    return GeneratedRows(
        table["event_time_us"].cast(pa.int64()).to_numpy(),
        table["arrival_time_us"].cast(pa.int64()).to_numpy(),
        table["partition"].cast(pa.string()).to_numpy(zero_copy_only=False).astype(np.str_),
    )


def rows_of(path: Path) -> int:
    """Return how many rows a trace has.

    Raises:
        ValueError: when a column is missing, or the rows are not in order of arrival.
    """
    names = pq.read_schema(path).names
    missing = [name for name in TRACE_COLUMNS if name not in names]
    if missing:
        raise ValueError(f"{path} is no trace: it lacks {', '.join(missing)}; it has {', '.join(names)}")
    table = pq.read_table(path, columns=["seq", "arrival_time_us"])
    for column in table.column_names:
        if (np.diff(table[column].to_numpy()) < 0).any():
            raise ValueError(f"{path}: {column} goes back; make the trace anew with `tidemark trace`")
    return int(table.num_rows)


def plan_of(
    path: Path, arrivals: GeneratedRows, slot_us: int | None = None, max_batches: int = MAX_BATCHES
) -> Plan:
    """Return the plan of a trace; without ``slot_us`` the finest slots that make at most ``max_batches`` batches."""
    width = slot_us or _finest_slot_us(arrivals.arrival_time_us, max_batches)
    used = slots_used(arrivals.arrival_time_us, width)
    half = used[len(used) // 2]
    slots = (arrivals.arrival_time_us - arrivals.arrival_time_us[0]) // width
    return Plan(path, arrivals, width, int(np.searchsorted(slots, half)) or len(slots), len(used))


def slots_used(arrival_us: Int64s, slot_us: int) -> Int64s:
    """Return the slots that have arrivals, ascending."""
    return np.unique((arrival_us - arrival_us[0]) // slot_us)


def nice_duration_us(min_us: int) -> int:
    """Return the shortest round duration that is at least ``min_us``."""
    days = 86_400_000_000
    return next((nice for nice in _NICE_US if nice >= min_us), -(-min_us // days) * days)


def _finest_slot_us(arrival_us: Int64s, max_batches: int) -> int:
    low, high = 0, int(arrival_us[-1] - arrival_us[0]) + 1
    while high - low > 1_000:
        middle = (low + high) // 2
        low, high = (low, middle) if len(slots_used(arrival_us, middle)) <= max_batches else (middle, high)
    return high


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
