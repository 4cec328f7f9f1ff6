"""The lowest over partitions, row by row."""

from __future__ import annotations

import numpy as np
import pytest

from tidemark.models.backtest import arrivals
from tidemark.models.backtest.arrivals import min_of_partitions, min_seen
from tidemark.models.live.policy import NO_BASE_US


@pytest.mark.parametrize("cells", [1, 7, 1_000_000])
def test_the_least_of_the_partitions_is_that_of_those_seen_however_much_is_held_at_a_time(
    monkeypatch: pytest.MonkeyPatch, cells: int
) -> None:
    monkeypatch.setattr(arrivals, "_CELLS", cells)
    for seed in range(30):
        dice = np.random.default_rng(seed)
        size, steps, partitions = 20, 12, 3
        step = np.sort(dice.integers(0, steps, size))
        part, value = dice.integers(0, partitions, size), dice.integers(-50, 50, size)
        start = np.where(dice.random(partitions) < 0.5, NO_BASE_US, dice.integers(-50, 50, partitions))
        highest: dict[int, int] = {
            index: value for index, value in enumerate(start.tolist()) if value != NO_BASE_US
        }
        expected = []
        for now in range(steps):
            for index, one in zip(part[step == now].tolist(), value[step == now].tolist(), strict=True):
                highest[index] = max(one, highest.get(index, one))
            expected.append(min(highest.values(), default=NO_BASE_US))

        assert min_of_partitions(step, part, value, steps, start).tolist() == expected


def test_the_least_of_no_partition_is_no_base() -> None:
    assert min_seen(np.full(2, NO_BASE_US)) == NO_BASE_US
    assert min_seen(np.array([NO_BASE_US, 5, 3])) == 3
