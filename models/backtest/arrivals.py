"""Arrivals: a recorded trace counted by slot, partition, granule, key and minute, for any number of replays.

Slot k holds the arrivals of ``[first + k * trigger, first + (k + 1) * trigger)`` and runs at its end. A batch consists
of whole slots, so counts by slot are exact for Spark. Memory grows with the distinct (slot, partition, granule,
minute), some 50 bytes for each of their windows, and not with the rows. There are as many row-level and session keys as
rows. Per-row engines judge each row by the rows before it, so for them the rows themselves are kept too, 20 bytes each.

A granule is ``setup.granule_us`` of event time: the cohorts that policies observe. All rows of a granule have the
same windows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from tidemark.models.backtest.distinct import sum_distinct
from tidemark.models.operators import Int64s, Operator, SessionWindow, TimeWindow
from tidemark.models.policies.setup import Setup

Int32s = NDArray[np.int32]

MINUTE_US = 60_000_000
"""Rows are also judged by the minute of their event time."""


@dataclass(frozen=True, slots=True)
class ArrivalRows:
    """The rows themselves in order of arrival, arrays of shape (rows,); empty when the engine works in batches."""

    event_time_us: Int64s
    """Event times in UTC microseconds."""
    arrival_time_us: Int64s
    """Arrival times in UTC microseconds, non-decreasing."""
    partition: Int32s
    """Index of each row's partition."""


@dataclass(frozen=True, slots=True)
class Maxima:
    """Maximum event time of each slot and partition, ascending by both; arrays of shape (maxima,)."""

    occupied: Int64s
    """Index in ``Arrivals.occupied``."""
    partition: Int32s
    """Index of the partition."""
    event_time_us: Int64s
    """The maximum event time there, in microseconds."""


@dataclass(frozen=True, slots=True)
class Arrivals:
    """A trace, counted. Counts are of (row, key) pairs and ascend by slot, partition, granule, key and minute."""

    slot: Int64s
    """Slot of each count, shape (counts,)."""
    partition: Int32s
    """Index of the partition of each count, in order of appearance, shape (counts,)."""
    event_us: Int64s
    """Start of the granule of each count: its first whole microsecond, shape (counts,)."""
    key_us: Int64s
    """Key of each count: what the watermark is compared with, shape (counts,)."""
    minute: Int64s
    """Minute of the event times behind each count: event time // 60 s, shape (counts,)."""
    count: Int64s
    """Pairs behind each count, shape (counts,)."""
    key_index: Int32s
    """Index in ``keys_us`` of each count, shape (counts,)."""
    minute_index: Int32s
    """Index in ``minutes`` of each count, shape (counts,)."""
    keys_us: Int64s
    """The distinct keys, ascending, shape (keys,)."""
    pairs_by_key: Int64s
    """Pairs of each key, shape (keys,)."""
    minutes: Int64s
    """The distinct minutes, ascending, shape (minutes,)."""
    pairs_by_minute: Int64s
    """Pairs of each minute, shape (minutes,)."""
    occupied: Int64s
    """The slots with arrivals, ascending, shape (occupied,)."""
    occupied_rows: Int64s
    """Rows in each of them, shape (occupied,)."""
    maxima: Maxima
    """Greatest event time of each slot and partition."""
    each: ArrivalRows
    """The rows themselves, for per-row engines only."""
    first_us: int
    """The first arrival, where slot 0 begins."""
    last_us: int
    """The last arrival."""
    slots: int
    """Slots from the first arrival to the last, including those without arrivals."""
    partitions: int
    """Number of partitions."""
    rows: int
    """Number of rows."""
    pairs: int
    """Number of (row, key) pairs."""
    scored_until_us: int
    """The 98th percentile of the event times (linear between two rows, rounded down): windows ending later are not
    scored. Exact up to 50 million rows, beyond that at most one trigger too late."""


@dataclass(frozen=True, slots=True)
class ShownCounts:
    """Counts as a tap would report them, ascending by slot, partition, granule and key; arrays of shape (shown,)."""

    slot: Int64s
    """Slot of each count."""
    partition: Int64s
    """Index of the partition of each."""
    event_us: Int64s
    """Start of the granule of each: its first whole microsecond."""
    key_us: Int64s
    """Key of each."""
    count: Int64s
    """Pairs behind each."""

    def joined(self, low: int, high: int) -> Self:
        """Return the counts from ``low`` to before ``high`` as those of one batch: added up over its slots."""
        slot = self.slot[low:high]
        columns = (self.partition[low:high], self.event_us[low:high], self.key_us[low:high])
        if slot[0] == slot[-1]:
            return type(self)(slot, *columns, self.count[low:high])
        (partition, event, key), count = sum_distinct(columns, self.count[low:high])
        return type(self)(np.full(len(count), slot[-1]), partition, event, key, count)


def tap_counts(arrivals: Arrivals, setup: Setup) -> ShownCounts:
    """Return what a tap would report.

    Keys of windows are exact. For row-level and session keys it is the lowest of each granule, so that no need is too
    small.
    """
    event = arrivals.event_us
    key = arrivals.key_us
    if not isinstance(setup.operator, TimeWindow):
        key = event + gap_us(setup.operator)
    changed = np.zeros(len(key), bool)
    changed[0] = True
    for column in (arrivals.slot, arrivals.partition, event, key):
        changed[1:] |= column[1:] != column[:-1]
    start = np.flatnonzero(changed)
    return ShownCounts(
        arrivals.slot[start],
        arrivals.partition[start].astype(np.int64),
        event[start],
        key[start],
        np.add.reduceat(arrivals.count, start),
    )


def gap_us(operator: Operator) -> int:
    """Return the distance from an event time to its key, of operators without windows, in microseconds."""
    return operator.gap_us if isinstance(operator, SessionWindow) else 0
