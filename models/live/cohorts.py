"""Counts of rows by cohort of event time and by partition, for cohorts that are open: they begin and end in order."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tidemark.models.base.operators import Int64s
from tidemark.models.base.text import format_number
from tidemark.models.live.ages import Float64s
from tidemark.models.live.defaults import (
    SHORT_COUNTS_AFTER_SPANS,
    SHORT_FOLLOWED_SPANS,
    SHORT_HALF_LIFE,
    SHORT_PRIOR_SPANS,
)
from tidemark.models.live.learned import Arrays, checked

_TYPES = (np.uint8, np.uint16, np.uint32, np.uint64)
"""Types of the counts, the smallest first: a stream with a thousand partitions has a million of them."""
_SPARE_ROWS = 16


class OpenCohorts:
    """Counts of the open cohorts, which follow one another without a gap.

    Cohorts are added at the end and forgotten at the beginning, mostly one at a time, so the counts stand in a larger
    array, which is copied only when its end is reached.
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
            self._room = self._room.astype(next(dtype for dtype in _TYPES if most <= np.iinfo(dtype).max))
        np.add.at(self.counts, (cohort, partition), rows.astype(self._room.dtype))
        np.add.at(self.totals, cohort, rows)

    def widen(self, partitions: int) -> None:
        """Add partitions with no rows, up to ``partitions``."""
        new = partitions - self._room.shape[1]
        if new > 0:
            self._room = np.hstack([self._room, np.zeros((len(self._room), new), self._room.dtype)])

    def open(self, first_us: int, last_us: int) -> int | None:
        """Open the cohorts from one to another, at most the newest; return the start of the last that is left out."""
        granule_us, starts = self._granule_us, self.start_us
        if len(starts) and starts[0] <= first_us and last_us <= starts[-1]:
            return None
        newest_us = max(last_us, int(starts[-1])) if len(starts) else last_us
        oldest_us = newest_us - (self._max_cohorts - 1) * granule_us
        self.forget(int(np.searchsorted(starts, oldest_us)))
        kept = self.start_us
        begin_us, end_us = (int(kept[0]), int(kept[-1])) if len(kept) else (newest_us + granule_us, newest_us)
        before = np.arange(max(first_us, oldest_us), begin_us, granule_us)
        after = np.arange(end_us + granule_us, newest_us + 1, granule_us)
        cohorts = len(kept) + len(after)
        if len(before) or self._first + cohorts > len(self._room):
            self._move(len(before), len(kept), len(before) + cohorts)
        self.start_us = np.concatenate([before, kept, after])
        return oldest_us - granule_us if min(first_us, *starts[:1].tolist(), newest_us) < oldest_us else None

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
        used_rows = slice(self._first, self._first + used)
        room, totals = np.zeros((rows, self._room.shape[1]), self._room.dtype), np.zeros(rows, np.int64)
        room[at : at + used], totals[at : at + used] = self._room[used_rows], self._totals[used_rows]
        self._room, self._totals, self._first = room, totals, 0


_FOLLOWED = np.dtype(
    [
        ("start_us", "i8"),
        ("since_us", "i8"),
        ("rows", "f8"),
        ("delivered", "f8"),
        ("short", "f8"),
        ("came", "f8"),
    ]
)
"""A cohort that is followed: since when, its rows and the share of them usually delivered when it was found short, by
how many it was, and how many have come since."""


class ShortCohorts:
    """Follows cohorts that were found short, for some time and also when they are closed meanwhile."""

    def __init__(self, granule_us: int, cohorts: int) -> None:
        span_us = cohorts * granule_us
        self._counts_after_us = round(SHORT_COUNTS_AFTER_SPANS * span_us)
        self._followed_us = round(SHORT_FOLLOWED_SPANS * span_us)
        self._decay = 0.5 ** (1 / (SHORT_HALF_LIFE * cohorts))
        self._share = self._cohorts = SHORT_PRIOR_SPANS * cohorts
        """Shares that came, summed over the cohorts that are no longer followed, and how many these are."""
        self.share_to_come = 1.0
        """The share of what a cohort is short of that is expected to come."""
        self._newest_us = -(2**62)
        self._followed: NDArray[Any] = np.empty(0, _FOLLOWED)

    @property
    def start_us(self) -> Int64s:
        """Starts of the cohorts that are followed, ascending, shape (followed,)."""
        starts: Int64s = self._followed["start_us"]
        return starts

    def add(self, start_us: Int64s, count: Int64s) -> None:
        """Count rows by the start of their cohort, shape (counts,) each."""
        starts_us = self.start_us
        if not len(starts_us):
            return
        at = np.minimum(np.searchsorted(starts_us, start_us), len(starts_us) - 1)
        followed = starts_us[at] == start_us
        self._followed["came"] += np.bincount(at[followed], count[followed], len(starts_us))

    def follow(
        self, now_us: int, start_us: Int64s, rows: Int64s, delivered: Float64s, short: Float64s
    ) -> None:
        """Follow those of the cohorts that are newer than all that were followed before.

        Args:
            now_us: wall time in microseconds.
            start_us: starts of the cohorts, ascending, shape (cohorts,).
            rows: rows of each that have come, shape (cohorts,).
            delivered: share of its rows that each has usually delivered by now, shape (cohorts,).
            short: rows that each is short of, above 0, shape (cohorts,).
        """
        new = start_us > self._newest_us
        if not new.any():
            return
        cohorts = np.zeros(int(new.sum()), _FOLLOWED)
        cohorts["since_us"] = now_us
        for name, values in (
            ("start_us", start_us),
            ("rows", rows),
            ("delivered", delivered),
            ("short", short),
        ):
            cohorts[name] = values[new]
        self._newest_us = int(cohorts["start_us"][-1])
        self._followed = np.concatenate([self._followed, cohorts])

    def judge(self, now_us: int, delivered: Float64s, outstanding_us: Int64s) -> None:
        """Learn what has come of the cohorts that have been followed for some time.

        Args:
            now_us: wall time in microseconds.
            delivered: share of its rows that each followed cohort has usually delivered by now, shape (followed,).
            outstanding_us: starts of cohorts that are no longer followed: rows of silent partitions are outstanding.
        """
        cohorts = self._followed
        followed_us = now_us - cohorts["since_us"]
        dropped = np.isin(cohorts["start_us"], outstanding_us)
        counts = (followed_us >= self._counts_after_us) & ~dropped
        fewer = cohorts["rows"] * (delivered / np.maximum(cohorts["delivered"], 1e-9) - 1)
        share = np.clip((cohorts["came"] - fewer) / cohorts["short"], 0, 1)
        done = counts & (followed_us >= self._followed_us)
        decay = self._decay ** int(done.sum())
        self._share = self._share * decay + float(share[done].sum())
        self._cohorts = self._cohorts * decay + int(done.sum())
        counts &= ~done
        self.share_to_come = (self._share + float(share[counts].sum())) / (self._cohorts + int(counts.sum()))
        self._followed = cohorts[~(done | dropped)]

    def learned(self) -> Arrays:
        """Return the sums."""
        return {"share": np.array(self._share), "cohorts": np.array(self._cohorts)}

    def resume(self, learned: Arrays) -> None:
        """Go on with sums."""
        checked(learned, {"share": (), "cohorts": ()})
        share, cohorts = float(learned["share"]), float(learned["cohorts"])
        if not 0 <= share <= cohorts or not cohorts:
            raise ValueError(f"short cohorts: {format_number(share)} of {format_number(cohorts)} is no share")
        self._share, self._cohorts = share, cohorts
        self.share_to_come = share / cohorts
