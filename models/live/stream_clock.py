"""The stream's clock: the wall clock, which stands while the feed as a whole falls behind."""

from __future__ import annotations

from collections import deque

import numpy as np
from numpy.typing import NDArray

from tidemark.models.base.operators import Int64s
from tidemark.models.live.ages import Float64s
from tidemark.models.live.policy import NO_BASE_US, Observation

STREAM, PARTITIONS = 0, 1
import os
LIFE = float(os.environ.get('LIFE','0.5'))

_BUCKETS = 48
_GROWTH = 1.2
_EDGES = np.concatenate([[0.0], _GROWTH ** np.arange(_BUCKETS - 1)])


class UsualLags:
    """How far behind the wall clock each column usually is."""

    def __init__(self, half_life: float, slack: float) -> None:
        self._decay = 0.5 ** (1 / half_life)
        self._slack = slack
        self._counts = np.zeros((0, _BUCKETS))
        self._worst = np.zeros(0)
        self._usual = np.zeros(0)
        self.behind: NDArray[np.bool_] = np.zeros(0, bool)

    def widen(self, columns: int) -> None:
        new = columns - len(self._worst)
        if new > 0:
            self._counts = np.vstack([self._counts, np.zeros((new, _BUCKETS))])
            self._worst = np.append(self._worst, np.zeros(new))
            self._usual = np.append(self._usual, np.zeros(new))
            self.behind = np.append(self.behind, np.zeros(new, bool))

    def add(self, lag: Float64s, counted: NDArray[np.bool_]) -> None:
        """Add the lags in triggers; an episode behind the usual counts once, with its longest."""
        known = self._counts.sum(axis=1) >= 4
        behind = known & (lag > 2 * self._usual + self._slack)
        ended = self.behind & ~behind
        self._worst = np.where(behind, np.maximum(self._worst, lag), self._worst)
        self._counts *= self._decay
        calm = np.flatnonzero(~behind & counted)
        self._counts[calm, np.searchsorted(_EDGES[:-1], lag[calm])] += 1
        over = np.flatnonzero(ended)
        self._counts[over, np.searchsorted(_EDGES[:-1], self._worst[over])] += 1
        self._worst[~behind] = 0
        self.behind = behind
        total = np.cumsum(self._counts, axis=1)
        self._usual = _EDGES[(total >= 0.95 * total[:, -1:]).argmax(axis=1)]


class StreamClock:
    """The clock by which keys age."""

    def __init__(self, trigger_us: int, span_triggers: float, granule_us: int) -> None:
        self._trigger_us = trigger_us
        self._lags = UsualLags(64 * span_triggers, max(granule_us / trigger_us, 1))
        self._base_us: Int64s = np.full(1, NO_BASE_US)
        self._last_us: Int64s = np.zeros(1, np.int64)
        self.delivered = self.rested = 0
        self._now_us = 0
        self._first_us: Int64s = np.zeros(1, np.int64)
        self._clock_us: Int64s = np.full(2, NO_BASE_US)
        self._decided: deque[tuple[int, Int64s, NDArray[np.bool_]]] = deque()
        self._now = self._clock_us, np.zeros(2, bool)

    @property
    def behind(self) -> bool:
        return bool(self._lags.behind[0]) if len(self._lags.behind) else False

    @property
    def columns_behind(self) -> NDArray[np.bool_]:
        silent = self._now_us - self._last_us > 4 * self._trigger_us
        return self._lags.behind & silent & (self.delivered > self.rested)

    def observe(self, seen: Observation) -> None:
        event, count = np.minimum(seen.event_us, seen.now_us), seen.count
        columns = int(seen.partition.max()) + 2
        new = columns - len(self._base_us)
        if new > 0:
            self._base_us = np.append(self._base_us, np.full(new, NO_BASE_US))
            self._last_us = np.append(self._last_us, np.zeros(new, np.int64))
            self._first_us = np.append(self._first_us, np.full(new, seen.now_us))
            self._lags.widen(columns)
        self._see_returned(seen)
        np.maximum.at(self._base_us, seen.partition + 1, event)
        self._last_us[seen.partition + 1] = seen.now_us
        keep = seen.event_us <= seen.now_us
        if not keep.any():
            return
        event, count = event[keep], count[keep]
        order = np.argsort(event, kind="stable")
        rows = np.cumsum(count[order])
        place = int(np.searchsorted(rows, rows[-1] - int(0.005 * rows[-1])))
        self._base_us[0] = max(self._base_us[0], int(event[order[place]]))
        self._last_us[0] = seen.now_us

    def _see_returned(self, seen: Observation) -> None:
        """Count the silences that end with this batch: those with rows from meanwhile, and those without."""
        oldest = np.full(len(self._base_us), seen.now_us)
        np.minimum.at(oldest, seen.partition + 1, seen.event_us)
        returned = np.unique(seen.partition + 1)
        returned = returned[self._lags.behind[returned] & (self._last_us[returned] < seen.now_us - 4 * self._trigger_us)]
        half_us = (seen.now_us + self._last_us[returned]) // 2
        late = oldest[returned] <= half_us
        self.delivered += int(late.sum())
        self.rested += int((~late).sum())

    def patience(self, longest: float) -> Float64s:
        """For how many triggers each column may be silent before it counts as stopped."""
        life = LIFE * (self._last_us - self._first_us) / self._trigger_us
        return np.maximum(longest, life * (self.delivered > self.rested))

    def decide(self, now_us: int, in_force_us: int, longest: float) -> Int64s:
        if self._base_us[0] == NO_BASE_US:
            return np.full(2, in_force_us)
        self._now_us = now_us
        silent = now_us - self._last_us > np.maximum(longest * self._trigger_us, LIFE * (self._last_us - self._first_us))
        silent[0] = False
        lag = (now_us - self._base_us) / self._trigger_us
        self._lags.add(np.maximum(lag, 0), ~silent)
        behind = self._lags.behind
        clock = np.where(behind, self._base_us, in_force_us)
        partitions = clock[~silent].min()
        self._clock_us = np.maximum(self._clock_us, [clock[0], partitions])
        self._decided.append((in_force_us, self._clock_us, np.array([behind[0], (behind & ~silent).any()])))
        return self._clock_us

    def at(self, now_us: int) -> Int64s:
        """The stream's times at a wall time, shape (2,)."""
        while self._decided and self._decided[0][0] <= now_us:
            _, *self._now = self._decided.popleft()
        clock, behind = self._now
        return np.where(behind, np.minimum(now_us, clock), now_us)
