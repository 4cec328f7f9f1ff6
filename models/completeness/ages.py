"""Slots of age: how long after the end of its window, by the stream's base, a row was read.

The base is the newest event time read, so that age stands still while nothing is read. Before the end a slot is an
eighth of the window's span; after it slots grow by a fifth each, from a hundredth of the span on: a window has few of
them, however late its last row comes.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

from tidemark.models.base.operators import Int64s

Float64s = NDArray[np.float64]

_OPEN = 8
"""Slots before the end; one more has what is dated further ahead."""
_DOUBLING = 4
"""Slots in which a time since the end doubles, once it is long."""
_FINEST = 16
"""The part of the span at which it begins to."""
_DOUBLINGS = 20

SLOTS = 1 + _OPEN + _DOUBLING * _DOUBLINGS
"""Number of slots; the last one has all that comes later."""


def slot_of(age_us: Int64s | Float64s, span_us: int) -> Int64s:
    """Return the slot of each age, from 0, shape (n,).

    Args:
        age_us: base after the batch less the window's end, in microseconds; negative while the window is filling.
        span_us: length of the window in microseconds.
    """
    spans = np.asarray(age_us, np.float64) / span_us
    after = np.floor(_DOUBLING * np.log2(1 + _FINEST * np.maximum(spans, 0)))
    slot = 1 + _OPEN + np.where(spans < 0, np.floor(spans * _OPEN), after)
    clipped: Int64s = np.clip(slot, 0, SLOTS - 1).astype(np.int64)
    return clipped


@cache
def edges_us(span_us: int) -> Float64s:
    """Return where the slots begin, and the last one ends, as ages in microseconds, shape (slots + 1,)."""
    number = np.arange(SLOTS + 1) - 1.0 - _OPEN
    spans = np.where(number < 0, number / _OPEN, (2 ** (np.maximum(number, 0) / _DOUBLING) - 1) / _FINEST)
    edges: Float64s = spans * span_us
    return edges
