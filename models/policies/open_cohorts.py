"""Counts of rows by cohort of event time and by partition, for cohorts that are open: they begin and end in order."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tidemark.models.operators import Int64s

_TYPES = (np.uint8, np.uint16, np.uint32, np.uint64)
"""Types of the counts, the smallest first: a stream with a thousand partitions has a million of them."""
_SPARE_ROWS = 16


class OpenCohorts:
    """Counts of the open cohorts, which follow one another without a gap.

    Cohorts are added at the end and forgotten at the beginning, mostly one at a time, so the counts stand in a larger
    array, which is copied only when its end is reached.

    Args:
        granule_us: width of a cohort in microseconds.
        max_cohorts: how many are open at most; the oldest are forgotten for newer ones.
    """

    def __init__(self, granule_us: int, max_cohorts: int) -> None:
        self._granule_us = granule_us
        self._max_cohorts = max_cohorts
        self._room: NDArray[Any] = np.zeros((0, 0), _TYPES[0])
        self._totals: Int64s = np.zeros(0, np.int64)
        self._first = 0
        self.start_us: Int64s = np.empty(0, np.int64)
        """Starts of the cohorts, ascending, shape (cohorts,)."""

    @property
    def counts(self) -> NDArray[Any]:
        """The counts, unsigned whole numbers, shape (cohorts, partitions): a view."""
        return self._room[self._first : self._first + len(self.start_us)]

    @property
    def totals(self) -> Int64s:
        """The counts of all partitions together, shape (cohorts,): a view."""
        return self._totals[self._first : self._first + len(self.start_us)]

    def add(self, cohort: NDArray[np.intp], partition: Int64s, rows: Int64s) -> None:
        """Count rows of cohorts, given by their places, shape (counts,) each."""
        limit = np.iinfo(self._room.dtype).max
        most = int(self.counts[cohort, partition].max(initial=0)) + int(rows.sum())
        if most > limit:  # all rows in one place would be too many, so where they are counts
            _, place = np.unique(cohort * self._room.shape[1] + partition, return_inverse=True)
            most = int((self.counts[cohort, partition] + np.bincount(place, rows)[place]).max())
        if most > limit:
            self._room = self._room.astype(next(each for each in _TYPES if most <= np.iinfo(each).max))
        np.add.at(self.counts, (cohort, partition), rows.astype(self._room.dtype))
        np.add.at(self.totals, cohort, rows)

    def widen(self, partitions: int) -> None:
        """Add partitions with no rows, up to ``partitions``."""
        new = partitions - self._room.shape[1]
        if new > 0:
            self._room = np.hstack([self._room, np.zeros((len(self._room), new), self._room.dtype)])

    def open(self, first_us: int, last_us: int) -> int | None:
        """Open all cohorts from one to another; return the start of the last one that had to be forgotten for them."""
        granule_us = self._granule_us
        if len(self.start_us) and self.start_us[0] <= first_us and last_us <= self.start_us[-1]:
            return None
        oldest_us = last_us - (self._max_cohorts - 1) * granule_us
        if not len(self.start_us):
            self.start_us = np.arange(max(first_us, oldest_us), last_us + 1, granule_us)
            self._move(0, 0, len(self.start_us))
            return None
        before = np.arange(max(first_us, oldest_us), self.start_us[0], granule_us)
        after = np.arange(int(self.start_us[-1]) + granule_us, last_us + 1, granule_us)
        cohorts = len(self.start_us) + len(after)
        if len(before) or self._first + cohorts > len(self._room):
            self._move(len(before), len(self.start_us), len(before) + cohorts)
        self.start_us = np.concatenate([before, self.start_us, after])
        surplus = len(self.start_us) - self._max_cohorts
        if surplus <= 0:
            return None
        forgotten_us = int(self.start_us[surplus - 1])
        self.forget(surplus)
        return forgotten_us

    def forget(self, cohorts: int) -> None:
        """Forget the first cohorts."""
        self.start_us = self.start_us[cohorts:]
        self._first += cohorts
        used = len(self.start_us)
        if len(self._room) > 2 * (used + _SPARE_ROWS):
            self._move(0, used, used)

    def _move(self, at: int, used: int, cohorts: int) -> None:
        """Move the ``used`` rows to place ``at`` of new room for ``cohorts``, and for an eighth more of them."""
        rows = cohorts + cohorts // 8 + _SPARE_ROWS
        kept = slice(self._first, self._first + used)
        room, totals = np.zeros((rows, self._room.shape[1]), self._room.dtype), np.zeros(rows, np.int64)
        room[at : at + used], totals[at : at + used] = self._room[kept], self._totals[kept]
        self._room, self._totals, self._first = room, totals, 0
