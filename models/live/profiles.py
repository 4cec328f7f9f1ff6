"""Profiles: which share of its rows a partition has usually delivered by each age, and the stream as a whole.

The rows are counted by age at delivery, with weights that fade. Only the buckets between the youngest and the oldest
row are stored, so that a partition takes little memory.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tidemark.models.base.operators import Int64s
from tidemark.models.live.ages import BUCKETS, WIDE, Float64s, bucket_of
from tidemark.models.live.defaults import SILENT_SHARE
from tidemark.models.live.learned import Arrays, checked

_Indices = NDArray[np.intp]

_STREAM = 0
_MIN_SCALE = 1e-6
"""When the weights of what was delivered are brought back to 1."""
_SPARE_BUCKETS = 8
"""Buckets by which the range grows beyond what is needed, so that it seldom does."""


class Profiles:
    """The profiles of the stream (column 0) and its partitions (partition p is column p + 1)."""

    def __init__(self) -> None:
        self._rows = np.zeros((1, 0), np.float32)
        """Rows by column and bucket from ``_first`` on, over the scale."""
        self._first = 0
        self._scale = 1.0
        """What is left of a row that was delivered when the scale was 1."""
        self.version = 0
        """Changes whenever a profile may have changed although no row came."""

    @property
    def rows(self) -> NDArray[np.float32]:
        """Rows by age at delivery, over a common factor, shape (columns, BUCKETS)."""
        rows = np.zeros((len(self._rows), BUCKETS), np.float32)
        rows[:, self._first : self._first + self._rows.shape[1]] = self._rows
        return rows

    def learned(self) -> Arrays:
        """Return the counts."""
        return {"rows": self._rows * np.float32(self._scale), "first": np.array(self._first)}

    def resume(self, learned: Arrays) -> None:
        """Go on with counts."""
        rows, first = checked(learned, {"rows": (None, None), "first": ()})["rows"], int(learned["first"])
        if not 0 <= first <= BUCKETS - rows.shape[1]:
            raise ValueError(f"the profiles' first bucket is {first}")
        self._rows, self._first, self._scale = rows.astype(np.float32), first, 1.0
        self.version += 1

    def widen(self, columns: int) -> None:
        """Add columns without rows, up to ``columns``."""
        new = columns - len(self._rows)
        self._rows = np.vstack([self._rows, np.zeros((new, self._rows.shape[1]), np.float32)])

    def fade(self, factor: float) -> None:
        """Multiply the weights of all rows by ``factor``."""
        self._scale *= factor
        if self._scale < _MIN_SCALE:
            self._rows *= np.float32(self._scale)
            self._scale = 1.0
            self.version += 1

    def add(self, column: NDArray[np.int64], bucket: _Indices, rows: NDArray[np.int64]) -> None:
        """Count rows of partitions, by column and by bucket of their age, shape (counts,) each."""
        if not len(bucket):
            return
        self._cover(int(bucket.min()), int(bucket.max()) + 1)
        at, weights = bucket - self._first, rows / self._scale
        width = self._rows.shape[1]
        np.add.at(self._rows.reshape(-1), column * width + at, weights.astype(np.float32))
        self._rows[_STREAM] += np.bincount(at, weights, width).astype(np.float32)

    def places(self, bucket: _Indices) -> _Indices:
        """Return the places of buckets in what ``delivered`` returns."""
        return np.minimum(np.maximum(bucket - (self._first - 1), 0), self._rows.shape[1])

    def delivered(self, columns: _Indices) -> Float64s:
        """Return the share delivered up to each place, shape (columns, places); it is 0 at the first one."""
        shares = np.zeros((len(columns), self._rows.shape[1] + 1))
        np.cumsum(self._rows[columns], axis=1, dtype=np.float64, out=shares[:, 1:])
        shares /= np.maximum(shares[:, -1:], 1e-9)
        return shares

    def delivered_of_stream(self) -> Float64s:
        """Return the same of the stream, shape (places,)."""
        shares = np.zeros(self._rows.shape[1] + 1)
        np.add.accumulate(self._rows[_STREAM], dtype=np.float64, out=shares[1:])
        shares /= max(shares[-1], 1e-9)
        return shares

    def _cover(self, first: int, end: int) -> None:
        """Make room for the buckets from ``first`` to before ``end``."""
        width = self._rows.shape[1]
        if width and self._first <= first and end <= self._first + width:
            return
        first, end = max(first - _SPARE_BUCKETS, 0), min(end + _SPARE_BUCKETS, BUCKETS)
        if width:
            first, end = min(first, self._first), max(end, self._first + width)
        rows = np.zeros((len(self._rows), end - first), np.float32)
        rows[:, self._first - first : self._first - first + width] = self._rows
        self._rows, self._first = rows, first
        self.version += 1


_Shares = NDArray[np.float32]
_SPARE_ROWS = 16

# Inside a wide bucket, rows that belong to it may still come.
_WHOLE = np.maximum(np.arange(BUCKETS) - WIDE, 0)


def delivered_bucket(age_us: Int64s, trigger_us: int) -> _Indices:
    """Return the bucket up to which the rows of cohorts that began so many microseconds ago have been delivered."""
    bucket: _Indices = _WHOLE[bucket_of(age_us / trigger_us)]
    return bucket


class Outstanding:
    """The shares that are outstanding from silent partitions: not sent, though usually they would have been."""

    def __init__(self, granule_us: int, trigger_us: int) -> None:
        self._granule_us = granule_us
        self._trigger_us = trigger_us
        self._version = -1
        self._clear()

    def _clear(self) -> None:
        self._silent: _Indices = np.empty(0, np.intp)
        self._since_us: Int64s = np.empty(0, np.int64)
        self._start_us: Int64s = np.empty(0, np.int64)
        self._now: _Indices = np.empty(0, np.intp)
        """Place of each cohort by now, -1 while its shares are not known, shape (cohorts,)."""
        self._some: NDArray[np.bool_] = np.empty(0, bool)
        """Whether anything is outstanding of each cohort, shape (cohorts,)."""
        self._up_to: _Shares = np.empty((0, 0), np.float32)
        """Share delivered up to each place of the profiles, shape (silent, places)."""
        self._first = 0
        """First cohort whose shares are stored: of those before it nothing is outstanding."""
        self._share: _Shares = np.empty((0, 0), np.float32)
        """Share outstanding of each cohort from the first on, with room behind them, shape (room, silent)."""

    def forget(self) -> None:
        """Forget all shares, as no partition is silent."""
        if len(self._silent):
            self._clear()

    def shares(
        self,
        silent: _Indices,
        since_us: Int64s,
        profiles: Profiles,
        start_us: Int64s,
        now: _Indices,
    ) -> tuple[int, _Shares]:
        """Return the first cohort of which something is outstanding, and the shares from it to the last such cohort.

        The shares have shape (cohorts, silent).

        Args:
            silent: columns of the silent partitions, ascending, shape (silent,).
            since_us: when each fell silent, in microseconds, shape (silent,).
            profiles: the profiles. That of a partition changes only with its version while it is silent.
            start_us: starts of the open cohorts, ascending without a gap, shape (cohorts,).
            now: the place of each in the profiles by now, shape (cohorts,).
        """
        if self._version != profiles.version:
            self._clear()
            self._version = profiles.version
        self._follow_cohorts(start_us)
        if not (np.array_equal(self._silent, silent) and np.array_equal(self._since_us, since_us)):
            self._follow_partitions(silent, since_us, profiles)
        (moved,) = (self._now != now).nonzero()
        self._now = now
        self._compute(moved, profiles)
        (some,) = self._some.nonzero()
        if not len(some):
            return 0, np.empty((0, len(silent)), np.float32)
        return int(some[0]), self._share[some[0] - self._first : some[-1] + 1 - self._first]

    def _follow_cohorts(self, start_us: Int64s) -> None:
        """Drop the cohorts that were closed, and make room for new ones, whose shares are not known yet."""
        closed = 0
        if len(self._start_us):
            closed = int((start_us[0] - self._start_us[0]) // self._granule_us)
            if closed < 0 or closed >= len(self._start_us):
                self._clear()
                closed = 0
        kept, cut = len(self._start_us) - closed, max(closed - self._first, 0)
        self._first = max(self._first - closed, 0)
        self._share = self._share[cut:]
        self._start_us = start_us
        if len(start_us) - self._first > len(self._share):
            self._move(self._first, kept - self._first)
        self._now = np.concatenate([self._now[closed:], np.full(len(start_us) - kept, -1, np.intp)])
        self._some = np.concatenate([self._some[closed:], np.zeros(len(start_us) - kept, bool)])

    def _follow_partitions(self, silent: _Indices, since_us: Int64s, profiles: Profiles) -> None:
        """Keep the shares of the partitions that are still silent, and compute those of the others."""
        stayed = np.zeros(len(silent), bool)
        at = np.zeros(len(silent), np.intp)
        if len(self._silent):
            at = np.minimum(np.searchsorted(self._silent, silent), len(self._silent) - 1)
            stayed = (self._silent[at] == silent) & (self._since_us[at] == since_us)
        new, at = ~stayed, at[stayed]
        computed = int((self._now >= 0).sum())
        fresh = profiles.delivered(silent[new]).astype(np.float32)
        share = self._outstanding(fresh, since_us[new], np.arange(computed), profiles)
        known_share = self._share[: computed - self._first, at]
        self._some[:] = False
        self._some[:computed] = share.any(axis=1)
        self._some[self._first : computed] |= known_share.any(axis=1)
        first, old_first = int(self._some.argmax()) if self._some.any() else computed, self._first
        up_to = np.empty((len(silent), fresh.shape[1]), np.float32)
        up_to[new] = fresh
        if len(at):
            up_to[stayed] = self._up_to[at]
        self._silent, self._since_us, self._up_to = silent, since_us, up_to
        self._share = np.empty((0, len(silent)), np.float32)
        self._move(first, 0)
        self._share[: computed - first, new] = share[first:]
        overlap = max(first, old_first)
        self._share[overlap - first : computed - first, stayed] = known_share[overlap - old_first :]

    def _compute(self, cohort: _Indices, profiles: Profiles) -> None:
        """Compute the shares of some cohorts, ascending."""
        share = self._outstanding(self._up_to, self._since_us, cohort, profiles)
        some = share.any(axis=1)
        if some.any() and cohort[some.argmax()] < self._first:
            self._move(int(cohort[some.argmax()]), len(self._start_us) - self._first)
        at = int(np.searchsorted(cohort, self._first))
        self._share[cohort[at:] - self._first] = share[at:]
        self._some[cohort] = some

    def _move(self, first: int, used: int) -> None:
        """Move the first ``used`` rows to room for all cohorts from ``first`` on, and for an eighth more of them."""
        cohorts = len(self._start_us) - first
        rows, columns, at = cohorts + cohorts // 8 + _SPARE_ROWS, self._share.shape[1], self._first - first
        share = np.zeros((rows, columns), np.float32)
        if used:
            share[at : at + used] = self._share[:used]
        self._share, self._first = share, first

    def _outstanding(self, up_to: _Shares, since_us: Int64s, cohort: _Indices, profiles: Profiles) -> _Shares:
        """Return what is outstanding of cohorts, 0 where it is little, shape (cohorts, silent)."""
        # Many partitions fall silent at once.
        since, which = np.unique(since_us, return_inverse=True)
        bucket = delivered_bucket(since[None, :] - self._start_us[cohort][:, None], self._trigger_us)
        before = profiles.places(bucket)[:, which]
        share: _Shares = up_to.T[self._now[cohort]] - up_to[np.arange(len(up_to))[None, :], before]
        share[share <= SILENT_SHARE] = 0
        return share
