"""The numbers of times, from which the granules of every operator follow."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tidemark.models.base.granules import Granules, granule_index
from tidemark.models.base.operators import Closed
from tidemark.spark_jobs.core.time_numbers import TimeNumbers

EDGES: list[Closed] = ["left", "right"]


@given(
    st.integers(-(10**6), 10**6), st.sampled_from([0, 0, 1, -1, 7]), st.integers(1, 50), st.integers(1, 12)
)
def test_without_an_operator_a_number_tells_the_granule_of_either_kind_and_of_any_multiple_of_its_width(
    granule: int, beside: int, width: int, parts: int
) -> None:
    """Ties on edges are what event times in whole seconds consist of."""
    time_us = granule * width + beside
    unknown = TimeNumbers(width, None)
    for closed in EDGES:
        wanted = granule_index(np.array([time_us]), width * parts, closed).tolist()
        wide = Granules(width * parts, closed)

        assert [unknown.granule(unknown.of(time_us), wide)] == wanted
        assert [TimeNumbers(width, closed).granule(TimeNumbers(width, closed).of(time_us), wide)] == wanted


def test_numbers_ascend_with_time() -> None:
    for closed in (*EDGES, None):
        numbers = [TimeNumbers(10, closed).of(time_us) for time_us in range(-50, 50)]

        assert numbers == sorted(numbers)
