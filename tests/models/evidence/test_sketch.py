"""The sketch against an exact oracle, over named data sets, as written, after the wire, and after merging."""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from tidemark.models.evidence.sketch import Sketch

from support.streams import DATA_SETS, data_set

Float64s = NDArray[np.float64]
Passage = Callable[[Float64s, Sketch], Sketch]

SIZES = (1, 2, 10, 299, 5_000)
SHARES = (0.0, 0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999, 1.0)
ACCURACIES_PPM = (5_000, 20_000, 200_000)
LEAST = 1_000

needs = st.lists(st.integers(-(10**12), 10**12), max_size=30)
in_a_sketch = needs.map(lambda values: sketch_of(np.array(values, np.float64)))


def sketch_of(values: Float64s, accuracy_ppm: int = 5_000) -> Sketch:
    sketch = Sketch(accuracy_ppm, LEAST)
    sketch.add(values)
    return sketch


def written(values: Float64s, empty: Sketch) -> Sketch:
    empty.add(values)
    return empty


def through_bytes(values: Float64s, empty: Sketch) -> Sketch:
    return Sketch.from_bytes(written(values, empty).to_bytes())


def merged_from_random_splits(values: Float64s, empty: Sketch) -> Sketch:
    part = np.random.default_rng(len(values)).integers(0, 5, len(values))
    for number in range(5):
        empty.merge(written(values[part == number], Sketch(empty.relative_accuracy_ppm, LEAST)))
    return empty


@pytest.fixture(
    params=[written, through_bytes, merged_from_random_splits], ids=lambda passage: passage.__name__
)
def passage(request: pytest.FixtureRequest) -> Passage:
    """How the values came into the sketch; every promise must hold after each."""
    passage: Passage = request.param
    return passage


@pytest.mark.parametrize("accuracy_ppm", ACCURACIES_PPM)
@pytest.mark.parametrize("name", DATA_SETS)
def test_a_quantile_is_within_the_stated_relative_accuracy(
    name: str, accuracy_ppm: int, passage: Passage
) -> None:
    """The error is what the constructor was asked for; near zero it is the lowest magnitude instead."""
    for size in SIZES:
        values = data_set(name, size)
        sketch = passage(values, Sketch(accuracy_ppm, LEAST))
        ordered = np.sort(values)
        for share in SHARES:
            exact = ordered[max(math.ceil(share * size), 1) - 1]
            found = sketch.quantile(share)
            assert found is not None
            allowed = LEAST if abs(exact) <= LEAST else accuracy_ppm / 1e6 * abs(exact) * (1 + 1e-9)
            assert abs(found - exact) <= allowed, (size, share, exact, found)


@pytest.mark.parametrize("accuracy_ppm", ACCURACIES_PPM)
@pytest.mark.parametrize("name", DATA_SETS)
def test_the_value_at_a_rank_is_never_below_the_order_statistic_and_at_most_gamma_times_it(
    name: str, accuracy_ppm: int, passage: Passage
) -> None:
    """A bound read from the sketch must not be too small, not by a last bit; it may be a bucket too wide."""
    gamma = (1e6 + accuracy_ppm) / (1e6 - accuracy_ppm)
    for size in SIZES:
        values = data_set(name, size)
        sketch = passage(values, Sketch(accuracy_ppm, LEAST))
        ordered = np.sort(values)
        for rank in sorted({1, 2, size // 2, size - 1, size} & set(range(1, size + 1))):
            exact = float(ordered[rank - 1])
            found = sketch.value_at_rank(rank)
            assert found is not None
            if abs(exact) <= LEAST:
                assert found == LEAST
            else:
                widest = exact * gamma if exact > 0 else exact / gamma
                assert exact <= found <= widest + 1e-9 * abs(exact), (size, rank, exact, found)


@pytest.mark.slow
def test_a_value_on_an_edge_and_its_neighbours_fall_on_the_right_sides() -> None:
    """Logarithms miss edges by a last bit: a third of them did before the edges themselves were asked."""
    edges = [edge for bucket in range(1, 2_500) if (edge := high_of_bucket(bucket)) is not None]
    assert len(edges) == 2_499
    for edge in edges:
        for value in (edge, np.nextafter(edge, 0), np.nextafter(edge, np.inf)):
            positive, negative = sketch_of(np.array([value])), sketch_of(np.array([-value]))
            above, below = positive.value_at_rank(1), negative.value_at_rank(1)
            assert above is not None
            assert below is not None
            assert value <= above
            assert (above == edge) == (value <= edge), "a bucket holds its upper edge and nothing above it"
            assert -value <= below
        assert sketch_of(np.array([edge])).weight_at_most(np.array([edge])).tolist() == [1.0]


def high_of_bucket(bucket: int) -> float | None:
    """Return the upper edge of a bucket, read from outside: that of a value in the bucket's middle."""
    gamma = (1e6 + 5_000) / (1e6 - 5_000)
    return sketch_of(np.array([LEAST * gamma ** (bucket - 0.5)])).value_at_rank(1)


@given(in_a_sketch, in_a_sketch)
def test_merging_is_commutative(left: Sketch, right: Sketch) -> None:
    """Reports arrive in any order, and so do the slots that are rolled up."""
    one, other = Sketch(), Sketch()
    one.merge(left)
    one.merge(right)
    other.merge(right)
    other.merge(left)
    assert one == other


@given(in_a_sketch, in_a_sketch, in_a_sketch)
def test_merging_is_associative(first: Sketch, second: Sketch, third: Sketch) -> None:
    """A day asked as 24 hours and as 1,440 minutes is the same day."""
    left, right, tail = Sketch(), Sketch(), Sketch()
    for sketch in (first, second):
        left.merge(sketch)
    left.merge(third)
    for sketch in (second, third):
        tail.merge(sketch)
    for sketch in (first, tail):
        right.merge(sketch)
    assert left == right


@given(needs, needs)
def test_merging_two_sketches_is_adding_all_the_values_to_one(left: list[int], right: list[int]) -> None:
    """Nothing is lost in a merge, so the accuracy needs no second thought."""
    merged = sketch_of(np.array(left, np.float64))
    merged.merge(sketch_of(np.array(right, np.float64)))
    assert merged == sketch_of(np.array(left + right, np.float64))


@given(st.lists(st.tuples(st.integers(-(10**9), 10**9), st.integers(1, 9)), max_size=20))
def test_a_weight_counts_a_value_so_many_times(pairs: list[tuple[int, int]]) -> None:
    """The tap sends counts, not rows."""
    weighted = Sketch()
    weighted.add([value for value, _ in pairs], [weight for _, weight in pairs])
    assert weighted == sketch_of(
        np.array([value for value, weight in pairs for _ in range(weight)], np.float64)
    )


@given(
    st.lists(st.tuples(st.integers(-(10**15), 10**15), st.integers(1, 100)), min_size=1, max_size=40),
    st.sampled_from([1, 20, 5_000]),
)
def test_counts_are_the_same_however_far_apart_their_buckets_are(
    pairs: list[tuple[int, int]], accuracy_ppm: int
) -> None:
    """At 1 ppm they are millions apart and are sorted; at 0.5 % they are counted in an array."""
    sketch, alone = Sketch(accuracy_ppm, LEAST), []
    for value, weight in pairs:
        one = Sketch(accuracy_ppm, LEAST)
        one.add([value], [weight])
        alone.append((int(one.counts[0][0]), weight))
    sketch.add(*np.array(pairs, np.float64).T)
    expected: dict[int, int] = {}
    for bucket, weight in alone:
        expected[bucket] = expected.get(bucket, 0) + weight
    buckets, weights = sketch.counts
    assert dict(zip(buckets.tolist(), weights.tolist(), strict=True)) == expected
    assert buckets.tolist() == sorted(expected)


def test_the_last_rank_of_fractional_weights_has_a_value() -> None:
    """Ten tenths sum to 1 in one order and to less in another; the rank of the whole weight fell off the end."""
    sketch = Sketch()
    sketch.add([10.0**power for power in range(4, 14)], [0.1] * 10)
    found = sketch.value_at_rank(sketch.weight)
    assert found is not None
    assert found >= 1e13


def test_an_empty_sketch_knows_nothing() -> None:
    """None, never 0: a bound of 0 would be recommended on no evidence."""
    empty = Sketch()
    assert empty.weight == 0
    assert empty.quantile(0.5) is None
    assert empty.value_at_rank(1) is None
    assert empty.weight_at_most(np.array([0.0, 1e9])).tolist() == [0.0, 0.0]
    assert Sketch.from_bytes(empty.to_bytes()) == empty


@pytest.mark.parametrize("rank", [0, -1, 4, 3.5])
def test_a_rank_that_no_value_has_gives_none(rank: float) -> None:
    """There is no fourth of three."""
    assert sketch_of(np.array([1.0, 2.0, 3.0])).value_at_rank(rank) is None


@pytest.mark.parametrize("other", [Sketch(10_000, LEAST), Sketch(5_000, 1)])
def test_sketches_of_different_parameters_do_not_merge(other: Sketch) -> None:
    """Their buckets do not line up, so the sum would mean nothing."""
    sketch = sketch_of(np.array([5e6]))
    with pytest.raises(ValueError, match="cannot merge"):
        sketch.merge(other)
    assert sketch == sketch_of(np.array([5e6])), "a refused merge changes nothing"


@pytest.mark.parametrize(
    ("accuracy_ppm", "lowest", "named"),
    [(0, 1, "ppm"), (500_001, 1, "ppm"), (-1, 1, "ppm"), (1, 0, "min_magnitude")],
)
def test_parameters_that_make_no_buckets_are_rejected(accuracy_ppm: int, lowest: int, named: str) -> None:
    """The message names the parameter."""
    with pytest.raises(ValueError, match=named):
        Sketch(accuracy_ppm, lowest)


@pytest.mark.parametrize(
    ("values", "weights", "said"),
    [
        ([math.nan], None, "finite"),
        ([math.inf], None, "finite"),
        ([1.0], [-1.0], "weights"),
        ([1.0], [math.nan], "weights"),
        ([1.0, 2.0], [1.0], "shape"),
        ([[1.0]], None, "shape"),
    ],
)
def test_values_that_cannot_be_counted_are_rejected(
    values: list[float], weights: list[float] | None, said: str
) -> None:
    """One NaN would poison every later answer."""
    sketch = Sketch()
    with pytest.raises(ValueError, match=said):
        sketch.add(values, weights)
    assert sketch == Sketch()


# -- the wire ------------------------------------------------------------------------------------------------

SAVED = sketch_of(data_set("bimodal", 200)).to_bytes()
HEADER = struct.Struct("<4sHIQI")


def sealed(header: bytes, body: bytes) -> bytes:
    """Return bytes whose checksum is right, whatever they say."""
    return header + body + struct.pack("<I", zlib.crc32(header + body))


def test_every_cut_is_noticed() -> None:
    """A half-written file must not pass for a smaller sketch."""
    for length in range(len(SAVED)):
        with pytest.raises(ValueError, match="sketch"):
            Sketch.from_bytes(SAVED[:length])


def test_every_flipped_bit_is_noticed() -> None:
    """Counts that rotted on disk must not move a bound."""
    for position in range(len(SAVED)):
        for bit in range(8):
            flipped = bytearray(SAVED)
            flipped[position] ^= 1 << bit
            with pytest.raises(ValueError, match="sketch"):
                Sketch.from_bytes(bytes(flipped))


def test_an_unknown_version_is_rejected_by_its_number() -> None:
    """A later release may write what this one cannot read; it must say so, not guess."""
    magic, _, *parameters = HEADER.unpack_from(SAVED)
    with pytest.raises(ValueError, match="version 2 is unknown"):
        Sketch.from_bytes(sealed(HEADER.pack(magic, 2, *parameters), SAVED[HEADER.size : -4]))


@pytest.mark.parametrize(
    "body",
    [b"not compressed", zlib.compress(b""), zlib.compress(bytes(11)), zlib.compress(bytes(50_000_000))],
    ids=["not compressed", "empty", "too short", "a bomb"],
)
def test_a_body_that_is_not_what_the_header_says_is_rejected(body: bytes) -> None:
    """A right checksum says only that the bytes are those that were written."""
    with pytest.raises(ValueError, match="damaged"):
        Sketch.from_bytes(sealed(HEADER.pack(b"TMSK", 1, 5_000, LEAST, 1), body))


def test_a_week_at_one_percent_takes_about_a_thousand_buckets_and_few_bytes() -> None:
    """The store keeps one sketch a slot and partition; this is what each may cost."""
    week = sketch_of(np.geomspace(LEAST, 7 * 86_400e6, 100_000), 10_000)
    size = HEADER.unpack_from(week.to_bytes())[-1]
    assert 950 <= size <= 1_050
    assert len(week.to_bytes()) < 8_000
