"""A report's (row, key) pairs, summed by partition and key: what judgements and needs are made from.

A row of a sliding window of a day that slides by a minute has 1,440 keys, and 64 partitions of 50 granules have 4.6
million (row, key) pairs, but only 64 x 1,490 different partitions and keys. Work and memory follow the latter: a
granule adds its rows at its first key and takes them away after its last one, and a running sum over the keys gives
the rows of each.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from tidemark.models.base.granules import granule_first_us, granule_last_us
from tidemark.models.base.operators import Int64s, TimeWindow
from tidemark.models.protocol.messages import Report

_MAX_TABLE = 250_000
"""Maximum number of elements of a table of partitions and keys that is in memory at once, unless it has one row."""


@dataclass(frozen=True, slots=True)
class _Counts:
    """What is counted of a report, partition after partition. Arrays are int64, shape (n,)."""

    partitions: tuple[str, ...]
    parts: Int64s
    """Position of each one's partition in ``partitions``."""
    counts: Int64s
    uncounted_rows: int
    """Rows of the report with an event time that are in no granule's count."""


@dataclass(frozen=True, slots=True)
class ReportCells(_Counts):
    """The counted granules of a report."""

    granules: Int64s


@dataclass(frozen=True, slots=True)
class KeyCounts(_Counts):
    """The (row, key) pairs of a report."""

    first_us: Int64s
    """Lowest key of its rows in microseconds; for windows their end."""
    last_us: Int64s
    """Highest key of its rows: another one only where rows of one granule have different keys (row-level, sessions)."""


def key_counts(report: Report, cells: ReportCells | None = None) -> KeyCounts:
    """Return the (row, key) pairs of ``report``; ``cells`` are its counts if the caller has them."""
    cells = cells_of(report) if cells is None else cells
    first_us = granule_first_us(cells.granules, report.granule_us, report.closed)
    last_us = granule_last_us(cells.granules, report.granule_us, report.closed)
    operator = report.operator
    if not isinstance(operator, TimeWindow):
        parts, counts = cells.parts, cells.counts
        first_us, last_us = operator.keys(first_us)[1], operator.keys(last_us)[1]
    else:
        first, last = window_numbers(operator, first_us)
        count_by = _by_table if operator.max_keys > 1 else _by_neighbours
        parts, numbers, counts = count_by(cells, first, last)
        first_us = last_us = operator.start_us + operator.size_us + numbers * operator.slide_us
    return KeyCounts(cells.partitions, parts, counts, cells.uncounted_rows, first_us, last_us)


def window_numbers(operator: TimeWindow, event_time_us: Int64s) -> tuple[Int64s, Int64s]:
    """Return the numbers of the first and the last window that each time is in, shape (n,).

    Window i ends at ``start + size + i * slide``. Where the size is no multiple of the slide, some times are in one
    window fewer than others.
    """
    since_us = event_time_us - operator.start_us
    return (since_us - operator.size_us) // operator.slide_us + 1, since_us // operator.slide_us


def table_size(operator: TimeWindow, cells: ReportCells, granule_us: int) -> tuple[int, int]:
    """Return how many windows a report's rows are in, and how many sums by partition and window that makes at most.

    It costs little, whatever the answer is. Times must be such that their sums fit in 64 bits.
    """
    low, high = _ranges(*window_numbers(operator, granule_first_us(cells.granules, granule_us, "left")))
    windows = sum((high - low + 1).tolist())
    return windows, windows * len(cells.partitions)


def _by_neighbours(cells: ReportCells, numbers: Int64s, _: Int64s) -> tuple[Int64s, Int64s, Int64s]:
    """Return ``(part, number, count)`` of tumbling windows: granules ascend, so that those of one are neighbours."""
    if not len(numbers):
        return cells.parts, numbers, cells.counts
    starts = run_starts(cells.parts, numbers)
    return cells.parts[starts], numbers[starts], np.add.reduceat(cells.counts, starts)


def _by_table(cells: ReportCells, first: Int64s, last: Int64s) -> tuple[Int64s, Int64s, Int64s]:
    """Return ``(part, number, count)`` of sliding windows; a granule's rows are in those from ``first`` to ``last``."""
    numbers = _all_in(*_ranges(first, last))
    # The column after a range is the next number's, or the next range's: nothing is added up across a gap, since all
    # that began before it has ended.
    begins, ends = np.searchsorted(numbers, first), np.searchsorted(numbers, last, side="right")
    width = len(numbers) + 1
    rows = max(_MAX_TABLE // width, 1)
    edges = np.searchsorted(cells.parts, np.arange(0, len(cells.partitions) + rows, rows)).tolist()
    tables = [(cells.parts[:0], numbers[:0], cells.counts[:0])]
    for low, high in pairwise(edges):
        if low == high:
            continue
        part = cells.parts[low] // rows * rows
        row, counts = cells.parts[low:high] - part, cells.counts[low:high]
        table = np.zeros((rows, width), np.int64)
        np.add.at(table, (row, begins[low:high]), counts)
        np.subtract.at(table, (row, ends[low:high]), counts)
        sums = np.cumsum(table, axis=1)
        row, column = np.nonzero(sums)
        tables.append((row + part, numbers[column], sums[row, column]))
    parts, keys, counts = (np.concatenate(columns) for columns in zip(*tables, strict=True))
    return parts, keys, counts


def _ranges(first: Int64s, last: Int64s) -> tuple[Int64s, Int64s]:
    """Return the first and last numbers of the gapless ranges that these ranges make together, ascending."""
    if not len(first):
        return first, last
    order = np.argsort(first, kind="stable")
    low, high = first[order], np.maximum.accumulate(last[order])
    begins = np.flatnonzero(low[1:] > high[:-1] + 1)
    return low[np.append(0, begins + 1)], high[np.append(begins, len(high) - 1)]


def _all_in(low: Int64s, high: Int64s) -> Int64s:
    """Return all numbers of ascending ranges."""
    sizes = high - low + 1
    before = np.cumsum(sizes) - sizes
    numbers: Int64s = np.repeat(low - before, sizes) + np.arange(sizes.sum(), dtype=np.int64)
    return numbers


def cells_of(report: Report) -> ReportCells:
    """Return the counts of ``report``."""
    granules = report.counts
    sizes = np.array(granules.sizes, np.int64)
    steps = np.array(granules.granules, np.int64)
    counts = np.array(granules.rows, np.int64)
    # Sums may wrap around; their differences are right again.
    sums = np.cumsum(steps)
    starts = (np.cumsum(sizes) - sizes)[sizes > 0]
    before = np.repeat(sums[starts] - steps[starts], sizes[sizes > 0])
    return ReportCells(
        granules.partitions,
        np.repeat(np.arange(len(sizes), dtype=np.int64), sizes),
        counts,
        report.rows - report.null_rows - int(counts.sum()),
        sums - before,
    )


def run_starts(*columns: Int64s) -> Int64s:
    """Return where the runs of equal neighbours begin, ascending; ``columns`` have the same shape (n,)."""
    size = len(columns[0])
    begins = np.zeros(size, bool)
    begins[:1] = True
    for column in columns:
        begins[1:] |= column[1:] != column[:-1]
    return begins.nonzero()[0]  # takes a third of flatnonzero, and is called many times a report


def sum_runs(keys: Int64s, counts: Int64s) -> tuple[Int64s, Int64s]:
    """Return the distinct ``keys``, shape (n,), ascending, and the sums of ``counts``, whose last axis they are of."""
    if not len(keys):
        return keys, counts
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    starts = run_starts(ordered)
    return ordered[starts], np.add.reduceat(counts[..., order], starts, axis=-1)
