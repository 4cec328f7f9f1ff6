"""Rows at stake: what became of those that were let go, and what is expected of the next ones."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from tidemark.models.live.budget import AtStake
from tidemark.models.live.defaults import AT_STAKE_PRIOR_KEYS

from support.examples import examples

RULES = 3
A_KEY = 100.0


def rows(*each: float) -> NDArray[np.float64]:
    return np.array(each, np.float64)


def after(*steps: tuple[NDArray[np.float64], NDArray[np.float64]]) -> float:
    """Return the share to come after steps of what is at stake, and what was lost meanwhile."""
    at_stake = AtStake(RULES)
    for at, lost in steps:
        at_stake.add(at, lost)
    return at_stake.share_to_come(A_KEY)


NOTHING = rows(0, 0, 0)


def test_at_first_half_is_expected_to_come() -> None:
    assert after() == 0.5
    assert AtStake(RULES).share_to_come(1e-9) == 0.5


def test_rows_still_at_stake_show_nothing() -> None:
    assert after((rows(300, 0, 0), NOTHING), (rows(900, 0, 0), NOTHING)) == 0.5


def test_rows_that_came_raise_the_share_and_rows_that_did_not_lower_it() -> None:
    at_once = rows(3e4, 3e4, 3e4)
    assert after((at_once, NOTHING), (NOTHING, at_once)) > 0.99
    assert after((at_once, NOTHING), (NOTHING, NOTHING)) < 0.01


def test_usual_stragglers_are_not_taken_for_rows_at_stake() -> None:
    assert after((NOTHING, rows(500, 500, 500))) == 0.5
    assert after((rows(300, 0, 0), NOTHING), (NOTHING, rows(9e9, 0, 0))) == after(
        (rows(300, 0, 0), NOTHING), (NOTHING, rows(300, 0, 0))
    )


def test_before_a_share_is_believed_some_rows_must_have_shown_it() -> None:
    """The mean over the rules counts, against that many keys' worth of rows."""
    known = A_KEY * AT_STAKE_PRIOR_KEYS
    settled = (rows(3 * known, 0, 0), NOTHING)
    assert after(settled, (NOTHING, rows(3 * known, 0, 0))) == pytest.approx(0.75)
    assert after(settled, (NOTHING, NOTHING)) == pytest.approx(0.25)


amounts = st.lists(st.floats(0, 1e6), min_size=RULES, max_size=RULES).map(np.array)


@examples(60)
@given(steps=st.lists(st.tuples(amounts, amounts), max_size=8))
def test_the_share_is_a_share_whatever_happens_and_survives_a_restart(
    steps: list[tuple[NDArray[np.float64], NDArray[np.float64]]],
) -> None:
    at_stake, resumed = AtStake(RULES), AtStake(RULES)
    for at, lost in steps:
        at_stake.add(at, lost)
    assert 0 <= at_stake.share_to_come(A_KEY) <= 1
    resumed.resume(at_stake.learned())
    assert resumed.share_to_come(A_KEY) == at_stake.share_to_come(A_KEY)
