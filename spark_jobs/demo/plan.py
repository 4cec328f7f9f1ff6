"""The plan of a demonstration: which rows go into which batch, and where the bound changes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tidemark.models.base.operators import Int64s
from tidemark.spark_jobs.demo.generator import GeneratedRows
from tidemark.spark_jobs.trace_source import TRACE_COLUMNS, read_arrivals

MAX_BATCHES = 150
"""A demonstration has at most this many batches."""
DEFAULT_BATCHES = 120
"""So many end well within two minutes on two cores."""

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
    """The trace on disk."""
    arrivals: GeneratedRows
    """Its rows, in order of arrival."""
    slot_us: int
    """Width of a slot in microseconds."""
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
    if not read_arrivals(str(path)):
        raise ValueError(f"{path} has no rows")
    table = pq.read_table(path, columns=list(TRACE_COLUMNS))
    return GeneratedRows(
        table["event_time_us"].cast(pa.int64()).to_numpy(),
        table["arrival_time_us"].cast(pa.int64()).to_numpy(),
        table["partition"].cast(pa.string()).to_numpy(zero_copy_only=False).astype(np.str_),
    )


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
