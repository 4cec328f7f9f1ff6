"""Which windows reach the target, under each rule and under the policy itself."""

from __future__ import annotations

import numpy as np

from tidemark.models.operators import Int64s
from tidemark.models.policies.ages import Float64s

_MAX_WINDOWS = 512
"""Newest windows whose rows are still counted; the outcome of older ones is final."""


class GoodWindows:
    """Counts windows that miss the target.

    Args:
        rules: number of rules.
        budget_share: share of a window's pairs that may be late.
    """

    def __init__(self, rules: int, budget_share: float) -> None:
        self._share = budget_share
        self._key_us: Int64s = np.empty(0, np.int64)
        self._pairs = np.zeros(0)
        self._late = np.zeros((0, rules + 1), np.float32)
        self._settled = np.zeros(rules + 1)
        self._windows = 0

    def add(self, key_us: Int64s, count: Int64s, watermark_us: Int64s) -> None:
        """Count the pairs of a batch.

        Args:
            key_us: distinct window ends, ascending, shape (keys,).
            count: pairs of each, shape (keys,).
            watermark_us: watermark that judges them, of each rule and, last, of the policy, shape (rules + 1,).
        """
        first = self._key_us[0] if len(self._key_us) == _MAX_WINDOWS else None
        if first is not None:
            counted = key_us >= first
            key_us, count = key_us[counted], count[counted]
        new = np.setdiff1d(key_us, self._key_us, assume_unique=True)
        if len(new):
            keys = np.concatenate([self._key_us, new])
            order = np.argsort(keys, kind="stable")
            width = self._late.shape[1]
            self._key_us = keys[order]
            self._pairs = np.concatenate([self._pairs, np.zeros(len(new))])[order]
            self._late = np.vstack([self._late, np.zeros((len(new), width), np.float32)])[order]
            self._windows += len(new)
        at = np.searchsorted(self._key_us, key_us)
        self._pairs[at] += count
        self._late[at] += (key_us[:, None] <= watermark_us[None, :]) * count[:, None]
        surplus = len(self._key_us) - _MAX_WINDOWS
        if surplus > 0:
            self._settled += self._missed(slice(surplus))
            self._key_us, self._pairs = self._key_us[surplus:], self._pairs[surplus:]
            self._late = self._late[surplus:]

    @property
    def windows(self) -> int:
        """Windows seen so far."""
        return self._windows

    def missed(self) -> Float64s:
        """Return how many windows miss the target so far, by rule and, last, by the policy, shape (rules + 1,)."""
        missed: Float64s = self._settled + self._missed(slice(None))
        return missed

    def _missed(self, which: slice) -> Float64s:
        short = self._late[which] > self._share * self._pairs[which, None] + 1e-6
        total: Float64s = short.sum(axis=0).astype(np.float64)
        return total
