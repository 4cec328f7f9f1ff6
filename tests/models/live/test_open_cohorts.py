"""Open cohorts beside plain dictionaries: what was counted is there, whatever its size and whatever comes and goes."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemark.models.live.cohorts import OpenCohorts

GRANULE_US = 10


def shown(cohorts: OpenCohorts) -> dict[tuple[int, int], int]:
    return {
        (int(cohorts.start_us[cohort]), int(partition)): int(cohorts.counts[cohort, partition])
        for cohort, partition in zip(*np.nonzero(cohorts.counts), strict=True)
    }


@pytest.mark.parametrize("seed", range(8))
def test_what_was_counted_is_there_until_its_cohort_is_forgotten(seed: int) -> None:
    dice = np.random.default_rng(seed)
    cohorts, expected, first, last = OpenCohorts(GRANULE_US, 10_000), Counter[tuple[int, int]](), 500, 500
    cohorts.open(first * GRANULE_US, last * GRANULE_US)
    for turn in range(200):
        partitions = 1 + turn // 10
        cohorts.widen(partitions)
        if turn % 40 == 39:
            first -= int(dice.integers(1, 5))
        last += int(dice.integers(0, 6))
        cohorts.open(first * GRANULE_US, last * GRANULE_US)
        size = int(dice.integers(1, 30))
        at = dice.integers(0, len(cohorts.start_us), size)
        partition = dice.integers(0, partitions, size)
        rows = dice.integers(1, 10 ** int(dice.integers(1, 3 + turn // 40)), size)
        cohorts.add(at, partition, rows)
        for one in range(size):
            expected[int(cohorts.start_us[at[one]]), int(partition[one])] += int(rows[one])
        gone = int(dice.integers(0, min(4, len(cohorts.start_us))))
        cohorts.forget(gone)
        first += gone
        expected = Counter({cell: count for cell, count in expected.items() if cell[0] >= first * GRANULE_US})
        assert cohorts.start_us.tolist() == [GRANULE_US * place for place in range(first, last + 1)]
        assert shown(cohorts) == expected
        assert cohorts.totals.sum() == expected.total()


@pytest.mark.parametrize("rows", [127, 128, 255, 256, 65_535, 65_536, 2**32 - 1, 2**32, 2**40])
def test_counts_of_any_size_are_exact(rows: int) -> None:
    cohorts = OpenCohorts(GRANULE_US, 10)
    cohorts.widen(2)
    cohorts.open(0, GRANULE_US)
    here = np.array([1])
    for _ in range(2):
        cohorts.add(here, np.array([0]), np.array([rows]))
    assert shown(cohorts) == {(GRANULE_US, 0): 2 * rows}
    assert cohorts.totals.tolist() == [0, 2 * rows]


def test_a_cohort_of_a_partition_takes_two_bytes() -> None:
    """The live policy holds a thousand of them for each of a thousand partitions."""
    cohorts = OpenCohorts(GRANULE_US, 10_000)
    cohorts.widen(1_000)
    for last in range(1_000):
        cohorts.open(0, last * GRANULE_US)
    cohorts.add(np.array([0]), np.array([0]), np.array([60_000]))
    assert cohorts._room.nbytes < 1.2 * 2 * 1_000 * 1_000


@given(st.lists(st.tuples(st.integers(-(2**50), 2**50), st.integers(0, 2**50)), min_size=1))
def test_however_far_apart_cohorts_are_there_is_room_for_the_newest_ones_alone(
    asked: list[tuple[int, int]],
) -> None:
    """One row of a year ago takes no more memory than one of a minute ago."""
    cohorts, newest = OpenCohorts(GRANULE_US, 10), -(2**60)
    cohorts.widen(3)
    for first, length in asked:
        newest = max(newest, first + length)
        forgotten_us = cohorts.open(first * GRANULE_US, (first + length) * GRANULE_US)
        starts = (cohorts.start_us // GRANULE_US).tolist()
        assert starts == list(range(starts[0], newest + 1))
        assert len(starts) <= 10
        assert len(cohorts._room) <= 50
        assert cohorts.counts.shape == (len(starts), 3)
        if forgotten_us is None:
            assert starts[0] <= first
        else:
            assert forgotten_us == (newest - 10) * GRANULE_US < starts[0] * GRANULE_US
