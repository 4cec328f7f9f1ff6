"""Joined streams and their exact replay by Spark's rules: what is late, and how many rows are in the state."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tidemark.models.base.operators import Int64s
from tidemark.models.evidence.joint_needs import JointNeeds
from tidemark.models.evidence.needs import needs_us

NO_BASE = -(2**62)
TICK_US = 1_000


@dataclass(frozen=True)
class Replayed:
    """What became of the rows."""

    late: tuple[int, ...]
    """Late rows of each side."""
    state_rows: Int64s
    """Rows in the state after each batch, shape (batches,)."""


@dataclass(frozen=True)
class JoinedStreams:
    """The rows of each side: event times in microseconds and the batch in which each came, shape (rows,)."""

    times_us: Sequence[Int64s]
    batches: Sequence[Int64s]

    @property
    def count(self) -> int:
        """Batches, with two in which the last ones have their effect."""
        return max((int(batch.max()) for batch in self.batches if len(batch)), default=0) + 3

    def bases_us(self) -> Int64s:
        """Return the base of each side that the late filter of each batch knows, shape (batches, sides)."""
        bases = np.full((self.count, len(self.times_us)), NO_BASE, np.int64)
        for side, (times_us, batch) in enumerate(zip(self.times_us, self.batches, strict=True)):
            # W(n-1) judges batch n and is made of the batches up to n-2.
            np.maximum.at(bases[:, side], batch + 2, times_us // TICK_US * TICK_US)
        return np.maximum.accumulate(bases, axis=0)

    def needs(self) -> JointNeeds:
        """Return the needs of all rows that a watermark judges."""
        bases_us, names = self.bases_us(), [str(side) for side in range(len(self.times_us))]
        parts = []
        for side, (times_us, batch) in enumerate(zip(self.times_us, self.batches, strict=True)):
            judged = (bases_us[batch] > NO_BASE).all(axis=1)
            key_us, base_us = times_us[judged], bases_us[batch[judged]]
            needs = np.column_stack([needs_us(key_us, base_us[:, i], TICK_US) for i in range(len(names))])
            own = np.full(len(key_us), side, np.int64)
            parts.append(JointNeeds.counted(names, own, needs, np.ones(len(key_us), np.int64)))
        return JointNeeds.merged(parts)

    def replay(self, bounds_ms: Sequence[int], retention_us: Sequence[int]) -> Replayed:
        """Return what becomes of the rows under bounds, one for each side, by the policy ``min``.

        Args:
            bounds_ms: the sides' bounds.
            retention_us: how far the watermark must come beyond the time of a side's row until it leaves the state.
        """
        judging_us = self._judging_us(bounds_ms)
        # What judges batch n was in force in batch n-1, and that of a batch evicts after it.
        in_force_us = np.append(judging_us[1:], judging_us[-1])
        late, change = self.late_rows(bounds_ms), np.zeros(self.count + 1, np.int64)
        sides = zip(self.times_us, self.batches, late, retention_us, strict=True)
        for times_us, batch, dropped, kept_us in sides:
            came = batch[~dropped]
            gone = np.searchsorted(in_force_us, times_us[~dropped] + kept_us, side="left")
            np.add.at(change, came, 1)
            np.add.at(change, np.maximum(came, gone), -1)
        return Replayed(tuple(int(each.sum()) for each in late), np.cumsum(change)[:-1])

    def late_rows(self, bounds_ms: Sequence[int]) -> list[NDArray[np.bool_]]:
        """Return for each row of each side whether it is late under these bounds, shape (rows,)."""
        judging_us = self._judging_us(bounds_ms)
        return [
            times_us <= judging_us[batch] for times_us, batch in zip(self.times_us, self.batches, strict=True)
        ]

    def _judging_us(self, bounds_ms: Sequence[int]) -> Int64s:
        """Return the watermark that judges the rows of each batch, shape (batches,)."""
        judging_us: Int64s = (self.bases_us() - np.array(bounds_ms, np.int64) * TICK_US).min(axis=1)
        return judging_us
