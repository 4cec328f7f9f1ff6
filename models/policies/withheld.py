"""What silent partitions withhold of each open cohort: shares of their usual rows, kept while they are silent.

A partition that is silent since a moment withholds of a cohort what it usually delivers between the cohort's age then
and its age now. Of most cohorts that is the same from one trigger to the next, since ages are counted in buckets, so
only what has changed is computed again.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tidemark.models.live_defaults import SILENT_SHARE
from tidemark.models.operators import Int64s
from tidemark.models.policies.ages import WIDE, bucket_of
from tidemark.models.policies.profiles import Profiles

_Indices = NDArray[np.intp]
_Shares = NDArray[np.float32]
_SPARE_ROWS = 16


def delivered_bucket(now_us: int | Int64s, start_us: Int64s, trigger_us: int) -> _Indices:
    """Return the bucket up to which the rows of cohorts that start at ``start_us`` have been delivered by then."""
    at = bucket_of((now_us - start_us) / trigger_us)
    # Inside a wide bucket, rows that belong to it may still come.
    bucket: _Indices = np.where(WIDE[at], np.maximum(at - 1, 0), at)
    return bucket


class Withheld:
    """The shares that silent partitions withhold.

    Args:
        granule_us: width of a cohort in microseconds.
        trigger_us: the trigger in microseconds.
    """

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
        """Whether anything is withheld of each cohort, shape (cohorts,)."""
        self._up_to: _Shares = np.empty((0, 0), np.float32)
        """Share delivered up to each place of the profiles, shape (silent, places)."""
        self._first = 0
        """First cohort whose shares are kept: of those before it nothing is withheld."""
        self._share: _Shares = np.empty((0, 0), np.float32)
        """Share withheld of each cohort from the first on, with room behind them, shape (room, silent)."""

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
        bucket: _Indices,
    ) -> tuple[int, _Shares]:
        """Return the first cohort of which something is withheld, and the shares from it to the last such cohort.

        The shares have shape (cohorts, silent).

        Args:
            silent: columns of the silent partitions, ascending, shape (silent,).
            since_us: when each fell silent, in microseconds, shape (silent,).
            profiles: the profiles. That of a partition changes only with its version while it is silent.
            start_us: starts of the open cohorts, ascending without a gap, shape (cohorts,).
            bucket: the bucket of each by now, shape (cohorts,).
        """
        if self._version != profiles.version:
            self._clear()
            self._version = profiles.version
        self._follow_cohorts(start_us)
        if not (np.array_equal(self._silent, silent) and np.array_equal(self._since_us, since_us)):
            self._follow_partitions(silent, since_us, profiles)
        now = profiles.places(bucket)
        moved = np.flatnonzero(self._now != now)
        self._now = now
        self._compute(moved, profiles)
        some = np.flatnonzero(self._some)
        if not len(some):
            return 0, np.empty((0, len(silent)), np.float32)
        return int(some[0]), self._share[some[0] - self._first : some[-1] + 1 - self._first]

    def _follow_cohorts(self, start_us: Int64s) -> None:
        """Drop the cohorts that were closed, and make room for new ones, whose shares are not known yet."""
        gone = 0
        if len(self._start_us):
            gone = int((start_us[0] - self._start_us[0]) // self._granule_us)
            if gone < 0 or gone >= len(self._start_us):
                self._clear()
                gone = 0
        known, cut = len(self._start_us) - gone, max(gone - self._first, 0)
        self._first = max(self._first - gone, 0)
        self._share = self._share[cut:]
        self._start_us = start_us
        if len(start_us) - self._first > len(self._share):
            self._move(self._first, known - self._first)
        self._now = np.concatenate([self._now[gone:], np.full(len(start_us) - known, -1, np.intp)])
        self._some = np.concatenate([self._some[gone:], np.zeros(len(start_us) - known, bool)])

    def _follow_partitions(self, silent: _Indices, since_us: Int64s, profiles: Profiles) -> None:
        """Keep the shares of the partitions that are still silent, and compute those of the others."""
        stayed = np.zeros(len(silent), bool)
        at = np.zeros(len(silent), np.intp)
        if len(self._silent):
            at = np.minimum(np.searchsorted(self._silent, silent), len(self._silent) - 1)
            stayed = (self._silent[at] == silent) & (self._since_us[at] == since_us)
        new, at = ~stayed, at[stayed]
        known = int((self._now >= 0).sum())
        fresh = profiles.delivered(silent[new]).astype(np.float32)
        share = self._withheld(fresh, since_us[new], np.arange(known), profiles)
        kept = self._share[: known - self._first, at]
        self._some[:] = False
        self._some[:known] = share.any(axis=1)
        self._some[self._first : known] |= kept.any(axis=1)
        first, old_first = int(self._some.argmax()) if self._some.any() else known, self._first
        up_to = np.empty((len(silent), fresh.shape[1]), np.float32)
        up_to[new] = fresh
        if len(at):
            up_to[stayed] = self._up_to[at]
        self._silent, self._since_us, self._up_to = silent, since_us, up_to
        self._share = np.empty((0, len(silent)), np.float32)
        self._move(first, 0)
        self._share[: known - first, new] = share[first:]
        overlap = max(first, old_first)
        self._share[overlap - first : known - first, stayed] = kept[overlap - old_first :]

    def _compute(self, cohort: _Indices, profiles: Profiles) -> None:
        """Compute the shares of some cohorts, ascending."""
        share = self._withheld(self._up_to, self._since_us, cohort, profiles)
        some = share.any(axis=1)
        if some.any() and cohort[some.argmax()] < self._first:
            self._move(int(cohort[some.argmax()]), len(self._start_us) - self._first)
        kept = int(np.searchsorted(cohort, self._first))
        self._share[cohort[kept:] - self._first] = share[kept:]
        self._some[cohort] = some

    def _move(self, first: int, used: int) -> None:
        """Move the first ``used`` rows to room for all cohorts from ``first`` on, and for an eighth more of them."""
        cohorts = len(self._start_us) - first
        rows, columns, at = cohorts + cohorts // 8 + _SPARE_ROWS, self._share.shape[1], self._first - first
        share = np.zeros((rows, columns), np.float32)
        if used:
            share[at : at + used] = self._share[:used]
        self._share, self._first = share, first

    def _withheld(self, up_to: _Shares, since_us: Int64s, cohort: _Indices, profiles: Profiles) -> _Shares:
        """Return what partitions withhold of cohorts, 0 where it is little, shape (cohorts, silent).

        Args:
            up_to: share delivered up to each place, shape (silent, places).
            since_us: when each partition fell silent, in microseconds, shape (silent,).
            cohort: the cohorts, shape (cohorts,).
            profiles: give the places.
        """
        # Many partitions fall silent at once.
        since, which = np.unique(since_us, return_inverse=True)
        bucket = delivered_bucket(since[None, :], self._start_us[cohort][:, None], self._trigger_us)
        before = profiles.places(bucket)[:, which]
        share: _Shares = up_to.T[self._now[cohort]] - up_to[np.arange(len(up_to))[None, :], before]
        share[share <= SILENT_SHARE] = 0
        return share
