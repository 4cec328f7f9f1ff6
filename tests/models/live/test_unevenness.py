"""Unevenness: variance over mean of counts, from the first ones on."""

from __future__ import annotations

import numpy as np
import pytest

from tidemark.models.live.chance import Unevenness
from tidemark.models.live.defaults import UNEVENNESS_CEILING, UNEVENNESS_PRIOR

HALF_LIFE, PRIOR = 200, 10
ALL = np.ones(1, bool)


def known_from(counts: list[int], expected: float) -> float:
    found = Unevenness(HALF_LIFE, PRIOR)
    found.add(np.array(counts)[:, None], np.array([expected]), ALL)
    return float(found.ratio[0])


def test_at_first_counts_are_assumed_to_be_uneven() -> None:
    found = Unevenness(HALF_LIFE, PRIOR)
    found.widen(3)
    assert found.ratio.tolist() == [UNEVENNESS_PRIOR] * 3


@pytest.mark.parametrize("pack", [1, 5, 20])
def test_rows_in_packs_are_as_many_times_as_uneven_as_a_pack_has_rows(pack: int) -> None:
    counts = pack * np.random.default_rng(1).poisson(8, 400)
    assert known_from(counts.tolist(), 8 * pack) == pytest.approx(pack, rel=0.25)


def test_some_windows_show_that_a_stream_is_even_whatever_was_assumed() -> None:
    assert known_from(np.random.default_rng(1).poisson(80, 50).tolist(), 80) < UNEVENNESS_PRIOR / 3


def test_no_counts_are_more_even_than_those_of_independent_rows() -> None:
    assert known_from([80] * 2_000, 80) == 1


def test_one_extreme_count_adds_no_more_than_the_ceiling() -> None:
    usual = Unevenness(HALF_LIFE, PRIOR)
    usual.add(np.full((100, 1), 100), np.array([100.0]), ALL)
    before = usual._deviation[0]
    usual.add(np.array([[1_000_000]]), np.array([100.0]), ALL)
    assert before < usual._deviation[0] < before + UNEVENNESS_CEILING


def test_a_column_that_is_left_out_stays_as_it_was() -> None:
    found = Unevenness(HALF_LIFE, PRIOR)
    found.widen(2)
    found.add(np.array([[90, 0]] * 40), np.array([90.0, 90.0]), np.array([True, False]))
    assert found.ratio[0] < 3
    assert found.ratio[1] == UNEVENNESS_PRIOR


def test_it_follows_a_change_within_some_half_lives() -> None:
    dice = np.random.default_rng(2)
    found = Unevenness(HALF_LIFE, PRIOR)
    for _ in range(1_000):
        found.add(20 * dice.poisson(8, 1)[:, None], np.array([160.0]), ALL)
    uneven = found.ratio[0]
    for _ in range(6 * HALF_LIFE):
        found.add(dice.poisson(160, 1)[:, None], np.array([160.0]), ALL)
    assert uneven > 15
    assert found.ratio[0] < 1.5


def test_who_resumes_goes_on_with_the_same_numbers() -> None:
    found, resumed = Unevenness(HALF_LIFE, PRIOR), Unevenness(HALF_LIFE, PRIOR)
    found.widen(2)
    found.add(np.array([[3, 50]] * 20), np.array([5.0, 20.0]), np.ones(2, bool))
    resumed.resume(found.learned())
    for each in (found, resumed):
        each.add(np.array([[4, 4]]), np.array([5.0, 20.0]), np.ones(2, bool))
    assert found.ratio.tolist() == resumed.ratio.tolist()


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"deviation": np.zeros(3)}, "counts has shape"),
        ({"counts": np.zeros(1)}, "needs counts above 0"),
        ({"deviation": np.array([np.nan])}, "numbers that are negative or not finite"),
    ],
)
def test_numbers_of_another_form_are_refused(changed: dict[str, np.ndarray], why: str) -> None:
    found = Unevenness(HALF_LIFE, PRIOR)
    with pytest.raises(ValueError, match=why):
        found.resume(found.learned() | changed)
