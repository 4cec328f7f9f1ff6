"""Slots of age: where they begin, and which one an age falls into."""

from __future__ import annotations

import numpy as np
import pytest

from tidemark.models.completeness.ages import SLOTS, edges_us, slot_of

SPAN_US = 3_600_000_000


def test_an_age_falls_into_the_slot_between_whose_edges_it_lies() -> None:
    edges = edges_us(SPAN_US)
    ages = np.random.default_rng(1).uniform(edges[0], 40 * SPAN_US, 1_000)
    slots = slot_of(ages, SPAN_US)
    assert (edges[slots] <= ages).all()
    assert (ages < edges[slots + 1]).all()


def test_slots_ascend_and_one_begins_at_the_end_of_the_window() -> None:
    edges = edges_us(SPAN_US)
    assert len(edges) == SLOTS + 1
    assert (np.diff(edges) > 0).all()
    assert 0 in edges


@pytest.mark.parametrize("age_us", [-(2**60), 2**60])
def test_what_is_further_than_all_slots_is_in_the_first_or_last(age_us: int) -> None:
    assert slot_of(np.array([age_us]), SPAN_US)[0] in {0, SLOTS - 1}
