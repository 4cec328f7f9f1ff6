"""What the keys of a batch stand for: partitions and granules, and which rows were future-dated.

In arrays, for speed: in Live the next batch waits for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from tidemark.models.base.granules import Granules
from tidemark.models.base.operators import Int64s
from tidemark.models.protocol.granule_counts import GranuleCounts
from tidemark.spark_jobs.time_numbers import AFTER, TimeNumbers

_NEVER = int(np.iinfo(np.int64).min)

Read = tuple[GranuleCounts, dict[str, int]]
"""The rows of each partition by granule, and the index of the newest granule of its rows that are not future-dated."""

NO_KEYS: Read = (GranuleCounts.of(()), {})
"""What no keys stand for."""


@dataclass(frozen=True, slots=True)
class KeyReading:
    """How keys are read.

    Args:
        times: how times are numbered.
        granules: the granules to return; their width is a multiple of that of ``times``.
        name_of: returns the name of a partition.
        future: the number of the first time that is ahead of the batch's clock, and that of the clock, to which rows
            from then on are set back; None where that is not checked.
    """

    times: TimeNumbers
    granules: Granules
    name_of: Callable[[int], str]
    future: tuple[int, int] | None = None

    def read(self, keys: Int64s, rows: Int64s) -> Read:
        """Return what keys stand for.

        Args:
            keys: the distinct keys: the number of a time, and above its bits that of a partition; all bits are turned
                where the rows are future-dated by their own arrival.
            rows: the rows of each.
        """
        marked = keys < 0
        plain = np.where(marked, ~keys, keys)
        number, end = plain & ((1 << self.times.bits) - 1), self.times.end
        names, partition = _named(plain >> self.times.bits, self.name_of)
        # Times before all that have a number are in no granule; nor are those after them, which can be set back.
        timed = number >= AFTER
        time = np.where(number == AFTER, end, number - end)
        if self.future is not None:
            first, clock = self.future
            ahead = timed & (time >= first)
            marked, time = marked | ahead, np.where(ahead, clock, time)
        future_rows = np.zeros(len(names), np.int64)
        np.add.at(future_rows, partition[marked], rows[marked])
        kept = timed & (time < end)
        granule = self.times.granule(time, self.granules)
        on_time = kept & ~marked
        newest = np.full(len(names), _NEVER)
        np.maximum.at(newest, partition[on_time], granule[on_time])
        return (
            _cells(names, partition[kept], granule[kept], rows[kept], future_rows),
            {name: at for name, at in zip(names, newest.tolist(), strict=True) if at != _NEVER},
        )


def _named(numbers: Int64s, name_of: Callable[[int], str]) -> tuple[list[str], Int64s]:
    """Return the distinct names in their order, and the position of each key's; two partitions may have one name."""
    distinct, inverse = np.unique(numbers, return_inverse=True)
    found = [name_of(number) for number in distinct.tolist()]
    names = sorted(set(found))
    position = {name: at for at, name in enumerate(names)}
    return names, np.array([position[name] for name in found], np.int64)[inverse]


def _cells(
    names: Iterable[str], partition: Int64s, granule: Int64s, rows: Int64s, future_rows: Int64s
) -> GranuleCounts:
    order = np.lexsort((granule, partition))
    partition, granule, rows = partition[order], granule[order], rows[order]
    first = np.ones(len(order), bool)
    first[1:] = (partition[1:] != partition[:-1]) | (granule[1:] != granule[:-1])
    starts = np.flatnonzero(first)
    partition, granule = partition[starts], granule[starts]
    steps = np.diff(granule, prepend=0)
    begins = np.diff(partition, prepend=-1) != 0
    steps[begins] = granule[begins]
    return GranuleCounts(
        partitions=tuple(names),
        sizes=tuple(np.bincount(partition, minlength=len(future_rows)).tolist()),
        granules=tuple(steps.tolist()),
        rows=tuple(np.add.reduceat(rows, starts).tolist() if len(starts) else ()),
        future_rows=tuple(future_rows.tolist()),
    )
