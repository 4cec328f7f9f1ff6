"""Times of many batches in little memory."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tidemark.models.base.operators import Int64s

_SMALL = np.iinfo(np.int32)
_Differences = NDArray[np.int32] | NDArray[np.int64]


class PackedTimes:
    """Times in microseconds, in the order given, held as differences: 4 bytes each while all differ by little."""

    __slots__ = ("_differences", "_first_us", "_last_us")

    def __init__(self, times_us: Int64s) -> None:
        self._first_us = self._last_us = 0
        self._differences: _Differences = np.empty(0, np.int32)
        self.extend(times_us)

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._differences)

    @property
    def nbytes(self) -> int:
        """Memory that they take, in bytes."""
        return self._differences.nbytes

    def extend(self, times_us: Int64s) -> None:
        """Add times after the last one."""
        if not len(times_us):
            return
        if not len(self):
            self._first_us = self._last_us = int(times_us[0])
        differences = np.diff(times_us, prepend=self._last_us)
        # Where one of the two needs 64 bits, both get them.
        self._differences = np.concatenate([self._differences, _packed(differences)])
        self._last_us = int(times_us[-1])

    def drop(self, count: int) -> None:
        """Remove the first ``count`` times."""
        if not count:
            return
        if count < len(self):
            self._first_us += int(self._differences[: count + 1].sum(dtype=np.int64))
        # A copy, so that the memory of the others is let go.
        self._differences = self._differences[count:].copy()
        if len(self):
            self._differences[0] = 0
            self._differences = _packed(self._differences)

    def times_us(self) -> Int64s:
        """Return the times, shape (n,)."""
        return self._first_us + np.cumsum(self._differences, dtype=np.int64)


def _packed(differences: _Differences) -> _Differences:
    """Return differences, at least one, in 32 bits each if they fit."""
    small = _SMALL.min <= differences.min() and differences.max() <= _SMALL.max
    return differences.astype(np.int32) if small else differences
