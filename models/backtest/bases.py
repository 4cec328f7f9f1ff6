"""Bases: the maximum event time of a stream, over all partitions or as the minimum of its partitions."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tidemark.models.operators import Int64s
from tidemark.models.policies.policy import NO_BASE_US

_CELLS = 1 << 21
"""Steps x partitions held at a time: tens of megabytes."""


def running_max(values: Int64s) -> Int64s:
    """Return the maximum value so far, shape (n,)."""
    maximum: Int64s = np.maximum.accumulate(values) if len(values) else values
    return maximum


def shifted(values: Int64s, by: int) -> Int64s:
    """Return the values ``by`` steps later, with no base before the first; shape (n,)."""
    return np.concatenate([np.full(by, NO_BASE_US, np.int64), values])[: len(values)]


def min_seen(maxima_us: Int64s) -> int:
    """Return the minimum of the partitions' maxima that are known, shape (partitions,); ``NO_BASE_US`` when none is."""
    seen = maxima_us[maxima_us > NO_BASE_US]
    return int(seen.min()) if len(seen) else NO_BASE_US


def min_of_partitions(
    step: Int64s, partition: NDArray[np.integer], value_us: Int64s, steps: int, start_us: Int64s
) -> Int64s:
    """Return after each step the minimum, over the partitions seen so far, of the maximum value of each.

    It falls where a partition that trails is first seen.

    Args:
        step: index of the step of each value, ascending, shape (n,).
        partition: index of the partition of each, shape (n,).
        value_us: the values, shape (n,).
        steps: number of steps.
        start_us: maximum value of each partition before, ``NO_BASE_US`` where none was, shape (partitions,).
    """
    maximum = start_us
    minimum = np.empty(steps, np.int64)
    height = max(_CELLS // len(start_us), 1)
    for first in range(0, steps, height):
        last = min(first + height, steps)
        low, high = np.searchsorted(step, [first, last])
        table = np.full((last - first, len(start_us)), NO_BASE_US, np.int64)
        np.maximum.at(table, (step[low:high] - first, partition[low:high]), value_us[low:high])
        np.maximum(table[0], maximum, out=table[0])
        np.maximum.accumulate(table, axis=0, out=table)
        maximum = table[-1].copy()
        table[table == NO_BASE_US] = -NO_BASE_US
        table.min(axis=1, out=minimum[first:last])
    minimum[minimum == -NO_BASE_US] = NO_BASE_US
    return minimum
