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
        self._known = 0, b"", b""
        """Version, partitions and times for which ``_up_to`` has the shares of silent partitions."""
        self._up_to: NDArray[np.float32] = np.empty((0, 0), np.float32)

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

    def outstanding(
        self, silent: _Indices, since_us: Int64s, now: _Indices, then: _Indices
    ) -> NDArray[np.float32]:
        """Return what silent partitions usually would have sent since, 0 where it is little, shape (cohorts, silent).

        Args:
            silent: their columns, shape (silent,).
            since_us: when each fell silent; until it sends again its profile changes only with the version.
            now: the place of each cohort by now, shape (cohorts,).
            then: the same when each partition fell silent, shape (cohorts, silent).
        """
        known = self.version, silent.tobytes(), since_us.tobytes()
        if known != self._known:
            self._known, self._up_to = known, self.delivered(silent).astype(np.float32)
        share: NDArray[np.float32] = self._up_to.T[now] - self._up_to[np.arange(len(silent)), then]
        share[share <= SILENT_SHARE] = 0
        return share

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


# Inside a wide bucket, rows that belong to it may still come.
_WHOLE = np.maximum(np.arange(BUCKETS) - WIDE, 0)


def delivered_bucket(age_us: Int64s, trigger_us: int) -> _Indices:
    """Return the bucket up to which the rows of cohorts that began so many microseconds ago have been delivered."""
    bucket: _Indices = _WHOLE[bucket_of(age_us / trigger_us)]
    return bucket
