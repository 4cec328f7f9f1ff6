"""Sketches of needs to fill a store with: made once, and drawn again and again."""

from __future__ import annotations

import numpy as np

from tidemark.models.evidence.partition_needs import PartitionNeeds
from tidemark.models.evidence.sketch import Sketch

_POOL = 32
"""Different sketches of a minute."""

ROWS_A_MINUTE = 1_200
"""Rows of a partition in a minute."""


class SketchPools:
    """Sketches of a minute, and merged as the hours are that they make."""

    def __init__(self, partitions: int, slow: int) -> None:
        """Make them.

        Args:
            partitions: how many there are.
            slow: number of the partition that is 20 s late.
        """
        dice = np.random.default_rng(5)
        self._slow = slow
        self._minutes = [_minute(dice, late_us=0) for _ in range(_POOL)]
        self._slow_minutes = [_minute(dice, late_us=20_000_000) for _ in range(_POOL)]
        self._minute_bytes = [sketch.to_bytes() for sketch in self._minutes]
        self._slow_bytes = [sketch.to_bytes() for sketch in self._slow_minutes]
        self.names = [str(number) for number in range(partitions)]
        self.whole = self._needs(minutes=1).whole.to_bytes()
        self.hour = self._needs(minutes=60)
        self.hour_whole = self.hour.whole.to_bytes()

    def of(self, partition: int, slot: int) -> bytes:
        """Return the needs of one partition in one minute."""
        pool = self._slow_bytes if partition == self._slow else self._minute_bytes
        return pool[(partition + slot) % _POOL]

    def _needs(self, minutes: int) -> PartitionNeeds:
        return PartitionNeeds.merged(
            PartitionNeeds.of(
                {
                    name: (self._slow_minutes if number == self._slow else self._minutes)[
                        (number + minute) % _POOL
                    ]
                    for number, name in enumerate(self.names)
                }
            )
            for minute in range(minutes)
        )


def _minute(dice: np.random.Generator, late_us: int) -> Sketch:
    sketch = Sketch()
    granules = (dice.exponential(3_000_000, ROWS_A_MINUTE) // 1_000_000) * 1_000_000 - 5_000_000 + late_us
    sketch.add(granules)
    return sketch
