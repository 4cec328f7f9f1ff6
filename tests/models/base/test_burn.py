"""How fast a budget is used up: burn rates against exact fractions, and when nothing is left."""

from __future__ import annotations

from fractions import Fraction
from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemark.models.base.target import PPM, burn_rate_ppm, exhausted_in_ms

DAY_MS = 86_400_000


@given(counted=st.integers(1, 10**12), share_ppm=st.integers(0, PPM - 1), data=st.data())
def test_the_rate_is_the_bad_share_over_the_allowed_one_and_never_rounded_down(
    counted: int, share_ppm: int, data: st.DataObject
) -> None:
    bad = data.draw(st.integers(0, counted))
    exact = Fraction(bad, counted) / Fraction(PPM - share_ppm, PPM)
    assert burn_rate_ppm(bad, counted, share_ppm) == ceil(exact * PPM)


@pytest.mark.parametrize(("counted", "share_ppm"), [(0, 990_000), (100, PPM)])
def test_where_nothing_counts_or_nothing_may_be_bad_there_is_no_rate(counted: int, share_ppm: int) -> None:
    assert burn_rate_ppm(0, counted, share_ppm) is None


@pytest.mark.parametrize(
    ("remaining_ppm", "rate_ppm", "expected_ms"),
    [
        (PPM, 2 * PPM, DAY_MS // 2),
        (250_000, 10 * PPM, DAY_MS // 40),
        (250_000, PPM, None),
        (250_000, 0, None),
        (0, 5 * PPM, 0),
        (-10, 0, 0),
        (None, 5 * PPM, None),
        (500_000, None, None),
    ],
)
def test_a_budget_lasts_as_long_as_its_burn_rate_lets_it(
    remaining_ppm: int | None, rate_ppm: int | None, expected_ms: int | None
) -> None:
    assert exhausted_in_ms(remaining_ppm, rate_ppm, DAY_MS) == expected_ms
