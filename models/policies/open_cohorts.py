"""Counts of rows by cohort of event time and by column, for cohorts that are open: they begin and end in order."""

from __future__ import annotations

import numpy as np

from tidemark.models.operators import Int64s
from tidemark.models.policies.ages import Float64s


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
        self._room = np.zeros((0, 1))
        self._first = 0
        self.start_us: Int64s = np.empty(0, np.int64)
        """Starts of the cohorts, ascending, shape (cohorts,)."""

    @property
    def counts(self) -> Float64s:
        """The counts, shape (cohorts, columns): a view."""
        return self._room[self._first : self._first + len(self.start_us)]

    def widen(self, columns: int) -> None:
        """Add columns of zeros, up to ``columns``."""
        new = columns - self._room.shape[1]
        if new > 0:
            self._room = np.hstack([self.counts, np.zeros((len(self.start_us), new))])
            self._first = 0

    def open(self, first_us: int, last_us: int) -> int | None:
        """Open all cohorts from one to another; return the start of the last one that had to be forgotten for them."""
        granule_us = self._granule_us
        oldest_us = last_us - (self._max_cohorts - 1) * granule_us
        if not len(self.start_us):
            self.start_us = np.arange(max(first_us, oldest_us), last_us + 1, granule_us)
            self._room, self._first = np.zeros((len(self.start_us), self._room.shape[1])), 0
            return None
        before = np.arange(max(first_us, oldest_us), self.start_us[0], granule_us)
        after = np.arange(int(self.start_us[-1]) + granule_us, last_us + 1, granule_us)
        if len(before):
            self._room = np.vstack([np.zeros((len(before), self._room.shape[1])), self.counts])
            self._first = 0
        if len(after):
            self._make_room(len(before) + len(self.start_us), len(after))
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

    def _make_room(self, used: int, more: int) -> None:
        """Make room for further rows of zeros behind those in use."""
        end = self._first + used
        if end + more > len(self._room):
            # As much again, so that a cohort is copied once on average.
            room = np.zeros((2 * used + more, self._room.shape[1]))
            room[:used] = self._room[self._first : end]
            self._room, self._first = room, 0
