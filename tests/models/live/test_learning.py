"""How long a stream must be: the policy's own rules, asked directly."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemark.models.base.confidence import certified_rank
from tidemark.models.base.operators import row_level, sliding, tumbling
from tidemark.models.live.budget import Account, RuleChooser, keys_until_trusted
from tidemark.models.live.defaults import PRICES
from tidemark.models.live.learning import Learning, learning_of
from tidemark.models.live.policy import Setup
from tidemark.models.live.rules import FAMILIES

SECOND = 1_000_000
SETUP = Setup(operator=tumbling("10 s"), trigger_us=SECOND, target_ppm=990_000)


def allowed_after(keys: int, share: float, mass_a_key: float) -> int:
    """Return the place of the price that the budget allows after so many keys without a loss."""
    nothing = np.zeros(FAMILIES * len(PRICES))
    account = Account(keys * mass_a_key, 0.0, nothing, nothing, nothing, mass_a_key, nothing)
    return RuleChooser(share, SECOND, 10.0).choose(SECOND, account, nothing).rule % len(PRICES)


@given(share=st.sampled_from([0.05, 0.01, 0.001, 0.0001]), mass_a_key=st.floats(0.5, 1e6))
def test_the_fastest_rule_is_allowed_from_the_stated_key_on_and_not_before(
    share: float, mass_a_key: float
) -> None:
    keys = keys_until_trusted(share, mass_a_key)
    assert allowed_after(keys + 1, share, mass_a_key) == len(PRICES) - 1
    assert allowed_after(keys - 1, share, mass_a_key) < len(PRICES) - 1


def needed(setup: Setup, pairs: int = 60_000, minutes: int = 5) -> Learning:
    found = learning_of(setup, pairs, minutes * 60 * SECOND)
    assert found is not None
    return found


def test_a_stricter_target_and_fewer_rows_take_more_windows() -> None:
    loose, strict = needed(SETUP), needed(replace(SETUP, target_ppm=999_000))
    assert (loose.seen, strict.seen) == (30, 30)
    assert 32 <= loose.needed < strict.needed < needed(replace(SETUP, target_ppm=999_000), 600).needed


def test_a_stream_is_long_enough_when_it_has_the_windows_that_it_takes() -> None:
    assert not needed(SETUP).enough
    assert needed(SETUP, 120_000, 10).enough


def test_before_the_policy_closes_any_key_it_has_learned_nothing() -> None:
    """A span for each nine after the first: at 99.9999 % five spans of ten triggers, each of which is a key."""
    rows = replace(SETUP, operator=row_level(), target_ppm=999_999)
    assert needed(rows, 10**12).needed == 50


def test_windows_are_counted_by_their_slide_and_keys_without_windows_by_the_trigger() -> None:
    assert needed(replace(SETUP, operator=sliding("10 s", "2 s"))).seen == 150
    assert needed(replace(SETUP, operator=row_level())).seen == 300


def test_with_time_slices_the_windows_themselves_are_the_evidence() -> None:
    """Of 99 % of the windows none may miss in the first hundred, however many rows they have."""
    few, many = (needed(replace(SETUP, objective="timeslices"), rows) for rows in (600, 600_000))
    assert few == many
    assert few.needed > needed(SETUP).needed


@pytest.mark.parametrize("rows", [30, 300, 3_000])
def test_for_restarts_it_takes_the_rows_that_certify_the_target(rows: int) -> None:
    found = needed(replace(SETUP, mode="restart"), rows)
    a_window = rows / found.seen
    assert certified_rank(round(found.needed * a_window), 0.99) is not None
    assert certified_rank(round((found.needed - 1) * a_window), 0.99) is None
