"""Order statistics with confidence: known ranks, the definition by brute force, and the coverage that comes true."""

from __future__ import annotations

from fractions import Fraction
from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemark.models.quantile import certified_rank, min_samples


@pytest.mark.parametrize(
    ("samples", "rank"),
    [
        (1_000, 996),
        (4_096, 4_066),
        (500, 499),
        (2_000, 1_988),
        (10_000, 9_917),
        (40_960, 40_584),
        (100_000, 99_052),
    ],
)
def test_99_percent_at_95_percent_confidence_has_the_known_ranks(samples: int, rank: int) -> None:
    """Computed elsewhere from the same definition."""
    assert certified_rank(samples, 0.99, 0.95) == rank


def test_below_299_samples_no_rank_certifies_99_percent() -> None:
    """0.99 ** 298 is 5.004 %: even the highest of 298 samples is below the quantile too often."""
    assert [certified_rank(samples, 0.99) for samples in range(299)] == [None] * 299
    assert certified_rank(299, 0.99) == 299
    assert min_samples(0.99) == 299


def slow_rank(samples: int, share: Fraction, confidence: Fraction) -> int | None:
    """Return the lowest r with P(Binomial(samples, share) <= r - 1) >= confidence, in exact fractions."""
    below = Fraction(0)
    for rank in range(1, samples + 1):
        below += comb(samples, rank - 1) * share ** (rank - 1) * (1 - share) ** (samples - rank + 1)
        if below >= confidence:
            return rank
    return None


@pytest.mark.parametrize("confidence", ["0.5001", "0.9", "0.95", "0.99"])
@pytest.mark.parametrize("share", ["0.1", "0.5", "0.9", "0.95", "0.99"])
def test_the_rank_is_the_least_that_the_definition_allows(share: str, confidence: str) -> None:
    """A rank too low certifies nothing; one too high costs latency."""
    for samples in (*range(1, 40), 60, 90, 299, 300):
        expected = slow_rank(samples, Fraction(share), Fraction(confidence))
        assert certified_rank(samples, float(share), float(confidence)) == expected, samples


@given(st.integers(500_000, 999_999), st.integers(500_000, 999_000))
def test_the_least_number_of_samples_is_where_a_rank_first_exists(
    share_ppm: int, confidence_ppm: int
) -> None:
    """The message "it takes n rows" must not be off by one."""
    share, confidence = share_ppm / 1e6, confidence_ppm / 1e6
    lowest = min_samples(share, confidence)
    assert certified_rank(lowest, share, confidence) == lowest
    assert certified_rank(lowest - 1, share, confidence) is None


def test_the_certified_sample_is_at_or_above_the_quantile_as_often_as_promised() -> None:
    """4,000 streams of 1,000 exponential delays: rank 996 covers 95 % of them, the plain 99 % sample about half."""
    share, rank = 0.99, certified_rank(1_000, 0.99)
    assert rank is not None
    streams = np.sort(np.random.default_rng(7).exponential(6, (4_000, 1_000)), axis=1)
    quantile = -6 * np.log(1 - share)
    assert (streams[:, rank - 1] >= quantile).mean() >= 0.95
    assert (streams[:, rank - 2] >= quantile).mean() < 0.95, "the rank before it must not do"
    assert 0.4 < (streams[:, 990 - 1] >= quantile).mean() < 0.6


@pytest.mark.parametrize("value", [0.0, 1.0, -0.5, 1.5])
def test_shares_and_confidences_outside_0_and_1_are_rejected_by_name(value: float) -> None:
    """99 for 99 % is the likely slip."""
    with pytest.raises(ValueError, match=f"share must lie between 0 and 1, both excluded, not {value}"):
        certified_rank(10, value)
    with pytest.raises(ValueError, match="confidence must lie"):
        certified_rank(10, 0.9, value)
    with pytest.raises(ValueError, match="share must lie"):
        min_samples(value)
    with pytest.raises(ValueError, match="confidence must lie"):
        min_samples(0.9, value)


def test_a_negative_number_of_samples_is_rejected() -> None:
    """It can only come from a bug."""
    with pytest.raises(ValueError, match="-1"):
        certified_rank(-1, 0.9)
