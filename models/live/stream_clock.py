"""The stream's clock: the wall clock, which stands while the feed as a whole falls behind."""

from __future__ import annotations

from collections import deque

import numpy as np
from numpy.typing import NDArray

from tidemark.models.base.operators import Int64s
from tidemark.models.live.ages import Float64s
from tidemark.models.live.policy import NO_BASE_US, Observation

_Bools = NDArray[np.bool_]

STREAM, PARTITIONS = 0, 1
LIFE = 0.5
GAPS = 1.5
SILENT = 4

_BUCKETS = 48
_GROWTH = 1.2
_EDGES = np.concatenate([[0.0], _GROWTH ** np.arange(_BUCKETS - 1)])


class StreamClock:
    """The clocks by which keys age: column 0 is the stream, partition p is column p + 1. Times in triggers."""

    def __init__(self, trigger_us: int, span_triggers: float, granule_us: int) -> None:
        self._trigger_us = trigger_us
        self._decay = 0.5 ** (1 / (64 * span_triggers))
        self._slack_us = max(granule_us, trigger_us)
        self._now_us = 0
        self._base_us: Int64s = np.empty(0, np.int64)
        self._first_us: Int64s = np.empty(0, np.int64)
        self._last_us: Int64s = np.empty(0, np.int64)
        self._peak_us: Int64s = np.empty(0, np.int64)
        """Lag before the newest rows since the last decision, -1 without."""
        self._worst_us: Int64s = np.empty(0, np.int64)
        self._counts = np.empty((0, _BUCKETS))
        self._usual_us: Float64s = np.empty(0)
        self._delivered: Float64s = np.empty(0)
        self._rested: Float64s = np.empty(0)
        self._gap_us: Float64s = np.empty(0)
        self.behind: _Bools = np.empty(0, bool)
        self._clock_us: Int64s = np.full(2, NO_BASE_US)
        self._decided: deque[tuple[int, Int64s, _Bools]] = deque()
        self._now = self._clock_us, np.zeros(2, bool)
        self._widen(1)

    def _widen(self, columns: int) -> None:
        new = columns - len(self._base_us)
        if new <= 0:
            return
        for name, value in (
            ("_base_us", NO_BASE_US), ("_first_us", self._now_us), ("_last_us", self._now_us), ("_peak_us", -1), ("_worst_us", 0),
            ("_usual_us", 0.0), ("_delivered", 0.0), ("_rested", 0.0), ("_gap_us", 0.0), ("behind", False),
        ):
            old = getattr(self, name)
            setattr(self, name, np.append(old, np.full(new, value, old.dtype)))
        self._counts = np.vstack([self._counts, np.zeros((new, _BUCKETS))])

    def observe(self, seen: Observation) -> None:
        """Take the rows of a batch."""
        now_us = self._now_us = seen.now_us
        self._widen(int(seen.partition.max()) + 2)
        newest = np.full(len(self._base_us), NO_BASE_US)
        oldest = np.full(len(self._base_us), now_us)
        np.maximum.at(newest, seen.partition + 1, np.minimum(seen.event_us, now_us))
        np.minimum.at(oldest, seen.partition + 1, seen.event_us)
        keep = seen.event_us <= now_us
        if keep.any():
            event, count = seen.event_us[keep], seen.count[keep]
            order = np.argsort(event, kind="stable")
            rows = np.cumsum(count[order])
            newest[STREAM] = event[order[int(np.searchsorted(rows, rows[-1] - int(0.005 * rows[-1])))]]
            oldest[STREAM] = event[order[int(np.searchsorted(rows, int(0.005 * rows[-1]), side="right"))]]
        column = np.flatnonzero(newest > NO_BASE_US)
        known = column[self._base_us[column] > NO_BASE_US]
        silence_us = now_us - self._last_us[known]
        returned = silence_us > SILENT * self._trigger_us
        ended, silence_us = known[returned], silence_us[returned]
        late = oldest[ended] <= now_us - silence_us // 2
        self._delivered[ended] += late
        self._rested[ended] += ~late
        self._gap_us[ended] = np.where(late, np.maximum(self._gap_us[ended], silence_us), self._gap_us[ended])
        self._peak_us[known] = np.maximum(self._peak_us[known], now_us - self._base_us[known])
        fresh = column[self._base_us[column] == NO_BASE_US]
        self._first_us[fresh] = now_us
        self._base_us[column] = np.maximum(self._base_us[column], newest[column])
        self._last_us[column] = now_us

    def patience_us(self, longest_us: float, *, trusting: bool = False) -> Float64s:
        """For how long each column may be silent before it counts as stopped."""
        life = LIFE * (self._last_us - self._first_us) * (trusting | (self._delivered[1:].sum() > self._rested[1:].sum()))
        return np.maximum(np.maximum(longest_us, life), GAPS * self._gap_us * self.delivers)

    @property
    def delivers(self) -> _Bools:
        return self._delivered > self._rested

    @property
    def outstanding(self) -> _Bools:
        """Columns that are silent and usually deliver after a silence."""
        return (self._now_us - self._last_us > SILENT * self._trigger_us) & self.delivers & self.behind

    def decide(self, now_us: int, in_force_us: int, longest: float) -> Int64s:
        """Return the times by which keys age when a decision is in force, shape (2,)."""
        if self._base_us[STREAM] == NO_BASE_US:
            return np.full(2, in_force_us)
        self._now_us = now_us
        lag_us = now_us - self._base_us
        self._learn(lag_us)
        clock = np.where(self.behind, self._base_us, in_force_us)
        silent = now_us - self._last_us > self.patience_us(longest * self._trigger_us, trusting=True)
        silent[STREAM] = False
        silent |= self._base_us == NO_BASE_US
        partitions = clock[~silent].min()
        self._clock_us = np.maximum(self._clock_us, [clock[STREAM], partitions])
        self._decided.append((in_force_us, self._clock_us, np.array([self.behind[STREAM], (self.behind & ~silent).any()])))
        return self._clock_us

    def _learn(self, lag_us: Int64s) -> None:
        limit_us = 2 * self._usual_us + self._slack_us
        known = (self._counts.sum(axis=1) >= SILENT) | self.delivers
        was, self.behind = self.behind, known & (lag_us > limit_us)
        arrived = self._peak_us >= 0
        calm = arrived & ~self.behind & ~was
        over = was & ~self.behind & ~self.delivers
        self._worst_us = np.where(self.behind, np.maximum(self._worst_us, lag_us), self._worst_us)
        counted = np.where(over, self._worst_us, self._peak_us) / self._trigger_us
        which = np.flatnonzero(over | calm & ~(self.delivers & (self._peak_us > limit_us)))
        self._counts *= self._decay
        self._counts[which, np.searchsorted(_EDGES[:-1], counted[which])] += 1
        self._worst_us[~self.behind] = 0
        self._peak_us[:] = -1
        total = np.cumsum(self._counts, axis=1)
        self._usual_us = _EDGES[(total >= 0.95 * total[:, -1:]).argmax(axis=1)] * self._trigger_us

    def at(self, now_us: int) -> Int64s:
        """Return the times by which keys have aged at a wall time, shape (2,)."""
        while self._decided and self._decided[0][0] <= now_us:
            _, *self._now = self._decided.popleft()
        clock, behind = self._now
        return np.where(behind, np.minimum(now_us, clock), now_us)
