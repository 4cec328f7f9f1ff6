"""The numbers under which the tap counts event times, and what the keys of a batch stand for.

Windows need granules ``[a, b)`` and other operators ``(a, b]``. Where the operator is read from the plan of the query,
which is there only after the tap has been put into it, a time's number is the sum of the indexes of both of its
granules, and each follows from it: of granules of 10 us 0 has -1, 1 to 9 have 0, 10 has 1, 11 to 19 have 2. So the
counts are as exact as with a declared operator, for some more distinct keys where times lie on edges.

Keys are read in arrays, for speed: in Live the next batch waits for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from pyspark.sql import Column
from pyspark.sql import functions as F

from tidemark.models.base.granules import Granules
from tidemark.models.base.operators import Closed, Int64s
from tidemark.models.protocol.granule_counts import GranuleCounts

FARTHEST_US = 1 << 60
"""Times further from the epoch are not counted, and reported as this far: no calendar and no controller goes there."""

_BITS, _OF_BITS = 44, 63
"""Bits of a number that has been made positive, in a key of so many; in a shorter key it has as few as it needs."""

_NEAR_US = 1 << 52
"""Times nearer to the epoch than this, 142 years, have a number in a shorter key."""

ASIDE, BEFORE, AFTER = range(3)
"""Numbers in place of a time's: of rows that are taken out, and of times before and after all that have one."""

FIRST = 3
"""The lowest positive number of a time."""


_Numbers = TypeVar("_Numbers", int, Int64s)


_NEVER = int(np.iinfo(np.int64).min)
Read = tuple[GranuleCounts, dict[str, int]]
"""The rows of each partition by granule, and the index of the newest granule of its rows that are not future-dated."""

NO_KEYS: Read = (GranuleCounts.of(()), {})
"""What no keys stand for."""


@dataclass(frozen=True, slots=True)
class TimeNumbers:
    """How times are numbered.

    Args:
        granule_us: width of a granule in microseconds.
        closed: which edge belongs to a granule; None while the operator is not known.
        bits: bits of a number that has been made positive.
    """

    granule_us: int
    closed: Closed | None
    bits: int = _BITS

    @classmethod
    def within(cls, key_bits: int, granule_us: int, closed: Closed | None) -> TimeNumbers:
        """Return the numbers for keys of so many bits, which have a partition's number in front of the time's."""
        if key_bits >= _OF_BITS:
            return cls(granule_us, closed)
        kinds = 2 if closed is None else 1
        return cls(granule_us, closed, (2 * kinds * (_NEAR_US // granule_us)).bit_length())

    @property
    def end(self) -> int:
        """What is added to a number so that it is positive; no time has this number or one above it."""
        return self._half * len(self._kinds)

    @property
    def step(self) -> int:
        """The usual distance of the numbers of two neighbouring granules."""
        return len(self._kinds)

    def of(self, time_us: int) -> int:
        """Return the number of a time."""
        return sum((time_us - (closed == "right")) // self.granule_us for closed in self._kinds)

    def granule(self, number: _Numbers, granules: Granules) -> _Numbers:
        """Return the index of the granule of the times that have a number; it is a multiple of this granule."""
        if self.closed is None:
            number = (number + (granules.closed == "left")) // 2
        return number // (granules.granule_us // self.granule_us)

    def columns(self, event_time: str) -> tuple[Column, Column, Column]:
        """Return the number of each time, made positive, and whether the time is before or after all that have one.

        A time without a number must not be given one: the arithmetic would fail the query.
        """
        times = f"unix_micros({event_time})"
        number = F.expr(" + ".join(f"({times} + {shift}L) div {self.granule_us}L" for shift in self.shifts))
        return number, F.expr(times) < F.lit(self.first_us), F.expr(times) >= F.lit(self.end_us)

    @property
    def shifts(self) -> list[int]:
        """What is added to a time, in microseconds, before it is divided by the granule; the quotients are added up.

        Integer division truncates towards zero, so it is done on times that are shifted to be positive.
        """
        return [self._half * self.granule_us - (closed == "right") for closed in self._kinds]

    @property
    def first_us(self) -> int:
        """The minimum time that has a number."""
        return FIRST * self.granule_us - self.shifts[-1]

    @property
    def end_us(self) -> int:
        """The time from which on none has a number."""
        return self.shifts[-1]

    @property
    def _kinds(self) -> tuple[Closed, ...]:
        return ("left", "right") if self.closed is None else (self.closed,)

    @property
    def _half(self) -> int:
        """Half of the granules that have a number."""
        return min((1 << (self.bits - 1)) // len(self._kinds), FARTHEST_US // self.granule_us)


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
        counted = timed & (time < end)
        granule = self.times.granule(time, self.granules)
        on_time = counted & ~marked
        newest = np.full(len(names), _NEVER)
        np.maximum.at(newest, partition[on_time], granule[on_time])
        return (
            _cells(names, partition[counted], granule[counted], rows[counted], future_rows),
            {name: at for name, at in zip(names, newest.tolist(), strict=True) if at != _NEVER},
        )


def _named(numbers: Int64s, name_of: Callable[[int], str]) -> tuple[list[str], Int64s]:
    """Return the distinct names in their order, and the position of each key's; two partitions may have one name."""
    distinct, inverse = np.unique(numbers, return_inverse=True)
    named = [name_of(number) for number in distinct.tolist()]
    names = sorted(set(named))
    position = {name: at for at, name in enumerate(names)}
    return names, np.array([position[name] for name in named], np.int64)[inverse]


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
