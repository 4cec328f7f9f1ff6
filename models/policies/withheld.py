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
from tidemark.models.policies.ages import WIDE, Float64s, bucket_of
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
        self._up_to = np.empty((0, 0))
        """Share delivered up to each place of the profiles, shape (silent, places)."""
        self._first = 0
        """First cohort whose shares are kept: of those before it nothing is withheld."""
        self._share: _Shares = np.empty((0, 0), np.float32)
        """Share withheld of each cohort from the first on, with room behind them, shape (room, silent)."""
        self._before = np.empty((0, 0), np.int16)
        """Place of each of these cohorts when each partition fell silent, shape (room, silent)."""

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
        self._follow_cohorts(start_us, profiles)
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

    def _follow_cohorts(self, start_us: Int64s, profiles: Profiles) -> None:
        """Drop the cohorts that were closed, and make room for new ones, whose shares are not known yet."""
        gone = 0
        if len(self._start_us):
            gone = int((start_us[0] - self._start_us[0]) // self._granule_us)
            if gone < 0 or gone >= len(self._start_us):
                self._clear()
                gone = 0
        known, cut = len(self._start_us) - gone, max(gone - self._first, 0)
        self._first = max(self._first - gone, 0)
        self._share, self._before = self._share[cut:], self._before[cut:]
        self._start_us = start_us
        if len(start_us) - self._first > len(self._share):
            self._move(self._first, known - self._first)
        new = slice(known - self._first, len(start_us) - self._first)
        self._before[new] = self._before_of(start_us[known:], self._since_us, profiles)
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
        fresh = profiles.delivered(silent[new])
        before = self._before_of(self._start_us, since_us[new], profiles)
        share = _withheld(fresh, self._now[:known], before[:known])
        kept = self._share[: known - self._first, at]
        self._some[:] = False
        self._some[:known] = share.any(axis=1)
        self._some[self._first : known] |= kept.any(axis=1)
        first = int(self._some.argmax()) if self._some.any() else known
        old_first, old_before = self._first, self._before[: len(self._start_us) - self._first, at]
        up_to = np.empty((len(silent), fresh.shape[1]))
        up_to[new] = fresh
        if len(at):
            up_to[stayed] = self._up_to[at]
        self._silent, self._since_us, self._up_to = silent, since_us, up_to
        self._share, self._before = (
            np.empty((0, len(silent)), np.float32),
            np.empty((0, len(silent)), np.int16),
        )
        self._move(first, 0)
        rows = len(self._start_us) - first
        self._before[:rows, new] = before[first:]
        self._share[: known - first, new] = share[first:]
        overlap = max(first, old_first)
        self._before[overlap - first : rows, stayed] = old_before[overlap - old_first :]
        self._share[overlap - first : known - first, stayed] = kept[overlap - old_first :]
        self._before[: overlap - first, stayed] = self._before_of(
            self._start_us[first:overlap], since_us[stayed], profiles
        )

    def _compute(self, cohort: _Indices, profiles: Profiles) -> None:
        """Compute the shares of some cohorts, ascending."""
        old = cohort[: np.searchsorted(cohort, self._first)]
        if len(old):
            before = self._before_of(self._start_us[old], self._since_us, profiles)
            some = _withheld(self._up_to, self._now[old], before).any(axis=1)
            if some.any():
                self._reach_back(int(old[some.argmax()]), profiles)
        kept = cohort[np.searchsorted(cohort, self._first) :]
        share = _withheld(self._up_to, self._now[kept], self._before[kept - self._first])
        self._share[kept - self._first] = share
        self._some[kept] = share.any(axis=1)

    def _reach_back(self, first: int, profiles: Profiles) -> None:
        """Keep the shares of earlier cohorts, too, from ``first`` on."""
        new = slice(first, self._first)
        self._move(first, len(self._start_us) - self._first)
        self._before[: new.stop - first] = self._before_of(self._start_us[new], self._since_us, profiles)

    def _move(self, first: int, used: int) -> None:
        """Move the first ``used`` rows to room for all cohorts from ``first`` on, and for an eighth more of them."""
        cohorts = len(self._start_us) - first
        rows, columns, at = cohorts + cohorts // 8 + _SPARE_ROWS, self._share.shape[1], self._first - first
        share, before = np.zeros((rows, columns), np.float32), np.zeros((rows, columns), np.int16)
        if used:
            share[at : at + used], before[at : at + used] = self._share[:used], self._before[:used]
        self._share, self._before, self._first = share, before, first

    def _before_of(self, start_us: Int64s, since_us: Int64s, profiles: Profiles) -> NDArray[np.int16]:
        found = delivered_bucket(since_us[None, :], start_us[:, None], self._trigger_us)
        return profiles.places(found).astype(np.int16)


def _withheld(up_to: Float64s, now: _Indices, before: NDArray[np.int16]) -> Float64s:
    """Return what is delivered between two places, 0 where it is little.

    Args:
        up_to: share delivered up to each place, shape (silent, places).
        now: the later place of each cohort, shape (cohorts,).
        before: the earlier place, shape (cohorts, silent).
    """
    share: Float64s = up_to.T[now] - up_to[np.arange(len(up_to))[None, :], before]
    share[share <= SILENT_SHARE] = 0
    return share
