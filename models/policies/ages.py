"""Ages: how long after its key a row came, in triggers, counted in buckets of one grid.

A key closes at a batch and a row comes in a batch, so an age counts to the end of the row's batch: the earliest age at
which its key could have closed and still admitted it. Buckets are a quarter of a trigger wide near 0 and grow
by 3 % beyond, on both sides: a clock that lags, or windows that rows fill before they end, make negative ages. The
grid's unit is the trigger, so a stream with all its times scaled is counted the same way.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Float64s = NDArray[np.float64]

_WIDTH = 0.25
_EVEN = 64
_GROWTH = 1.03
_GROWING = 330

_POSITIVE = np.concatenate(
    [np.arange(_EVEN + 1) * _WIDTH, _EVEN * _WIDTH * _GROWTH ** np.arange(1, _GROWING + 1)]
)
_UPPER: Float64s = np.concatenate([-_POSITIVE[:0:-1], _POSITIVE])

BUCKETS = len(_UPPER) + 1
"""Number of buckets; bucket i holds the ages above its lower edge, up to and including its upper one."""

ZERO = int(np.searchsorted(_UPPER, 0.0, side="left"))
"""The bucket that ends at age 0."""

_LOWER: Float64s = np.concatenate([[_UPPER[0] * _GROWTH], _UPPER])

CLOSE_AFTER: Float64s = np.maximum(_LOWER, np.append(_UPPER - 1, _LOWER[-1]))
"""A key that closes at the first trigger at which its age is above this admits the ages of the bucket.

It is the bucket's lower edge, or, where a bucket is wider than a trigger, one trigger before its upper one.
"""

WIDE = np.append(np.diff(_LOWER), np.inf) > 1
"""Buckets that are wider than a trigger: a key may be inside one."""

WAIT: Float64s = np.maximum(CLOSE_AFTER, 0)
"""Minimum cost of closing a key in each bucket: closing before its end costs nothing."""


def bucket_of(age: Float64s) -> NDArray[np.intp]:
    """Return the bucket of each age in triggers; ages beyond the grid fall into its first and last bucket."""
    return np.searchsorted(_UPPER, age, side="left")
