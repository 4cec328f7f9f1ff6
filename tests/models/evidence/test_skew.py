"""Skew: which partition a bound is due to, and when nobody may say so."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemark.models.base.confidence import certified_rank, min_events
from tidemark.models.evidence.partition_counts import SkewCost
from tidemark.models.evidence.partition_needs import PartitionNeeds
from tidemark.models.evidence.sketch import Sketch
from tidemark.models.evidence.skew import MIN_BEYOND, Effect, SkewRule, effects_of, is_skewed

from support.examples import examples

TARGET_PPM, CONFIDENCE_PPM = 990_000, 950_000
SECOND = 1_000_000


def needs_of(needs: Mapping[str, Sequence[int]]) -> PartitionNeeds:
    sketches = {}
    for name, values in needs.items():
        sketches[name] = Sketch()
        sketches[name].add(values)
    return PartitionNeeds.of(sketches)


def effects(needs: Mapping[str, Sequence[int]], target_ppm: int = TARGET_PPM) -> dict[str, Effect]:
    found = effects_of(needs_of(needs), target_ppm, CONFIDENCE_PPM)
    return {effect.partition: effect for effect in found}


def skewed(
    needs: Mapping[str, Sequence[int]], target_ppm: int = TARGET_PPM, before: frozenset[str] = frozenset()
) -> set[str]:
    return {
        name
        for name, effect in effects(needs, target_ppm).items()
        if is_skewed(effect, len(needs), target_ppm, CONFIDENCE_PPM, before=name in before)
    }


def usual(count: int, seed: int = 1, mean_s: float = 1.0, late_s: float = 0.0) -> list[int]:
    """Needs of rows with exponential delays, ``late_s`` later than usual."""
    dice = random.Random(seed)
    return [round((dice.expovariate(1 / mean_s) + late_s) * SECOND) for _ in range(count)]


def exact_bound_ms(values: Sequence[int], rank: int | None) -> int | None:
    """Return the need of a rank of ascending values."""
    return None if rank is None else max(math.ceil(values[rank - 1] / 1_000), 0)


MANY = {str(number): usual(1_000, number) for number in range(8)}


def test_the_planted_partition_is_found_with_what_it_costs() -> None:
    needs = {**MANY, "7": usual(1_000, 7, late_s=18)}
    assert skewed(needs) == {"7"}
    effect = effects(needs)["7"]
    assert effect.bound_ms is not None
    assert effect.without_ms is not None
    assert effect.without_ms < 6_000
    assert effect.bound_ms > 18_000
    assert effect.costs_ms == effect.bound_ms - effect.without_ms
    assert effect.beyond == effect.pairs == 1_000


@pytest.mark.slow
@examples(60)
@given(
    partitions=st.integers(3, 40),
    rows=st.integers(417, 2_000),
    late_s=st.integers(20, 3_600),
    where=st.randoms(use_true_random=False),
)
def test_a_partition_far_later_than_all_others_is_always_found_and_alone(
    partitions: int, rows: int, late_s: int, where: random.Random
) -> None:
    planted = str(where.randrange(partitions))
    needs = {str(number): usual(rows, number) for number in range(partitions)}
    needs[planted] = usual(rows, 99, late_s=late_s)
    # Its rows are more than the budget of all: otherwise they may be lost, and it costs nothing.
    assert skewed(needs) == {planted}


@pytest.mark.slow
@given(st.integers(3, 50), st.lists(st.integers(-(10**8), 10**9), min_size=30, max_size=400))
def test_of_equal_partitions_none_is_ever_found(partitions: int, needs: list[int]) -> None:
    assert skewed({str(number): needs for number in range(partitions)}) == set()


@examples(30)
@given(st.integers(1, 1_000), st.integers(3, 20))
def test_of_partitions_that_are_alike_by_chance_alone_none_is_found(seed: int, partitions: int) -> None:
    needs = {str(number): usual(2_000, 1_000 * seed + number) for number in range(partitions)}
    assert skewed(needs) == set()


@examples(30)
@given(late_s=st.integers(10, 10_000), partitions=st.integers(3, 20))
def test_of_a_whole_fleet_that_is_late_none_is_found(late_s: int, partitions: int) -> None:
    needs = {str(number): usual(1_000, number, late_s=late_s) for number in range(partitions)}
    assert skewed(needs) == set()


@given(st.integers(1, 100_000), st.integers(1, 3_000))
def test_of_two_partitions_or_one_none_is_ever_found(late_s: int, rows: int) -> None:
    two = {"a": usual(rows, 1), "b": usual(rows, 2, late_s=late_s)}
    assert skewed(two) == set()
    assert skewed({"b": two["b"]}) == set()


@pytest.mark.parametrize("target_ppm", [500_000, 900_000, 990_000, 999_000])
@examples(25)
@given(late_s=st.integers(1, 10**6), others=st.integers(10, 3_000))
def test_a_partition_of_ten_rows_is_never_found(target_ppm: int, late_s: int, others: int) -> None:
    needs = {"tiny": usual(10, 5, late_s=late_s), "a": usual(others, 1), "b": usual(others, 2)}
    assert "tiny" not in skewed(needs, target_ppm)


def test_a_partition_that_could_not_certify_the_target_alone_is_not_found() -> None:
    enough = min_events(0.99, 0.95)
    for rows, body in ((enough - 1, set()), (enough, {"late"})):
        needs = {**{name: usual(900, 1) for name in "abc"}, "late": usual(rows, 5, late_s=60)}
        assert skewed(needs) == body


def test_a_partition_with_a_handful_of_late_rows_is_not_found() -> None:
    rows = usual(3_000, 5)
    for late, body in ((MIN_BEYOND - 1, set()), (MIN_BEYOND, {"c"})):
        some = [*rows[late:], *(120 * SECOND for _ in range(late))]
        # Few rows in all, so that so few of them move the bound.
        assert skewed({"a": usual(310, 1), "b": usual(310, 2), "c": some[-420:]}) == body


@examples(30)
@given(st.permutations([str(number) for number in range(8)]))
def test_the_order_of_partitions_does_not_matter(order: list[str]) -> None:
    needs = {**MANY, "3": usual(1_000, 3, late_s=9)}
    assert effects({name: needs[name] for name in order}) == effects(needs)


@examples(60)
@given(st.lists(st.lists(st.integers(-(10**7), 10**8), min_size=1, max_size=60), min_size=1, max_size=6))
def test_a_thousand_times_the_rows_are_the_same_needs_with_a_thousand_times_the_pairs(
    columns: list[list[int]],
) -> None:
    sketches = {str(number): Sketch() for number in range(len(columns))}
    for number, values in enumerate(columns):
        sketches[str(number)].add(values, [1_000] * len(values))
    scaled = effects_of(PartitionNeeds.of(sketches), TARGET_PPM, CONFIDENCE_PPM)
    repeated = effects_of(
        needs_of({str(number): values * 1_000 for number, values in enumerate(columns)}),
        TARGET_PPM,
        CONFIDENCE_PPM,
    )
    assert scaled == repeated
    assert [effect.pairs for effect in scaled] == [1_000 * len(values) for values in columns]


@examples(60)
@given(
    st.lists(st.lists(st.integers(-(10**7), 10**9), min_size=1, max_size=400), min_size=2, max_size=6),
    st.sampled_from([500_000, 900_000, 990_000]),
)
def test_it_is_what_counting_one_by_one_gives_within_the_error_of_the_sketch(
    columns: list[list[int]], target_ppm: int
) -> None:
    needs = {str(number): values for number, values in enumerate(columns)}
    found = effects(needs, target_ppm)
    every = sorted(value for values in columns for value in values)
    rank = certified_rank(len(every), target_ppm / 1e6, CONFIDENCE_PPM / 1e6)
    everything = exact_bound_ms(every, rank)
    for name, effect in found.items():
        others = sorted(value for other, values in needs.items() if other != name for value in values)
        same_share = None if rank is None else -(-len(others) * rank // len(every))
        for found_ms, exact_ms in (
            (effect.bound_ms, everything),
            (effect.without_ms, exact_bound_ms(others, same_share)),
        ):
            assert (found_ms is None) == (exact_ms is None)
            if found_ms is not None and exact_ms is not None:
                # At the bucket's upper edge, and a millisecond is the narrowest bucket.
                assert exact_ms <= found_ms <= exact_ms * 1.0101 + 1


def test_thousands_of_partitions_are_looked_at_a_part_at_a_time_with_the_same_result(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    needs = {str(number): usual(50, number) for number in range(300)}
    together = effects(needs)
    monkeypatch.setattr("tidemark.models.evidence.skew.AT_A_TIME", 1_000)
    assert effects(needs) == together


def test_without_any_row_nothing_is_found() -> None:
    assert effects_of(PartitionNeeds.merged([]), TARGET_PPM, CONFIDENCE_PPM) == []


# -- when it begins and when it ends -----------------------------------------------------------------------------

USUAL = SkewRule()
COSTLY = Effect("7", 10_000, 1_000, 10_000, 8_000)


def at(costs_ms: int, bound_ms: int = 10_000) -> Effect:
    return replace(COSTLY, bound_ms=bound_ms, without_ms=bound_ms - costs_ms)


def judged(effect: Effect, *, before: bool, rule: SkewRule = USUAL) -> bool:
    return is_skewed(effect, 8, TARGET_PPM, CONFIDENCE_PPM, before=before, rule=rule)


@pytest.mark.parametrize(
    ("costs_ms", "bound_ms", "begins", "stays"),
    [
        (2_000, 10_000, True, True),
        (1_999, 10_000, False, True),
        (1_000, 10_000, False, True),
        (999, 10_000, False, False),
        (1_000, 2_000, True, True),
        (999, 2_000, False, True),
        (500, 2_000, False, True),
        (499, 2_000, False, False),
        (0, 0, False, False),
        (-5_000, 10_000, False, False),
    ],
)
def test_it_begins_at_a_share_and_an_amount_and_ends_below_half_of_either(
    costs_ms: int, bound_ms: int, begins: bool, stays: bool
) -> None:
    effect = at(costs_ms, bound_ms)
    assert judged(effect, before=False) is begins
    assert judged(effect, before=True) is stays


@given(st.lists(st.integers(-1_000, 10_000), min_size=1, max_size=50), st.booleans())
def test_a_cost_that_varies_by_less_than_half_changes_the_state_at_most_once(
    costs_ms: list[int], before: bool
) -> None:
    wavering = [1_001 + cost % 998 for cost in costs_ms]
    seen = []
    for cost in wavering:
        before = judged(at(cost), before=before)
        seen.append(before)
    assert len(set(seen)) == 1


def test_the_thresholds_can_be_set() -> None:
    rule = SkewRule(share_ppm=500_000, amount_ms=60_000)
    assert not judged(at(59_999, 100_000), before=False, rule=rule)
    assert judged(at(60_000, 100_000), before=False, rule=rule)
    assert not judged(at(60_000, 130_000), before=False, rule=rule)
    assert judged(at(32_500, 130_000), before=True, rule=rule)


def test_what_is_not_known_is_not_skewed() -> None:
    assert not judged(replace(COSTLY, without_ms=None), before=True)
    assert not judged(replace(COSTLY, bound_ms=None), before=True)


def test_the_sentence_says_what_it_costs_and_what_would_be_without_it() -> None:
    sentence = SkewCost.of("7", 18_000, 2_100).text
    assert sentence == "partition '7' costs 18 s of latency: without it the bound would be 2.1 s"
