"""Needs of all partitions together: the same counts as sketch by sketch."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tidemark.models.evidence.partition_needs import PartitionNeeds
from tidemark.models.evidence.sketch import Sketch
from tidemark.models.evidence.slots import merge_all

NEEDS = st.lists(st.integers(-(10**9), 10**10), min_size=1, max_size=30)
BY_NAME = st.dictionaries(st.text(max_size=5), NEEDS, max_size=6)


def sketches_of(needs: Mapping[str, list[int]]) -> dict[str, Sketch]:
    found = {}
    for name, values in needs.items():
        found[name] = Sketch()
        found[name].add(values)
    return found


@given(BY_NAME)
def test_each_partition_and_the_whole_have_the_counts_of_their_sketches(needs: dict[str, list[int]]) -> None:
    sketches = sketches_of(needs)
    together = PartitionNeeds.of(sketches)
    assert list(together.names) == sorted(needs)
    assert together.pairs.tolist() == [len(needs[name]) for name in sorted(needs)]
    assert all(together.sketch(name) == sketch for name, sketch in sketches.items())
    assert together.sketch("nobody has this name") == Sketch()
    assert together.whole == merge_all(sketches.values())


@given(BY_NAME, BY_NAME)
def test_what_is_merged_can_be_taken_back(one: dict[str, list[int]], other: dict[str, list[int]]) -> None:
    first, second = PartitionNeeds.of(sketches_of(one)), PartitionNeeds.of(sketches_of(other))
    both = PartitionNeeds.merged([first, second])
    assert both == PartitionNeeds.merged([second, first])
    added = {name: [*one.get(name, []), *other.get(name, [])] for name in one | other}
    assert both == PartitionNeeds.of(sketches_of(added))
    assert both.minus(second) == first
    assert both.minus(both) == PartitionNeeds.merged([])


def test_counts_that_differ_in_a_name_a_need_or_a_number_are_not_equal() -> None:
    many: tuple[dict[str, list[int]], ...] = ({"a": [1]}, {"b": [1]}, {"a": [10**9]}, {"a": [1, 1]}, {})
    for one, other in combinations([PartitionNeeds.of(sketches_of(needs)) for needs in many], 2):
        assert one != other


def test_more_than_was_counted_cannot_be_subtracted() -> None:
    some, more = ({"a": [1_000] * count} for count in (2, 3))
    with pytest.raises(ValueError, match="more is to be subtracted than was counted"):
        PartitionNeeds.of(sketches_of(some)).minus(PartitionNeeds.of(sketches_of(more)))


@given(BY_NAME, st.integers(1, 1_000_000))
def test_a_need_at_a_share_is_that_of_the_partitions_own_sketch(
    needs: dict[str, list[int]], share_ppm: int
) -> None:
    together = PartitionNeeds.of(sketches_of(needs))
    wanted = [
        together.sketch(name).value_at_rank(-(-share_ppm * len(needs[name]) // 1_000_000))
        for name in together.names
    ]
    assert together.needs_at(share_ppm).tolist() == wanted


@given(st.integers(1, 2**52), st.integers(1, 2**52), st.integers(1, 1_000_000))
@example(small=2**52, large=2**52, share_ppm=999_999)
def test_a_need_at_a_share_of_as_many_pairs_as_can_be_counted_is_right(
    small: int, large: int, share_ppm: int
) -> None:
    """A million times as many do not fit in 64 bits."""
    sketch = Sketch()
    sketch.add([1_000, 10**9], [small, large])
    wanted = sketch.value_at_rank(-(-share_ppm * (small + large) // 1_000_000))
    assert PartitionNeeds.of({"0": sketch}).needs_at(share_ppm).tolist() == [wanted]


@given(BY_NAME)
def test_bytes_give_back_the_same_counts(needs: dict[str, list[int]]) -> None:
    together = PartitionNeeds.of(sketches_of(needs))
    assert PartitionNeeds.from_bytes(together.to_bytes()) == together


@given(BY_NAME)
def test_the_table_holds_every_count_once(needs: dict[str, list[int]]) -> None:
    together = PartitionNeeds.of(sketches_of(needs))
    edges, counts = together.table()
    assert counts.shape == (len(needs), len(edges))
    assert counts.sum(axis=1).tolist() == together.pairs.tolist()
    assert (np.diff(edges) > 0).all()


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b"", "0 bytes are not the needs of partitions"),
        (Sketch().to_bytes(), "are not the needs of partitions"),
        (PartitionNeeds.merged([]).to_bytes()[:-1] + b"x", "damaged"),
        (b"TMPN" + b"\x09\x00" + PartitionNeeds.merged([]).to_bytes()[6:], "version 9 of needs is unknown"),
    ],
    ids=["empty", "a sketch", "damaged", "newer"],
)
def test_other_bytes_are_rejected_with_a_clear_sentence(data: bytes, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        PartitionNeeds.from_bytes(data)
