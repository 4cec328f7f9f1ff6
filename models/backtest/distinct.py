"""Distinct rows of integer columns, with how often each occurs: faster than ``numpy.unique`` over structured rows."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from tidemark.models.operators import Int64s


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
    held = np.zeros(cells, bool)
    held[place] = True
    return np.flatnonzero(held) * step + lowest, (np.cumsum(held) - 1)[place]


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
    found = []
    for low, size in zip(lowest[:0:-1], sizes[:0:-1], strict=True):
        distinct_code, column = np.divmod(distinct_code, size)
        found.append(column + low)
    return [distinct_code + lowest[0], *found[::-1]], count


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
