"""Confidence at every look: known ranks, the definition in exact fractions, and the promise that comes true."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import pdtrc

from tidemark.models.base.confidence import (
    certified_rank,
    certified_share,
    interval_ppm,
    min_events,
    rarest_covered_us,
)

SHARES = st.sampled_from([0.5, 0.9, 0.95, 0.99, 0.999])
CONFIDENCES = st.sampled_from([0.5, 0.9, 0.95, 0.999])
PER_EVENT = st.floats(1, 1_000)
MOST = 2**53
"""The most (row, key) pairs that a stream counts."""


@pytest.mark.parametrize(
    ("rows", "late"), [(417, 0), (1_000, 2), (2_000, 8), (5_000, 30), (50_000, 427), (1_000_000, 9_624)]
)
def test_so_many_rows_may_be_late_to_certify_99_percent_at_95_percent(rows: int, late: int) -> None:
    """At one look it would be 1, 4, 12, 37, 462 and 9,835."""
    assert certified_rank(rows, 0.99, 0.95) == rows - late


def test_below_417_events_nothing_certifies_99_percent() -> None:
    assert [certified_rank(rows, 0.99) for rows in range(417)] == [None] * 417
    assert (certified_rank(417, 0.99), min_events(0.99)) == (417, 417)
    assert [min_events(share) for share in (0.9, 0.95, 0.999)] == [40, 82, 4_188]


def test_rows_that_share_their_fate_count_as_their_events() -> None:
    """20,000 rows in packs of 20 may lose as many packs as 1,000 rows may lose rows."""
    alone, packed = certified_rank(1_000, 0.99), certified_rank(20_000, 0.99, 0.95, 20)
    assert alone is not None
    assert packed is not None
    assert (20_000 - packed) // 20 == 1_000 - alone
    assert certified_rank(20 * 417, 0.99, 0.95, 20) == 20 * 417
    assert certified_rank(20 * 417 - 1, 0.99, 0.95, 20) is None


def exact_evidence(late: int, rows: int, share: Fraction) -> Fraction:
    """Return the evidence that fewer than ``share`` are late, which must be 1 / k, by the binomial theorem.

    The prior is then a beta distribution with whole parameters, and every integral one of a polynomial.
    """
    a, b = 1, int(1 / share) - 1

    def below(x: int, y: int) -> Fraction:
        """Return the integral of t^(x-1) (1-t)^(y-1) from 0 to ``share``."""
        powers = (Fraction((-1) ** k * math.comb(y - 1, k), x + k) * share ** (x + k) for k in range(y))
        return sum(powers, Fraction(0))

    return below(late + a, rows - late + b) / below(a, b) / share**late / (1 - share) ** (rows - late)


@pytest.mark.parametrize("missed", [Fraction(1, 2), Fraction(1, 10), Fraction(1, 20), Fraction(1, 100)])
def test_the_rank_is_the_least_whose_evidence_is_enough(missed: Fraction) -> None:
    for rows in (*range(1, 12), 40, 82, 150, 420):
        fewer = range(int(rows * missed), -1, -1)
        most = next((late for late in fewer if exact_evidence(late, rows, missed) >= 20), None)
        assert certified_rank(rows, float(1 - missed)) == (None if most is None else rows - most), rows


@pytest.mark.parametrize("power", range(50, 54))
def test_every_number_of_rows_up_to_the_most_has_its_rank_or_none(power: int) -> None:
    """The terms of the closed form are a quadrillion times as large as their difference."""
    for rows in (2**power - 1, 2**power):
        rank = certified_rank(rows, 0.99)
        assert rank is not None
        assert rows * 0.99 < rank < rows * 0.9900001
        assert certified_rank(rows, 0.999_999_999_999_999_9) is None


@given(st.integers(2**36, MOST), st.sampled_from([0.9, 0.99, 0.999]), st.sampled_from([0.9, 0.95, 0.999]))
def test_the_rank_of_very_many_rows_is_that_of_the_normal_mixture(
    rows: int, share: float, confidence: float
) -> None:
    """The prior is flat over so narrow a peak: its density there, times the width of the peak, and exp(z * z / 2)."""
    rank = certified_rank(rows, share, confidence)
    assert rank is not None
    missed = 1 - share
    z = (rank - rows * share) / math.sqrt(rows * share * missed)
    b = share / missed
    density = b * share ** (b - 1) / (1 - share**b)
    evidence = z * z / 2 + math.log(density * math.sqrt(2 * math.pi * share * missed / rows))
    assert evidence == pytest.approx(-math.log(1 - confidence), abs=0.01)


@given(st.integers(0, MOST), st.integers(0, 1_000), SHARES, CONFIDENCES, PER_EVENT)
def test_more_rows_never_lower_the_rank_and_more_late_ones_are_never_certified_before_fewer(
    rows: int, more: int, share: float, confidence: float, per_event: float
) -> None:
    fewer = certified_rank(rows, share, confidence, per_event)
    rank = certified_rank(min(rows + more, MOST), share, confidence, per_event)
    assert fewer is None or (rank is not None and fewer <= rank)
    packed = certified_rank(rows, share, confidence, 2 * per_event)
    assert packed is None or (fewer is not None and packed >= fewer)


@given(st.integers(1, 2**40), SHARES, CONFIDENCES, PER_EVENT)
def test_the_share_that_the_rank_certifies_is_the_one_asked_for_and_the_rank_before_falls_short(
    rows: int, share: float, confidence: float, per_event: float
) -> None:
    rank = certified_rank(rows, share, confidence, per_event)
    if rank is None:
        assert certified_share(rows, rows, confidence, per_event) < share * (1 + 1e-9)
        return
    assert certified_share(rank, rows, confidence, per_event) >= share * (1 - 1e-8)
    assert certified_share(rank - 1, rows, confidence, per_event) < share * (1 + 1e-8)


@given(st.integers(500_000, 999_999), st.integers(500_000, 999_000))
def test_the_least_number_of_events_is_where_a_rank_first_exists(share_ppm: int, confidence_ppm: int) -> None:
    """The message "so many are needed" must not be off by one."""
    share, confidence = share_ppm / 1e6, confidence_ppm / 1e6
    lowest = min_events(share, confidence)
    assert certified_rank(lowest, share, confidence) == lowest
    assert certified_rank(lowest - 1, share, confidence) is None


@given(st.integers(1, 10**6), st.integers(0, 10**6), PER_EVENT)
def test_the_interval_holds_the_share_itself_and_fewer_events_widen_it(
    rows: int, late: int, per_event: float
) -> None:
    late = min(late, rows)
    least, most = interval_ppm(late, late, rows, 950_000, per_event)
    assert least is not None
    assert most is not None
    assert 0 <= least <= 1_000_000 * (rows - late) / rows <= most <= 1_000_000
    wider = interval_ppm(late, late, rows, 950_000, 2 * per_event)
    assert wider[0] is not None
    assert wider[1] is not None
    assert wider[0] <= least
    assert most <= wider[1]


def test_without_rows_there_is_no_interval_and_with_none_late_its_end_is_the_whole() -> None:
    assert interval_ppm(0, 0, 0, 950_000) == (None, None)
    assert interval_ppm(0, 0, 1_000, 950_000) == (994_982, 1_000_000)
    assert interval_ppm(1_000, 1_000, 1_000, 950_000) == (0, 5_018)


def ever_certified(share: float, paths: int, rows: int, seed: int) -> float:
    """Return in how many streams, of whose rows just ``share`` are not late, any number of rows certifies ``share``."""
    late = (np.random.default_rng(seed).random((paths, rows)) >= share).cumsum(axis=1)
    ranks = [certified_rank(count, share) for count in range(1, rows + 1)]
    allowed = np.array([-1 if rank is None else count - rank for count, rank in enumerate(ranks, 1)])
    return float((late <= allowed).any(axis=1).mean())


def test_whoever_looks_after_each_row_is_wrong_in_at_most_5_percent_of_streams() -> None:
    """By Ville's inequality for streams without end. Three standard deviations of 4,000 streams are 1 point."""
    found = ever_certified(0.9, 4_000, 3_000, seed=7)
    assert 0.02 < found < 0.06


@pytest.mark.parametrize("value", [0.0, 1.0, -0.5, 1.5])
def test_shares_and_confidences_outside_0_and_1_are_rejected_by_name(value: float) -> None:
    """99 for 99 % is the likely slip."""
    with pytest.raises(ValueError, match=f"share must lie between 0 and 1, both excluded, not {value}"):
        certified_rank(10, value)
    with pytest.raises(ValueError, match="confidence must lie"):
        certified_rank(10, 0.9, value)
    with pytest.raises(ValueError, match="share must lie"):
        min_events(value)
    with pytest.raises(ValueError, match="confidence must lie"):
        min_events(0.9, value)


def test_counts_that_cannot_be_are_rejected() -> None:
    """They can only come from a bug."""
    with pytest.raises(ValueError, match="rows must be at least 0, not -1"):
        certified_rank(-1, 0.9)
    with pytest.raises(ValueError, match=r"rows_per_event must be at least 1, not 0\.5"):
        certified_rank(10, 0.9, 0.95, 0.5)
    with pytest.raises(ValueError, match="admitted must be at least 0 and at most 10, not 11"):
        certified_share(11, 10)


@given(st.integers(0, 2**53), st.floats(0.5, 0.999))
def test_of_the_rarest_events_that_are_covered_five_have_come_with_the_confidence(
    observed_us: int, confidence: float
) -> None:
    """By the Poisson distribution; an hour covers what comes every 6.6 minutes, and a day every 2.6 hours."""
    rarest_us = rarest_covered_us(observed_us, confidence)
    if rarest_us > 1_000:
        assert pdtrc(4, observed_us / rarest_us) == pytest.approx(confidence, abs=0.001)
    assert rarest_covered_us(2 * observed_us, confidence) >= 2 * rarest_us


@given(
    st.lists(st.tuples(st.floats(0.01, 1_000), st.integers(1, 9)), min_size=1, max_size=9), st.floats(0, 100)
)
def test_events_of_unequal_sizes_prove_at_least_as_much_as_the_division_lets_them(
    sizes: list[tuple[float, int]], pull: float
) -> None:
    """The lemma behind it: of all sizes with the same two moments, none and one size are the least favourable."""
    size, weight = np.array(sizes).T
    mean, square = np.average(size, weights=weight), np.average(size**2, weights=weight)
    divisor = square / mean
    evidence = np.average(np.exp(-pull * size), weights=weight)
    assert evidence <= 1 + mean / divisor * np.expm1(-pull * divisor) + 1e-9
