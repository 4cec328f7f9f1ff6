"""Ages: how long after its key a row came, in triggers, counted in buckets of one grid.

A key closes at a batch and a row comes in a batch, so an age counts to the end of the row's batch: the earliest age at
which its key could have closed and still admitted it. Buckets are a quarter of a trigger wide near 0 and grow
by 3 % beyond, on both sides: a clock that lags, or windows that rows fill before they end, make negative ages. The
grid's unit is the trigger, so a stream with all its times scaled is counted the same way.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tidemark.models.live.learned import Arrays, checked

Float64s = NDArray[np.float64]

_WIDTH = 0.25
_EVEN = 64
_GROWTH = 1.03
_GROWING = 330

_POSITIVE = np.concatenate(
    [np.arange(_EVEN + 1) * _WIDTH, _EVEN * _WIDTH * _GROWTH ** np.arange(1, _GROWING + 1)]
)
UPPER: Float64s = np.concatenate([-_POSITIVE[:0:-1], _POSITIVE])

BUCKETS = len(UPPER)
"""Number of buckets; bucket i holds the ages above its lower edge, up to and including its upper one."""

ZERO = int(np.searchsorted(UPPER, 0.0, side="left"))
"""The bucket that ends at age 0."""

_LOWER: Float64s = np.concatenate([[UPPER[0] * _GROWTH], UPPER[:-1]])

CLOSE_AFTER: Float64s = np.maximum(_LOWER, UPPER - 1)
"""A key that closes at the first trigger at which its age is above this admits the ages of the bucket.

It is the bucket's lower edge, or, where a bucket is wider than a trigger, one trigger before its upper one.
"""

WIDE = UPPER - _LOWER > 1
"""Buckets that are wider than a trigger: a key may be inside one."""

WAIT: Float64s = np.maximum(CLOSE_AFTER, 0)
"""Minimum cost of closing a key in each bucket: closing before its end costs nothing."""


def bucket_of(age: Float64s) -> NDArray[np.intp]:
    """Return the bucket of each age in triggers: ages beyond the grid count as those at its ends."""
    return UPPER[:-1].searchsorted(age)


_MAX_TRIGGERS = 2.0**22
"""Triggers whose keys are counted one by one, 48 days at a second: in single precision 2**24 plus one is no more."""

_MAX_STEPS = 64
"""Spans of time whose decay is kept: nearly all are one trigger."""


class Stragglers:
    """Rows per key by age, over several half-lives and for several kinds of keys.

    Args:
        half_lives: half-lives in triggers, infinity for never forgetting, shape (memories,).
        kinds: number of kinds.
        keys_per_trigger: keys that end in a trigger.
    """

    def __init__(self, half_lives: Sequence[float], kinds: int, keys_per_trigger: float) -> None:
        self._decay = 0.5 ** (1 / np.array(half_lives, np.float64))[:, None]
        self._keys_per_trigger = keys_per_trigger
        self._rows = np.zeros((len(half_lives), kinds, BUCKETS), np.float32)
        self._keys = np.zeros((len(half_lives), BUCKETS), np.float32)
        self._end = ZERO + 1
        """Bucket after the last one with rows, and after that of age 0."""
        self._late: Float64s | None = None
        self._steps: dict[int, tuple[NDArray[np.float32], NDArray[np.float32]]] = {}

    def advance(self, triggers: int, elapsed: float) -> None:
        """Let ``triggers`` pass; the stream is then ``elapsed`` triggers old."""
        decay, new = self._step(triggers)
        self._rows[:, :, : self._end] *= decay[:, :, None]
        self._keys *= decay
        self._keys[:, : CLOSE_AFTER.searchsorted(elapsed, side="right")] += new
        # Halved, what never forgets says the same of a key, and goes on counting.
        full = self._keys[:, 0] > _MAX_TRIGGERS * self._keys_per_trigger
        if full.any():
            self._rows[full] *= 0.5
            self._keys[full] *= 0.5
        self._late = None

    def add(self, age: Float64s, rows: Float64s) -> None:
        """Count rows by kind, shape (kinds, counts), and their age in triggers, of the same shape or (counts,)."""
        if not age.size:
            return
        bucket = bucket_of(age)
        first, end = int(bucket.min()), int(bucket.max()) + 1
        kinds, buckets = len(rows), end - first
        place = bucket - first + buckets * np.arange(kinds)[:, None]
        counted = np.bincount(place.reshape(-1), rows.reshape(-1), kinds * buckets).reshape(kinds, buckets)
        self._rows[:, :, first:end] += counted.astype(np.float32)
        self._end = max(self._end, end)
        self._late = None

    def learned(self) -> Arrays:
        """Return the counts."""
        return {"rows": self._rows, "keys": self._keys}

    def resume(self, learned: Arrays) -> None:
        """Go on with counts."""
        checked(learned, {"rows": self._rows.shape, "keys": self._keys.shape})
        self._rows, self._keys = learned["rows"].astype(np.float32), learned["keys"].astype(np.float32)
        counted = np.flatnonzero(self._rows.any(axis=(0, 1)))
        self._end = max(self._end, int(counted.max(initial=-1)) + 1)
        self._late = None

    def beyond(self) -> Float64s:
        """Return the rows that a key gets after each bucket, shape (memories, kinds, BUCKETS)."""
        return self._beyond(0, BUCKETS)

    def late(self) -> Float64s:
        """Return the same from the bucket of age 0 on, up to the first one after which no row came.

        It is kept until something changes, shape (memories, kinds, buckets).
        """
        if self._late is None:
            self._late = self._beyond(ZERO, self._end)
        return self._late

    def _beyond(self, first: int, end: int) -> Float64s:
        keys = self._keys[:, first:end]
        # No key was old enough to show some ages; keys from before the stream was observed may have shown them.
        # Keys have shown young ages for longest, so the first bucket counts the most of them.
        keys = np.maximum(np.where(keys > 0, keys, self._keys[:, :1]), 1e-9)
        rows = self._rows[:, :, first:end] / keys[:, None, :]
        after = np.zeros(rows.shape)
        after[:, :, :-1] = rows[:, :, :0:-1].cumsum(axis=2)[:, :, ::-1]
        return after

    def _step(self, triggers: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Return what is left after so many triggers, and the keys that they bring, shape (memories, 1) each."""
        step = self._steps.get(triggers)
        if step is None:
            decay = self._decay**triggers
            with np.errstate(invalid="ignore", divide="ignore"):
                new = np.where(self._decay < 1, (1 - decay) / (1 - self._decay), triggers)
            step = decay.astype(np.float32), (new * self._keys_per_trigger).astype(np.float32)
            if len(self._steps) < _MAX_STEPS:
                self._steps[triggers] = step
        return step
