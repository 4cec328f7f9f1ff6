"""Waits: which keys are open, and for how long keys have waited under each rule.

A rule closes keys by a watermark that never moves back, so what it has closed is a prefix of the keys, and sums over
keys serve all rules at once.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tidemark.models.base.operators import Int64s
from tidemark.models.live.ages import Float64s
from tidemark.models.live.cohorts import places_in
from tidemark.models.live.policy import NO_BASE_US

_Bools = NDArray[np.bool_]


def sums_below(keys_us: Int64s, values: NDArray[np.number], watermark_us: Int64s) -> Float64s:
    """Return the sum of the values of the keys that each watermark closes, shape (rules,).

    Args:
        keys_us: keys, ascending, shape (keys,).
        values: a value of each, shape (keys,).
        watermark_us: the watermarks, shape (rules,).
    """
    sums = np.zeros(len(keys_us) + 1)
    np.cumsum(values, out=sums[1:])
    below: Float64s = sums[keys_us.searchsorted(watermark_us, side="right")]
    return below


class Waits:
    """The keys that some rule has not closed, and the latencies of those that rules have closed.

    Args:
        patient: rules that nobody waits for, shape (rules,).
        trigger_us: the unit of latencies, in microseconds.
    """

    def __init__(self, patient: _Bools, trigger_us: int) -> None:
        self._trigger_us = trigger_us
        self._impatient = np.flatnonzero(~patient)
        self.key_us: Int64s = np.empty(0, np.int64)
        """Keys that some rule has not closed, ascending, shape (keys,)."""
        self.missed: _Bools = np.zeros(0, bool)
        """Keys that were missing rows when they should have been closed, shape (keys,)."""
        self._has_rows: _Bools = np.zeros(0, bool)
        self._new: _Bools = np.zeros(0, bool)
        """Keys that were opened since the last call of ``close``, shape (keys,)."""
        self._closed_us = np.full(len(patient), NO_BASE_US)
        self.closed: Float64s = np.zeros(len(patient))
        """Latencies of the keys that each rule has closed, in triggers, summed, shape (rules,)."""
        self.done_us = NO_BASE_US
        """Keys up to this one are closed under every rule."""
        self.settled_us = NO_BASE_US
        """Keys up to this one are closed under every rule but the patient ones: nobody waits for rows they miss."""

    def open(self, key_us: Int64s, *, has_rows: bool = False) -> None:
        """Open keys whose rows have come (``has_rows``) or are missing; distinct ones, ascending, shape (keys,)."""
        key_us = key_us[key_us.searchsorted(self.done_us, side="right") :]
        if not len(key_us):
            return
        at, is_open = self.places(key_us)
        if not is_open.all():
            self._insert(key_us[~is_open])
            at, is_open = self.places(key_us)
        if has_rows:
            self._has_rows[at] = True

    def places(self, key_us: Int64s) -> tuple[NDArray[np.intp], _Bools]:
        """Return the place of each key among those that are open, and whether it is one of them, shape (keys,) each."""
        if not len(self.key_us):
            return np.zeros(len(key_us), np.intp), np.zeros(len(key_us), bool)
        return places_in(self.key_us, key_us)

    def _insert(self, key_us: Int64s) -> None:
        keys = np.concatenate([self.key_us, key_us])
        order = keys.argsort(kind="stable")
        none = np.zeros(len(key_us), bool)
        self.key_us = keys[order]
        self.missed = np.concatenate([self.missed, none])[order]
        self._has_rows = np.concatenate([self._has_rows, none])[order]
        self._new = np.concatenate([self._new, ~none])[order]

    def close(self, now_us: int, watermark_us: Int64s) -> None:
        """Close keys under the rules' watermarks, shape (rules,), which never move back."""
        if not len(self.key_us) or self.key_us[0] > watermark_us.max():
            return
        waiting = self._waiting(now_us)
        under = sums_below(self.key_us, waiting, watermark_us)
        self.closed += under - self._closed_sums(waiting)
        self._closed_us = watermark_us
        self._new[:] = False
        self.settled_us = self._newest_under(int(watermark_us[self._impatient].min()), self.settled_us)
        self.done_us = self._newest_under(int(watermark_us.min()), self.done_us)
        done = int(self.key_us.searchsorted(self.done_us, side="right"))
        if done:
            self.key_us, self.missed = self.key_us[done:], self.missed[done:]
            self._has_rows, self._new = self._has_rows[done:], self._new[done:]

    def latency(self, now_us: int) -> Float64s:
        """Return each rule's latencies so far in triggers, summed over keys, open ones included, shape (rules,)."""
        if not len(self.key_us):
            return self.closed.copy()
        waiting = self._waiting(now_us)
        total: Float64s = self.closed + (waiting.sum() - self._closed_sums(waiting))
        return total

    def _waiting(self, now_us: int) -> Float64s:
        """Return for how long each open key has waited, in triggers; one without rows does not wait."""
        waiting: Float64s = np.maximum((now_us - self.key_us) / self._trigger_us, 0) * self._has_rows
        return waiting

    def _closed_sums(self, waiting: Float64s) -> Float64s:
        """Return the sums over the keys that each rule has closed: not those that have come since, shape (rules,)."""
        return sums_below(self.key_us, waiting * ~self._new, self._closed_us)

    def _newest_under(self, watermark_us: int, before_us: int) -> int:
        keys = int(self.key_us.searchsorted(watermark_us, side="right"))
        return max(before_us, int(self.key_us[keys - 1])) if keys else before_us
