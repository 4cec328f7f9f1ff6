"""Sketches of needs to fill a store with: made once, and drawn again and again."""

from __future__ import annotations

import numpy as np

from tidemark.controller.evidence.rollups import TEN_MINUTES_US
from tidemark.models.evidence.partition_needs import PartitionNeeds
from tidemark.models.evidence.sketch import Sketch
from tidemark.models.evidence.slots import DAY_US, HOUR_US, SLOT_US

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
        self.names = [str(number) for number in range(partitions)]
        minutes = [self._needs(range(first, first + 1)) for first in range(_POOL)]
        hour = self._needs(range(60))
        self.of_width: dict[int, list[tuple[bytes, bytes]]] = {
            SLOT_US: [_both(each) for each in minutes],
            TEN_MINUTES_US: [_both(self._needs(range(10)))],
            HOUR_US: [_both(hour)],
            DAY_US: [_both(PartitionNeeds.merged([hour] * 24))],
        }
        """By the width of slots a pool of needs: of the stream, and of its partitions."""

    def _needs(self, minutes: range) -> PartitionNeeds:
        return PartitionNeeds.merged(
            PartitionNeeds.of(
                {
                    name: (self._slow_minutes if number == self._slow else self._minutes)[
                        (number + minute) % _POOL
                    ]
                    for number, name in enumerate(self.names)
                }
            )
            for minute in minutes
        )


def _both(needs: PartitionNeeds) -> tuple[bytes, bytes]:
    return needs.whole.to_bytes(), needs.to_bytes()


def _minute(dice: np.random.Generator, late_us: int) -> Sketch:
    sketch = Sketch()
    granules = (dice.exponential(3_000_000, ROWS_A_MINUTE) // 1_000_000) * 1_000_000 - 5_000_000 + late_us
    sketch.add(granules)
    return sketch
