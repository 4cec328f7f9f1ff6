"""Order statistics with confidence: known ranks, the definition by brute force, and the coverage that comes true."""

from __future__ import annotations

import math
from fractions import Fraction
from math import comb
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemark.models.base.quantile import certified_rank, certified_ranks, certified_share, min_samples


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


MOST = 2**53
"""The most (row, key) pairs that a stream counts."""


@pytest.mark.parametrize("power", range(50, 54))
def test_every_number_of_samples_up_to_the_most_has_its_rank_at_once_or_none(power: int) -> None:
    """scipy's binomial quantile gives NaN for 2^52 samples, and does not return for 10^16."""
    for samples in (2**power - 1, 2**power):
        rank = certified_rank(samples, 0.99)
        assert rank is not None
        # Of so many samples the plain share is right to one in ten million.
        assert samples * 0.99 < rank < samples * 0.9900001
        assert certified_rank(samples, 0.999_999_999_999_999_9) is None


@given(st.integers(1, 300), st.integers(1, 99), st.sampled_from(["0.3", "0.9", "0.95", "0.999"]))
def test_the_rank_is_the_least_that_the_definition_allows_for_any_share(
    samples: int, percent: int, confidence: str
) -> None:
    """Whatever is asked, in exact fractions."""
    share = Fraction(percent, 100)
    assert certified_rank(samples, float(share), float(confidence)) == slow_rank(
        samples, share, Fraction(confidence)
    )


@given(st.integers(300, 2**40), st.sampled_from([0.5, 0.9, 0.99, 0.999]), st.sampled_from([0.9, 0.95, 0.999]))
def test_the_rank_of_many_samples_certifies_the_share_and_the_one_before_does_not(
    samples: int, share: float, confidence: float
) -> None:
    """By the inverse, the quantile of the beta distribution; it is right to some nine digits."""
    rank = certified_rank(samples, share, confidence)
    if rank is None:
        assert samples < min_samples(share, confidence)
        return
    assert certified_share(rank, samples, confidence) >= share * (1 - 1e-9)
    assert certified_share(rank - 1, samples, confidence) < share * (1 + 1e-9)


@given(
    st.integers(2**36, MOST), st.sampled_from([0.5, 0.9, 0.99, 0.999]), st.sampled_from([0.9, 0.95, 0.999])
)
def test_the_rank_of_very_many_samples_is_that_of_the_normal_distribution(
    samples: int, share: float, confidence: float
) -> None:
    """To which the binomial one tends: its skewness is below 0.0002 here."""
    rank = certified_rank(samples, share, confidence)
    assert rank is not None
    deviation = math.sqrt(samples * share * (1 - share))
    expected = NormalDist().inv_cdf(confidence)
    assert (rank - samples * share) / deviation == pytest.approx(expected, abs=1e-3)


@given(st.lists(st.integers(0, MOST), min_size=2, max_size=50), st.sampled_from([0.5, 0.99, 0.999_999]))
def test_more_samples_never_lower_the_rank(samples: list[int], share: float) -> None:
    """And the ranks of many numbers are those of each."""
    numbers = np.array(sorted(samples), np.int64)
    ranks = certified_ranks(numbers, share)
    assert ranks.tolist() == [certified_rank(number, share) or 0 for number in numbers.tolist()]
    assert (np.diff(ranks) >= 0).all()
    assert ((ranks >= 0) & (ranks <= numbers)).all()


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
