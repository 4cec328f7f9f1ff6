"""The stream's clock: the wall clock, which stands while the feed as a whole falls behind."""

from __future__ import annotations

from collections import deque

import numpy as np

from tidemark.models.live.policy import NO_BASE_US, Observation


class StreamClock:
    """The clock by which keys age."""

    def __init__(self, trigger_us: int, span_triggers: float, share: float) -> None:
        self._trigger_us = trigger_us
        self._decay = 0.5 ** (1 / (64 * span_triggers))
        self._share = share
        self._base_us = NO_BASE_US
        self._counts = np.zeros(256)
        self._clock_us = NO_BASE_US
        self._decided: deque[tuple[int, int, bool]] = deque()
        self._now = (NO_BASE_US, True)
        self._usual_us = 0.0
        self._worst_us = 0
        self._young = span_triggers
        self.behind = False

    def observe(self, seen: Observation) -> None:
        event, count = seen.event_us, seen.count
        keep = event <= seen.now_us
        if not keep.any():
            return
        event, count = event[keep], count[keep]
        order = np.argsort(event, kind="stable")
        rows = np.cumsum(count[order])
        place = int(np.searchsorted(rows, rows[-1] - max(int(0.005 * rows[-1]), 0)))
        granule = self._granule_us
        self._base_us = max(self._base_us, min(int(event[order[min(place, len(order) - 1)]]), seen.now_us))

    _granule_us = 0

    def _bucket(self, lag_us: float) -> int:
        x = max(lag_us / self._trigger_us, 0.0)
        return int(min(np.ceil(np.log1p(x) / np.log1p(0.1)), 255))

    def _edge(self, bucket: int) -> float:
        return float(np.expm1(bucket * np.log1p(0.1))) * self._trigger_us

    def decide(self, now_us: int, in_force_us: int) -> int:
        if self._base_us == NO_BASE_US:
            return in_force_us
        lag_us = now_us - self._base_us
        limit_us = 2 * self._usual_us + self._granule_us if self._counts.sum() >= self._young else 2**62
        behind = lag_us > limit_us
        if not behind:
            if self.behind:
                self._counts[self._bucket(self._worst_us)] += 1
            self._counts *= self._decay
            self._counts[self._bucket(lag_us)] += 1.0
            self._worst_us = 0
        else:
            self._worst_us = max(self._worst_us, lag_us)
        self.behind = behind
        total = np.cumsum(self._counts)
        self._usual_us = self._edge(int(np.searchsorted(total, 0.95 * total[-1])))
        clock = self._base_us if self.behind else in_force_us
        self._clock_us = max(self._clock_us, clock)
        self._decided.append((in_force_us, self._clock_us, self.behind))
        return self._clock_us

    def at(self, now_us: int) -> int:
        """The stream's time at a wall time."""
        while self._decided and self._decided[0][0] <= now_us:
            in_force, clock, behind = self._decided.popleft()
            self._now = clock, not behind
        clock, runs = self._now
        return now_us if runs else min(now_us, clock)
