"""Stragglers: rows a key beyond each age, against naive counts and against a law that is known."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from tidemark.models.live.ages import BUCKETS, ZERO, Stragglers, bucket_of

FOREVER = float("inf")
OLD = 1e9
"""Age in triggers of a stream that has shown every age of the grid."""
LONGEST = 40
"""Triggers after which nothing comes, in the streams whose law is known."""


def beyond(stragglers: Stragglers, age: float, memory: int = 0, kind: int = 0) -> float:
    """Return the rows that a key gets after the bucket of an age."""
    return float(stragglers.beyond()[memory, kind, bucket_of(np.array([age]))[0]])


def one(stragglers: Stragglers, age: float, rows: float) -> None:
    stragglers.add(np.array([age]), np.array([[rows]]))


def young_stream(triggers: int, rows: int, seed: int | None = None) -> tuple[Stragglers, float]:
    """Return what is known of a stream of ``triggers`` keys, and the rows counted beyond a third of ``LONGEST``.

    Every trigger a key ends, whose rows come evenly over the ``LONGEST`` triggers after it: ``rows`` in each.
    """
    dice = np.random.default_rng(seed)
    found, late = Stragglers([FOREVER], 1, 1.0), 0.0
    for now in range(1, triggers + 1):
        found.advance(1, now)
        age = np.arange(1, min(now, LONGEST) + 1, dtype=np.float64) - 0.1
        count = np.full(len(age), float(rows)) if seed is None else dice.poisson(rows, len(age)).astype(float)
        found.add(age, count[None, :])
        late += count[age > LONGEST / 3].sum()
    return found, late


@given(
    ages=st.lists(st.floats(-300, 300), min_size=1, max_size=40),
    keys=st.integers(1, 500),
    data=st.data(),
)
def test_without_forgetting_an_old_stream_counts_as_one_would_by_hand(
    ages: list[float], keys: int, data: st.DataObject
) -> None:
    rows = data.draw(st.lists(st.integers(0, 1_000), min_size=len(ages), max_size=len(ages)))
    found = Stragglers([FOREVER], 1, 1.0)
    found.advance(keys, OLD)
    middle = len(ages) // 2
    for part in (slice(middle), slice(middle, None)):
        found.add(np.array(ages[part]), np.array([rows[part]], float))
    bucket = bucket_of(np.array(ages))
    naive = [(np.array(rows) * (bucket > at)).sum() / keys for at in range(BUCKETS)]
    np.testing.assert_allclose(found.beyond()[0, 0], naive, rtol=1e-5, atol=1e-9)


def test_after_the_last_bucket_nothing_comes() -> None:
    found = Stragglers([FOREVER], 1, 1.0)
    found.advance(1, OLD)
    one(found, 1e12, 5)
    assert found.beyond()[0, 0, -1] == 0
    assert found.beyond()[0, 0, -2] == 5


def test_kinds_are_counted_apart() -> None:
    found = Stragglers([FOREVER], 2, 1.0)
    found.advance(10, OLD)
    found.add(np.array([3.0, 7.0]), np.array([[20.0, 30.0], [20.0, 0.0]]))
    assert [beyond(found, 5, kind=kind) for kind in range(2)] == [3, 0]
    assert [beyond(found, 1, kind=kind) for kind in range(2)] == [5, 2]


def test_rows_beyond_an_age_fall_with_the_age() -> None:
    found, _ = young_stream(25, 10, seed=1)
    assert (np.diff(found.beyond()[0, 0]) <= 0).all()


# -- exposure ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("triggers", [60, 80, 120, 400])
def test_in_a_young_stream_the_rows_beyond_an_age_are_not_underestimated(triggers: int) -> None:
    """Keys that are too young to have shown an age do not count as keys without rows at that age.

    What is left is less than 1 %: a key counts from the lower edge of a bucket on, when it has shown a part of it.
    """
    found, late = young_stream(triggers, 10)
    true = 10 * (LONGEST - np.ceil(LONGEST / 3) + 1)
    assert late / triggers < (1 - 0.3 * LONGEST / triggers) * true, "the naive count is biased"
    assert beyond(found, LONGEST / 3) == pytest.approx(true, rel=0.01)


def test_with_drawn_rows_too_there_is_no_bias_downward() -> None:
    """The mean over 100 streams one and a half times as old as the highest age; the naive mean is a third short."""
    estimates, naive = [], []
    for seed in range(100):
        found, late = young_stream(60, 1, seed)
        estimates.append(beyond(found, LONGEST / 3))
        naive.append(late / 60)
    true = LONGEST - np.ceil(LONGEST / 3) + 1
    error = np.std(estimates) / 10
    assert np.mean(naive) < 0.65 * true
    assert true - 3 * error < np.mean(estimates) < true + 3 * error


def test_an_age_that_the_stream_is_too_young_for_counts_by_all_keys() -> None:
    """Rows from before the stream was watched may show it; they do not make an endless number a key."""
    found = Stragglers([FOREVER], 1, 1.0)
    found.advance(10, 10)
    one(found, 500, 20)
    assert beyond(found, 400) == 2


def test_a_stream_that_nobody_has_watched_expects_nothing() -> None:
    assert not Stragglers([FOREVER, 5.0], 2, 1.0).beyond().any()


# -- memory --------------------------------------------------------------------------------------------------


def test_after_years_a_key_still_counts_and_what_a_key_gets_is_as_before() -> None:
    stragglers = Stragglers([FOREVER], 1, 1.0)
    for _ in range(4_000):
        stragglers.advance(2**14, OLD)
        one(stragglers, 10.0, 2.0**14)
    assert beyond(stragglers, 5.0) == pytest.approx(1.0, rel=0.01)
    keys = stragglers.learned()["keys"].copy()
    stragglers.advance(1, OLD)
    assert (stragglers.learned()["keys"] > keys).all()


@pytest.mark.parametrize("half_life", [1.0, 7.0, 160.0])
def test_after_a_half_life_a_row_weighs_half(half_life: float) -> None:
    """Against the keys, that is: after many half-lives their sum does not move, so the estimate shows it."""
    found = Stragglers([half_life], 1, 1.0)
    found.advance(round(100 * half_life), OLD)
    one(found, 5, 64)
    before = beyond(found, 1)
    assert before > 0
    found.advance(round(half_life), OLD)
    assert beyond(found, 1) == pytest.approx(before / 2, rel=1e-4)


@pytest.mark.parametrize("half_life", [3.0, 50.0, FOREVER])
def test_a_stream_that_goes_on_as_it_did_is_foreseen_alike_by_every_memory(half_life: float) -> None:
    found = Stragglers([half_life], 1, 1.0)
    for _ in range(300):
        found.advance(1, OLD)
        one(found, 5, 6)
    assert beyond(found, 1) == pytest.approx(6, rel=1e-4)


def test_a_short_memory_learns_of_a_change_before_a_long_one() -> None:
    found = Stragglers([5.0, 50.0, FOREVER], 1, 1.0)
    for now in range(220):
        found.advance(1, OLD)
        one(found, 5, 6 if now < 200 else 12)
    short, middle, endless = (beyond(found, 1, memory) for memory in range(3))
    assert 11.5 < short <= 12
    assert short > middle > endless > 6


@given(
    steps=st.lists(st.integers(1, 9), min_size=1, max_size=12),
    half_life=st.sampled_from([4.0, 30.0, FOREVER]),
)
def test_a_silence_counts_alike_in_one_step_or_in_several(steps: list[int], half_life: float) -> None:
    at_once, bit_by_bit = Stragglers([half_life], 1, 1.0), Stragglers([half_life], 1, 1.0)
    for found in (at_once, bit_by_bit):
        found.advance(20, OLD)
        one(found, 5, 100)
    at_once.advance(sum(steps), OLD)
    for step in steps:
        bit_by_bit.advance(step, OLD)
    np.testing.assert_allclose(at_once.beyond(), bit_by_bit.beyond(), rtol=1e-4)


# -- scaling -------------------------------------------------------------------------------------------------


@given(st.sampled_from([0.1, 0.25, 2.0, 16.0]))
def test_what_is_foreseen_is_a_key_whatever_the_number_of_keys_in_a_trigger(keys_per_trigger: float) -> None:
    found, same = Stragglers([9.0, FOREVER], 1, 1.0), Stragglers([9.0, FOREVER], 1, keys_per_trigger)
    for now in range(1, 30):
        for stragglers, rows in ((found, 8.0), (same, 8 * keys_per_trigger)):
            stragglers.advance(1, now)
            one(stragglers, now % 7 + 0.5, rows)
    np.testing.assert_allclose(found.beyond(), same.beyond(), rtol=1e-4)


@given(st.sampled_from([0.5, 4.0, 1_024.0]))
def test_twice_the_rows_are_twice_the_stragglers(factor: float) -> None:
    found, more = Stragglers([9.0], 1, 1.0), Stragglers([9.0], 1, 1.0)
    for now in range(1, 30):
        for stragglers, rows in ((found, 8.0), (more, 8 * factor)):
            stragglers.advance(1, now)
            one(stragglers, now % 7 + 0.5, rows)
    np.testing.assert_allclose(more.beyond(), factor * found.beyond(), rtol=1e-5)
    assert found.beyond().shape == (1, 1, BUCKETS)


def test_rows_of_one_bucket_may_come_in_any_order() -> None:
    counts: NDArray[np.float64] = np.array([[5.0, 7.0, 11.0]])
    found, other = Stragglers([9.0], 1, 1.0), Stragglers([9.0], 1, 1.0)
    for stragglers in (found, other):
        stragglers.advance(1, OLD)
    found.add(np.array([1.0, 30.0, 1.1]), counts)
    other.add(np.array([30.0, 1.1, 1.0]), counts[:, [1, 2, 0]])
    np.testing.assert_array_equal(found.beyond(), other.beyond())


def test_the_late_rows_are_those_from_age_0_on_and_there_are_none_after_them() -> None:
    found = Stragglers([3.0, FOREVER], 2, 1.0)
    dice = np.random.default_rng(4)
    for now in range(1, 60):
        found.advance(1, now)
        found.add(dice.uniform(-5, 50, 20), dice.integers(1, 9, (2, 20)).astype(np.float64))
    late, whole = found.late(), found.beyond()[:, :, ZERO:]
    np.testing.assert_array_equal(late, whole[:, :, : late.shape[2]])
    assert not whole[:, :, late.shape[2] :].any()
    assert late.any()
    assert 1 < late.shape[2] < whole.shape[2] / 2
