"""Short cohorts: what has become of them says what the next ones are waiting for."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from tidemark.models.live.cohorts import ShortCohorts
from tidemark.models.live.defaults import (
    SHORT_COUNTS_AFTER_SPANS,
    SHORT_FOLLOWED_SPANS,
    SHORT_HALF_LIFE,
    SHORT_PRIOR_SPANS,
)

from support.examples import examples

SECOND = 1_000_000
SPAN = 10
COUNTS_AFTER = round(SHORT_COUNTS_AFTER_SPANS * SPAN)
FOLLOWED = round(SHORT_FOLLOWED_SPANS * SPAN)
NONE = np.empty(0, np.int64)


def at(*seconds: int) -> NDArray[np.int64]:
    return np.array(seconds, np.int64) * SECOND


def following(cohorts: int, *, rows: int = 40, short: float = 60, delivered: float = 1.0) -> ShortCohorts:
    """Return cohorts that start second by second, found short at second ``cohorts``."""
    found = ShortCohorts(SECOND, SPAN)
    every = np.ones(cohorts)
    found.follow(
        cohorts * SECOND,
        at(*range(cohorts)),
        np.full(cohorts, rows),
        delivered * every,
        short * every,
    )
    return found


def judged(
    found: ShortCohorts, second: int, *, delivered: float = 1.0, outstanding: NDArray[np.int64] = NONE
) -> float:
    found.judge(second * SECOND, np.full(len(found.start_us), delivered), outstanding)
    return found.share_to_come


def weighed(share: float, cohorts: int) -> float:
    """Return the mean with what is assumed at first: all rows come."""
    prior = SHORT_PRIOR_SPANS * SPAN
    return (prior + share * cohorts) / (prior + cohorts)


def test_at_first_all_rows_are_expected_to_come() -> None:
    assert ShortCohorts(SECOND, SPAN).share_to_come == 1


def test_nothing_is_learned_until_the_rows_had_time_to_come() -> None:
    found = following(8)
    assert judged(found, 8 + COUNTS_AFTER - 1) == 1
    assert judged(found, 8 + COUNTS_AFTER) == pytest.approx(weighed(0, 8))


@pytest.mark.parametrize(("came", "share"), [(0, 0), (15, 0.25), (60, 1), (90, 1)])
def test_the_share_is_that_of_the_rows_that_came_since(came: int, share: float) -> None:
    found = following(8)
    found.add(at(*range(8)), np.full(8, came))
    assert judged(found, 8 + COUNTS_AFTER) == pytest.approx(weighed(share, 8))


def test_the_usual_later_rows_of_those_that_came_are_not_missing_rows() -> None:
    """Of 40 rows that were four fifths, ten are to follow: with ten nothing of what was short has come."""
    found = following(8, delivered=0.8)
    found.add(at(*range(8)), np.full(8, 10))
    assert judged(found, 8 + COUNTS_AFTER) == pytest.approx(weighed(0, 8))


def test_rows_that_come_even_later_still_count() -> None:
    """As long as the cohort is followed, and not beyond."""
    found = following(8)
    assert judged(found, 8 + COUNTS_AFTER) == pytest.approx(weighed(0, 8))
    found.add(at(*range(8)), np.full(8, 60))
    assert judged(found, 8 + FOLLOWED - 1) == pytest.approx(weighed(1, 8))
    judged(found, 8 + FOLLOWED)
    assert not len(found.start_us)
    before = found.share_to_come
    found.add(at(*range(8)), np.full(8, 60))
    assert judged(found, 9 + FOLLOWED) == before


def test_rows_of_other_cohorts_do_not_count() -> None:
    found = following(3)
    found.add(at(-1, 3, 100), np.array([60, 60, 60]))
    assert judged(found, 3 + COUNTS_AFTER) == pytest.approx(weighed(0, 3))


def test_a_cohort_of_which_a_silent_partition_withholds_rows_shows_nothing() -> None:
    found = following(4)
    assert judged(found, 4 + COUNTS_AFTER, outstanding=at(0, 1, 2)) == pytest.approx(weighed(0, 1))
    assert found.start_us.tolist() == at(3).tolist()


def test_only_cohorts_newer_than_all_before_are_followed() -> None:
    """One that is found short again is the same episode."""
    found = following(4)
    judged(found, 4 + FOLLOWED)
    every = np.ones(6)
    found.follow(100 * SECOND, at(*range(6)), np.ones(6, np.int64), every, every)
    assert found.start_us.tolist() == at(4, 5).tolist()


def test_what_comes_of_an_episode_is_forgotten_by_half_in_as_many_short_cohorts_as_its_half_life() -> None:
    cohorts = round(SHORT_HALF_LIFE * SPAN)
    found = following(cohorts)
    judged(found, cohorts + FOLLOWED)
    prior = SHORT_PRIOR_SPANS * SPAN
    assert found.share_to_come == pytest.approx(prior / 2 / (prior / 2 + cohorts))


@examples(60)
@given(st.lists(st.tuples(st.integers(0, 200), st.integers(0, 11), st.integers(1, 99)), max_size=40))
def test_what_is_expected_to_come_is_always_some_share_of_it(drawn: list[tuple[int, int, int]]) -> None:
    """Whatever comes, in whatever order of cohorts."""
    found = following(12)
    for second, cohort, rows in sorted(drawn):
        found.add(at(cohort), np.array([rows]))
        assert 0 < judged(found, 12 + second) <= 1


def test_who_resumes_expects_the_same_share() -> None:
    found, resumed = following(8), ShortCohorts(SECOND, SPAN)
    judged(found, 8 + FOLLOWED)
    resumed.resume(found.learned())
    assert resumed.share_to_come == found.share_to_come < 1


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"share": np.zeros(2)}, "share has shape"),
        ({"share": np.array(9.0), "cohorts": np.array(3.0)}, "9 of 3 is no share"),
        ({"share": np.array(0.0), "cohorts": np.array(0.0)}, "0 of 0 is no share"),
        ({"cohorts": np.array(np.nan)}, "numbers that are negative or not finite"),
    ],
)
def test_numbers_of_another_form_are_refused(changed: dict[str, NDArray[np.float64]], why: str) -> None:
    found = ShortCohorts(SECOND, SPAN)
    with pytest.raises(ValueError, match=why):
        found.resume(found.learned() | changed)
