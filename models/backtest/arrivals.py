"""Arrivals: a recorded trace counted by slot, partition, granule, key and minute, for any number of replays.

Slot k holds the arrivals of ``[first + k * trigger, first + (k + 1) * trigger)`` and runs at its end. A batch consists
of whole slots, so counts by slot are exact for Spark. Memory grows with the distinct (slot, partition, granule,
minute), some 50 bytes for each of their windows, and not with the rows. There are as many row-level and session keys as
rows.

A granule is ``setup.granule_us`` of event time: the cohorts that policies observe. All rows of a granule have the
same windows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tidemark.models.base.operators import Int64s, TimeWindow
from tidemark.models.live.policy import NO_BASE_US, Setup

Int32s = NDArray[np.int32]

MINUTE_US = 60_000_000
"""Rows are also judged by the minute of their event time."""


@dataclass(frozen=True, slots=True)
class Maxima:
    """Maximum event time of each slot and partition, ascending by both; arrays of shape (maxima,)."""

    occupied: Int64s
    """Index in ``Arrivals.occupied``."""
    partition: Int32s
    event_time_us: Int64s


@dataclass(frozen=True, slots=True)
class Counts:
    """Counts of (row, key) pairs, ascending by slot, partition, granule and key; arrays of shape (counts,)."""

    slot: Int64s
    partition: NDArray[np.integer]
    """Index of the partition of each, in order of appearance."""
    event_us: Int64s
    """Start of the granule of each: its first whole microsecond."""
    key_us: Int64s
    """Key of each: what the watermark is compared with."""
    count: Int64s

    def joined(self, low: int, high: int) -> Counts:
        """Return the counts from ``low`` to before ``high`` as those of one batch: added up over its slots."""
        slot = self.slot[low:high]
        columns = (self.partition[low:high], self.event_us[low:high], self.key_us[low:high])
        if slot[0] == slot[-1]:
            return Counts(slot, *columns, self.count[low:high])
        (partition, event, key), count = sum_distinct(columns, self.count[low:high])
        return Counts(np.full(len(count), slot[-1]), partition, event, key, count)


@dataclass(frozen=True, slots=True)
class Arrivals(Counts):
    """A trace, counted, by minute too."""

    minute: Int64s
    """Minute of the event times behind each count: event time // 60 s, shape (counts,)."""
    key_index: Int32s
    """Index in ``keys_us`` of each count, shape (counts,)."""
    minute_index: Int32s
    """Index in ``minutes`` of each count, shape (counts,)."""
    keys_us: Int64s
    pairs_by_key: Int64s
    minutes: Int64s
    pairs_by_minute: Int64s
    occupied: Int64s
    """The slots with arrivals, ascending, shape (occupied,)."""
    occupied_rows: Int64s
    """Rows in each of them, shape (occupied,)."""
    maxima: Maxima
    """Greatest event time of each slot and partition."""
    first_us: int
    """The first arrival, where slot 0 begins."""
    last_us: int
    slots: int
    """Slots from the first arrival to the last, including those without arrivals."""
    partitions: int
    rows: int
    pairs: int
    scored_until_us: int
    """The 98th percentile of the event times (linear between two rows, rounded down): windows ending later are not
    scored. Exact up to 50 million rows, beyond that at most one trigger too late."""


def tap_counts(arrivals: Arrivals, setup: Setup) -> Counts:
    """Return what a tap would report: counts in which the minutes of a key are one.

    Keys of windows are exact. For row-level and session keys it is the lowest of each granule, so that no need is too
    small.
    """
    event = arrivals.event_us
    key = arrivals.key_us
    if not isinstance(setup.operator, TimeWindow):
        key = event + setup.operator.span_us
    changed = np.zeros(len(key), bool)
    changed[0] = True
    for column in (arrivals.slot, arrivals.partition, event, key):
        changed[1:] |= column[1:] != column[:-1]
    start = np.flatnonzero(changed)
    return Counts(
        arrivals.slot[start],
        arrivals.partition[start],
        event[start],
        key[start],
        np.add.reduceat(arrivals.count, start),
    )


def sums(index: NDArray[np.integer], count: Int64s, size: int) -> Int64s:
    """Return the sum of the counts of each index below ``size``, shape (size,)."""
    sums = np.zeros(size, np.int64)
    np.add.at(sums, index, count)
    return sums


def numbered(values: Int64s, step: int) -> tuple[Int64s, Int64s]:
    """Return the distinct values, ascending, and the index of each value in them; all are multiples of a step apart."""
    lowest = int(values.min())
    cells = (int(values.max()) - lowest) // step + 1
    if cells > 4 * len(values) + 1_000_000:
        distinct, index = np.unique(values, return_inverse=True)
        return distinct, index
    place = (values - lowest) // step
    there = np.zeros(cells, bool)
    there[place] = True
    return np.flatnonzero(there) * step + lowest, (np.cumsum(there) - 1)[place]


def count_distinct(*columns: Int64s) -> tuple[list[Int64s], Int64s]:
    """Return the distinct rows of the columns, ascending, and how often each occurs."""
    lowest = [int(column.min()) for column in columns]
    sizes = [int(column.max()) - low + 1 for column, low in zip(columns, lowest, strict=True)]
    if math.prod(sizes) >= 1 << 62:
        distinct, count = sum_distinct(columns, np.ones(len(columns[0]), np.int64))
        return list(distinct), count
    code = columns[0] - lowest[0]
    for column, low, size in zip(columns[1:], lowest[1:], sizes[1:], strict=True):
        code = code * size + (column - low)
    distinct_code, count = np.unique(code, return_counts=True)
    distinct_columns = []
    for low, size in zip(lowest[:0:-1], sizes[:0:-1], strict=True):
        distinct_code, column = np.divmod(distinct_code, size)
        distinct_columns.append(column + low)
    return [distinct_code + lowest[0], *distinct_columns[::-1]], count


def sum_distinct(
    columns: tuple[NDArray[np.integer], ...], count: Int64s
) -> tuple[tuple[Int64s, ...], Int64s]:
    """Return the distinct rows of the columns, ascending by the first column first, and the sum of their counts."""
    order = np.lexsort(columns[::-1])
    ordered = [column[order] for column in columns]
    changed = np.zeros(len(order), bool)
    changed[:1] = True
    for column in ordered:
        changed[1:] |= column[1:] != column[:-1]
    start = np.flatnonzero(changed)
    return tuple(column[start].astype(np.int64) for column in ordered), np.add.reduceat(count[order], start)


def running_max(values: Int64s) -> Int64s:
    """Return the maximum value so far, shape (n,)."""
    maximum: Int64s = np.maximum.accumulate(values) if len(values) else values
    return maximum


def shifted(values: Int64s, by: int) -> Int64s:
    """Return the values ``by`` steps later, with no base before the first; shape (n,)."""
    return np.concatenate([np.full(by, NO_BASE_US, np.int64), values])[: len(values)]
