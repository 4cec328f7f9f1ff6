"""Time slices: windows that miss the target, recounted by hand."""

from __future__ import annotations

import numpy as np
import pytest

from tidemark.models.base.operators import Int64s
from tidemark.models.live.learning import GoodWindows

RULES = 5
KEPT = 512
"""Windows whose rows are still counted."""


def keys(*numbers: int) -> Int64s:
    return np.array(numbers, np.int64)


@pytest.mark.parametrize("seed", range(8))
def test_windows_that_miss_are_those_of_a_recount(seed: int) -> None:
    """Under each rule and, last, under the policy: those with a greater share late than may be."""
    dice = np.random.default_rng(seed)
    share = float(dice.choice([0.01, 0.1, 0.5]))
    good_windows = GoodWindows(RULES, share)
    pairs: dict[int, int] = {}
    late: dict[int, np.ndarray[tuple[int], np.dtype[np.int64]]] = {}
    for batch in range(200):
        found = np.unique(dice.integers(batch, batch + 20, 6))
        counts = dice.integers(1, 30, len(found))
        marks = batch + dice.integers(-5, 15, RULES + 1)
        good_windows.add(found, counts, marks)
        for key, count in zip(found.tolist(), counts.tolist(), strict=True):
            pairs[key] = pairs.get(key, 0) + count
            late[key] = late.get(key, np.zeros(RULES + 1, np.int64)) + count * (key <= marks)
    naive = np.sum([late[key] > share * pairs[key] for key in pairs], axis=0)
    np.testing.assert_array_equal(good_windows.missed(), naive)
    assert good_windows.windows == len(pairs)
    assert 0 < naive.min() < len(pairs) or share == 0.5


def test_a_window_that_loses_just_what_it_may_is_not_missed() -> None:
    good_windows = GoodWindows(1, 0.01)
    good_windows.add(keys(1), keys(99), keys(0, 0))
    good_windows.add(keys(1), keys(1), keys(1, 1))
    assert good_windows.missed().tolist() == [0, 0]
    good_windows.add(keys(1), keys(1), keys(1, 0))
    assert good_windows.missed().tolist() == [1, 0]


def test_a_window_that_missed_meets_again_when_enough_rows_come_in_time() -> None:
    good_windows = GoodWindows(1, 0.1)
    good_windows.add(keys(1), keys(1), keys(1, 0))
    assert good_windows.missed().tolist() == [1, 0]
    good_windows.add(keys(1), keys(9), keys(0, 0))
    assert good_windows.missed().tolist() == [0, 0]


def test_the_fate_of_the_oldest_windows_is_settled() -> None:
    """Rows that come later neither count nor make the window a new one; what was missed stays missed."""
    good_windows = GoodWindows(1, 0.1)
    good_windows.add(keys(0, 1), keys(10, 10), keys(0, -1))
    for key in range(2, KEPT + 2):
        good_windows.add(keys(key), keys(10), keys(-1, -1))
    assert good_windows.windows == KEPT + 2
    assert good_windows.missed().tolist() == [1, 0]
    good_windows.add(keys(0, 1), keys(1_000, 1_000), keys(1, 1))
    assert good_windows.windows == KEPT + 2
    assert good_windows.missed().tolist() == [1, 0], "settled"
    good_windows.add(keys(2), keys(1_000), keys(1, 2))
    assert good_windows.missed().tolist() == [1, 1], "the oldest that is not"


def test_many_windows_of_one_batch_are_all_counted() -> None:
    """A night's backlog comes at once."""
    good_windows = GoodWindows(1, 0.1)
    many = np.arange(3 * KEPT, dtype=np.int64)
    good_windows.add(many, 0 * many + 10, keys(2 * KEPT - 1, -1))
    assert good_windows.windows == 3 * KEPT
    assert good_windows.missed().tolist() == [2 * KEPT, 0]


def test_nothing_is_missed_before_anything_came() -> None:
    good_windows = GoodWindows(RULES, 0.01)
    assert good_windows.windows == 0
    assert good_windows.missed().tolist() == [0] * (RULES + 1)
