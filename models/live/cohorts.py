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


def first_places(ascending: Int64s) -> NDArray[np.intp]:
    """Return where each distinct value stands first."""
    new = np.ones(len(ascending), bool)
    np.not_equal(ascending[1:], ascending[:-1], out=new[1:])
    return new.nonzero()[0]


def summed(values: Int64s, count: Int64s) -> tuple[Int64s, Int64s]:
    """Return the distinct values, ascending, and the sum of the counts of each; there is at least one value."""
    order = values.argsort()
    values = values[order]
    first = first_places(values)
    return values[first], np.add.reduceat(count[order], first)


def places_in(ascending: Int64s, values: Int64s) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
    """Return where each value is among some, at least one, that ascend, and whether it is."""
    at = np.minimum(ascending.searchsorted(values), len(ascending) - 1)
    return at, ascending[at] == values


_TYPES = (np.uint16, np.uint32, np.uint64)
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
        self._starts_us: Int64s = np.zeros(0, np.int64)
        self._used = slice(0, 0)
        self._most = 0
        """No count is larger."""

    @property
    def start_us(self) -> Int64s:
        """Starts of the cohorts, ascending, shape (cohorts,): a view."""
        return self._starts_us[self._used]

    @property
    def counts(self) -> NDArray[Any]:
        """The counts, unsigned whole numbers, shape (cohorts, partitions): a view."""
        return self._room[self._used]

    @property
    def totals(self) -> Int64s:
        """The counts of all partitions together, shape (cohorts,): a view."""
        return self._totals[self._used]

    @property
    def limit(self) -> int:
        """The largest number that the counts can be without more memory."""
        return int(np.iinfo(self._room.dtype).max)

    def add(self, cohort: NDArray[np.intp], partition: Int64s, rows: Int64s) -> None:
        """Count rows of cohorts, given by their places, shape (counts,) each, at least one."""
        place = cohort * self._room.shape[1] + partition
        self._most += int(rows.sum())
        if self._most > self.limit:
            self._make_fit(place, rows)
        np.add.at(self.counts.reshape(-1), place, rows.astype(self._room.dtype))
        np.add.at(self.totals, cohort, rows)

    def _make_fit(self, place: Int64s, rows: Int64s) -> None:
        """Take a larger type where a count would not fit with the rows of its place."""
        place, rows = summed(place, rows)
        counts = self.counts.reshape(-1)
        self._most = max(int(counts.max()), int((counts[place].astype(np.int64) + rows).max()))
        if self._most > self.limit:
            self._room = self._room.astype(
                next(type_ for type_ in _TYPES if self._most <= np.iinfo(type_).max)
            )

    def widen(self, partitions: int) -> None:
        """Add partitions with no rows, up to ``partitions``."""
        new = partitions - self._room.shape[1]
        if new > 0:
            self._room = np.hstack([self._room, np.zeros((len(self._room), new), self._room.dtype)])

    def open(self, first_us: int, last_us: int) -> int | None:
        """Open the cohorts from one to another, at most the newest; return the start of the last that is left out."""
        granule_us, starts = self._granule_us, self.start_us
        begin_us, end_us = (
            (int(starts[0]), int(starts[-1])) if len(starts) else (last_us + granule_us, last_us)
        )
        if begin_us <= first_us and last_us <= end_us:
            return None
        newest_us = max(last_us, end_us)
        oldest_us = newest_us - (self._max_cohorts - 1) * granule_us
        left_out = min(first_us, begin_us) < oldest_us
        forgotten = min(max((oldest_us - begin_us) // granule_us, 0), len(starts))
        self.forget(forgotten)
        kept = len(starts) - forgotten
        begin_us = begin_us + forgotten * granule_us if kept else newest_us + granule_us
        before = max(begin_us - max(first_us, oldest_us), 0) // granule_us
        cohorts = before + (newest_us - begin_us) // granule_us + 1
        if before or self._used.start + cohorts > len(self._room):
            self._move(begin_us - before * granule_us, before, kept, cohorts)
        self._used = slice(self._used.start, self._used.start + cohorts)
        return oldest_us - granule_us if left_out else None

    def forget(self, cohorts: int) -> None:
        """Forget the first cohorts."""
        self._used = slice(self._used.start + cohorts, self._used.stop)
        kept = self._used.stop - self._used.start
        if len(self._room) > 2 * (kept + _SPARE_ROWS):
            self._move(int(self.start_us[0]) if kept else 0, 0, kept, kept)

    def _move(self, first_us: int, at: int, kept: int, cohorts: int) -> None:
        """Move the ``kept`` rows to place ``at`` of new room for ``cohorts``, and for an eighth more of them."""
        rows = cohorts + cohorts // 8 + _SPARE_ROWS
        room, totals = np.zeros((rows, self._room.shape[1]), self._room.dtype), np.zeros(rows, np.int64)
        room[at : at + kept], totals[at : at + kept] = self.counts, self.totals
        self._room, self._totals, self._used = room, totals, slice(0, cohorts)
        self._starts_us = first_us + self._granule_us * np.arange(rows)


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
        if len(self._followed):
            at, followed = places_in(self.start_us, start_us)
            self._followed["came"] += np.bincount(at[followed], count[followed], len(self._followed))

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
        new = slice(int(start_us.searchsorted(self._newest_us, side="right")), None)
        if not len(start_us[new]):
            return
        cohorts = np.zeros(len(start_us[new]), _FOLLOWED)
        cohorts["since_us"], cohorts["start_us"] = now_us, start_us[new]
        cohorts["rows"], cohorts["delivered"], cohorts["short"] = rows[new], delivered[new], short[new]
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
        if not len(cohorts):
            return
        followed_us = now_us - cohorts["since_us"]
        dropped = np.zeros(len(cohorts), bool)
        if len(outstanding_us):
            _, dropped = places_in(outstanding_us, cohorts["start_us"])
        counts = (followed_us >= self._counts_after_us) & ~dropped
        fewer = cohorts["rows"] * (delivered / np.maximum(cohorts["delivered"], 1e-9) - 1)
        share = np.minimum(np.maximum((cohorts["came"] - fewer) / cohorts["short"], 0), 1)
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
