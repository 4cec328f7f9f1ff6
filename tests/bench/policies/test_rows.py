"""The ring of rows: exact while everything fits, and an even sample of what is half forgotten."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.policies.rows import LastRows, Scores


def scores(values: list[int], counts: list[int] | None = None) -> Scores:
    value = np.array(values, np.int64)
    count = np.ones(len(value), np.int64) if counts is None else np.array(counts, np.int64)
    order = np.argsort(value)
    return Scores(value[order], count[order])


def held(ring: LastRows) -> list[int]:
    return [ring.at_rank(rank) for rank in range(1, len(ring) + 1)]


@given(
    st.lists(st.lists(st.tuples(st.integers(0, 99), st.integers(1, 5)), min_size=1, max_size=5), max_size=8)
)
def test_while_everything_fits_a_count_of_c_rows_is_c_rows(batches: list[list[tuple[int, int]]]) -> None:
    ring = LastRows(8 * 5 * 5)
    for batch in batches:
        ring.add(scores([value for value, _ in batch], [count for _, count in batch]))
    assert held(ring) == sorted(value for batch in batches for value, count in batch for _ in range(count))


@given(st.integers(1, 40), st.integers(1, 12))
def test_whole_batches_are_forgotten_in_order(batches: int, rows: int) -> None:
    """The ring holds four batches: the last four are there, whatever the order inside."""
    ring, stream = LastRows(4 * rows), np.random.default_rng(batches).integers(0, 1_000, (batches, rows))
    for batch in stream.tolist():
        ring.add(scores(batch))
    assert held(ring) == sorted(stream[-4:].ravel().tolist())


@pytest.mark.parametrize("fresh", [10, 137, 500, 900])
def test_what_is_left_of_a_half_forgotten_batch_is_an_even_sample_of_it(fresh: int) -> None:
    """Old rows score 1 to 1,000, fresh ones 5,000: every share of what is left of the old is within 0.5 %."""
    ring = LastRows(1_000)
    ring.add(scores(list(range(1, 1_001))))
    ring.add(scores([5_000], [fresh]))
    left = np.array([value for value in held(ring) if value < 5_000])
    assert len(left) == 1_000 - fresh
    for share in (0.05, 0.25, 0.5, 0.75, 0.95):
        expected = share * len(left)
        assert abs((left <= share * 1_000).sum() - expected) <= 5


def test_a_batch_larger_than_the_ring_leaves_an_even_sample() -> None:
    """100,000 rows in 100 counts: the ring of 1,000 has every quantile to one rank."""
    ring = LastRows(1_000)
    ring.add(scores(list(range(100)), [1_000] * 100))
    assert held(ring) == [value for value in range(100) for _ in range(10)]


def test_a_ring_of_nothing_is_rejected() -> None:
    with pytest.raises(ValueError, match="at least 1 row, not 0"):
        LastRows(0)
