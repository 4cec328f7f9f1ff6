"""What plain Spark at a bound of 0 s does on the same arrivals: the yardstick below which Live must not fall.

Its watermark is the newest event time of the batches before, and its late filter has that of one batch earlier
(measured). To the granule is exact for windows, which begin and end with one.
"""

from __future__ import annotations

from collections import deque

import numpy as np

from tidemark.models.base.operators import Int64s
from tidemark.models.live.learned import Arrays, checked
from tidemark.models.live.policy import NO_BASE_US


def pairs_up_to(watermark_us: int, key_us: Int64s, count: Int64s) -> int:
    """Return how many pairs are late under a watermark; by distinct keys, ascending, at least one, (keys,) each."""
    if key_us[0] > watermark_us:
        return 0
    return int(count[: key_us.searchsorted(watermark_us, side="right")].sum())


class PlainSpark:
    """Counts what plain Spark would have lost.

    Args:
        trigger_us: Spark's trigger, in microseconds.
    """

    def __init__(self, trigger_us: int) -> None:
        # A batch without rows follows one that moved the watermark, so the filter is at most two triggers old.
        self._delay_us = trigger_us + trigger_us // 2
        self.late = 0
        """Pairs that it would have lost so far."""
        self.watermark_us = NO_BASE_US
        """Its watermark in the batch after the newest one."""
        self._judging_us = NO_BASE_US
        self._read: deque[tuple[int, int]] = deque()

    def read(self, now_us: int, base_us: int) -> None:
        """Take how far the stream has come with the batch at ``now_us``: its newest event time, in microseconds."""
        while self._read and self._read[0][0] <= now_us - self._delay_us:
            self._judging_us = self._read.popleft()[1]
        self.watermark_us = max(self.watermark_us, base_us)
        self._read.append((now_us, self.watermark_us))

    def add(self, key_us: Int64s, count: Int64s) -> None:
        """Count the pairs of that batch by distinct keys, ascending, shape (keys,) each."""
        self.late += pairs_up_to(self._judging_us, key_us, count)

    def learned(self) -> Arrays:
        """Return what it would have lost."""
        return {"late": np.array(self.late)}

    def resume(self, learned: Arrays) -> None:
        """Go on with what an earlier run learned."""
        self.late = int(checked(learned, {"late": ()})["late"])
