"""One suite for every ``NeedDistribution``: what a curve and a recommendation rely on, whichever answers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemark.models.base.operators import Int64s
from tidemark.models.evidence.curve import ExactNeeds, NeedDistribution
from tidemark.models.evidence.sketch import Sketch

from support.streams import DATA_SETS, data_set

Counted = list[tuple[int, int]]
Maker = Callable[[Counted], NeedDistribution]

FAR = 2.0**62
pairs = st.lists(st.tuples(st.integers(-(10**12), 10**12), st.integers(1, 5)), min_size=1, max_size=40)


def exact(counted: Counted) -> NeedDistribution:
    return ExactNeeds(*columns(counted))


def sketched(counted: Counted) -> NeedDistribution:
    sketch = Sketch()
    sketch.add(*columns(counted))
    return sketch


def columns(counted: Counted) -> tuple[Int64s, Int64s]:
    table = np.array(counted, np.int64).reshape(-1, 2)
    return table[:, 0], table[:, 1]


def truth_at_most(counted: Counted, value: float) -> int:
    return sum(count for need, count in counted if need <= value)


def asked(counted: Counted) -> list[float]:
    """Return the values worth asking for: each need, a little beside it, and far away."""
    return sorted(
        {near for need, _ in counted for near in (need - 1.0, float(need), need + 1.0)} | {-FAR, 0.0, FAR}
    )


every_implementation = pytest.mark.parametrize("make", [exact, sketched], ids=["ExactNeeds", "Sketch"])


@every_implementation
@given(counted=pairs)
def test_the_weight_is_the_number_of_pairs(make: Maker, counted: Counted) -> None:
    """Counts are exact in a sketch too; only where they lie is rounded."""
    assert make(counted).weight == sum(count for _, count in counted)


@every_implementation
@given(counted=pairs)
def test_the_weight_at_most_never_falls_and_ends_at_the_whole_weight(make: Maker, counted: Counted) -> None:
    """A wider bound never keeps less, and one wide enough keeps everything."""
    found = make(counted).weight_at_most(np.array(asked(counted)))
    assert (np.diff(found) >= 0).all()
    assert found[0] == 0
    assert found[-1] == make(counted).weight


@every_implementation
@given(counted=pairs)
def test_the_weight_at_most_is_never_above_the_truth(make: Maker, counted: Counted) -> None:
    """Completeness may be understated by a bucket, never promised."""
    values = asked(counted)
    for value, found in zip(values, make(counted).weight_at_most(np.array(values)).tolist(), strict=True):
        assert found <= truth_at_most(counted, value), value


@every_implementation
@given(counted=pairs)
def test_the_value_at_a_rank_is_enough_for_that_many_pairs(make: Maker, counted: Counted) -> None:
    """By the distribution's own word and by the truth: a recommendation and its curve must not contradict."""
    needs = make(counted)
    ranks = range(1, int(needs.weight) + 1)
    for rank in ranks:
        value = needs.value_at_rank(rank)
        assert value is not None
        assert needs.weight_at_most(np.array([value])).tolist()[0] >= rank
        assert truth_at_most(counted, value) >= rank


@every_implementation
@given(counted=pairs)
def test_the_floor_at_a_rank_is_reached_by_its_pair_and_by_all_above(make: Maker, counted: Counted) -> None:
    """A lower end that is read off a sketch must not lie above the truth."""
    needs = make(counted)
    truth = sorted(need for need, count in counted for _ in range(count))
    for rank, need in enumerate(truth, 1):
        floor = needs.floor_at_rank(rank)
        assert floor is not None
        assert floor <= need


@every_implementation
@pytest.mark.parametrize("name", DATA_SETS)
def test_the_value_at_a_rank_grows_with_the_rank(make: Maker, name: str) -> None:
    """A higher target never asks for a narrower bound."""
    needs = make([(int(min(value, 2**62)), 1) for value in data_set(name, 500)])
    values = [needs.value_at_rank(rank) for rank in range(1, 501)]
    known = [value for value in values if value is not None]
    assert len(known) == 500
    assert known == sorted(known)


@every_implementation
@pytest.mark.parametrize("rank", [0, -1, 6, 1e9])
def test_a_rank_that_no_pair_has_gives_none(make: Maker, rank: float) -> None:
    """Too few pairs are not enough evidence, and 0 would be a bound."""
    needs = make([(10, 2), (20, 3)])
    assert needs.value_at_rank(rank) is None
    assert needs.floor_at_rank(rank) is None


@every_implementation
def test_without_pairs_nothing_is_known(make: Maker) -> None:
    """An empty distribution has no value at any rank."""
    needs = make([])
    assert needs.weight == 0
    assert needs.value_at_rank(1) is None
    assert needs.weight_at_most(np.array([0.0])).tolist() == [0.0]
