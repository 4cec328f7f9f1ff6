"""The estimate of the first hours: its interval against the exact binomial distribution, and what it says."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import bdtr, bdtrc

from tidemark.models.evidence.curve import Curve, ExactNeeds
from tidemark.models.evidence.joint_needs import JointNeeds
from tidemark.models.evidence.sketch import Sketch
from tidemark.models.recommend.promise import ProvisionalBound, Recommended
from tidemark.models.rollout.evidence import EvidenceSpan
from tidemark.models.rollout.provisional_bound import (
    provisional_bound_of,
    provisional_joint_bound,
    quantile_ranks,
)
from tidemark.models.specs.slo import JoinSlo, Slo

SECOND_US = 1_000_000
MINUTE_US = 60 * SECOND_US
SHARES = st.sampled_from([500_000, 900_000, 990_000, 999_000])
CONFIDENCES = st.sampled_from([800_000, 950_000, 990_000])
FOUR_MINUTES_OF_AN_HOUR = EvidenceSpan(covered_us=4 * MINUTE_US, needed_us=60 * MINUTE_US, reached_us=0)


@given(st.integers(0, 20_000), SHARES, CONFIDENCES, st.floats(1, 50))
def test_at_one_look_each_end_is_at_least_as_sure_as_the_exact_binomial_interval_asks(
    events: int, share_ppm: int, confidence_ppm: int, per_event: float
) -> None:
    """The number of rows up to the quantile is binomial, whatever they need; packs of rows count once."""
    low, high = quantile_ranks(events, share_ppm, confidence_ppm)
    share, wrong = share_ppm / 1e6, 1 - confidence_ppm / 1e6
    if low is not None:
        assert bdtr(low - 1, events, share) <= wrong
    if high is not None:
        assert bdtrc(high - 1, events, share) <= wrong
    fewer = quantile_ranks(events, share_ppm, confidence_ppm, per_event)
    assert fewer[0] is None or (low is not None and fewer[0] <= low)
    assert fewer[1] is None or (high is not None and fewer[1] >= high)


@pytest.mark.parametrize(("share_ppm", "rows"), [(500_000, 200), (900_000, 300), (990_000, 500)])
def test_over_all_looks_together_each_end_is_wrong_no_more_often_than_it_says(
    share_ppm: int, rows: int
) -> None:
    """By the exact chances of all paths: how many rows are up to the quantile, one row after the other."""
    share, wrong = share_ppm / 1e6, 0.05
    # The chance of each number of rows up to the quantile, of paths on which the end was right at every look.
    for lower in (True, False):
        chances, ever_wrong = np.array([1.0]), 0.0
        for seen in range(1, rows + 1):
            chances = np.append(chances * (1 - share), 0) + np.append(0, chances * share)
            low, high = quantile_ranks(seen, share_ppm, 950_000)
            count = np.arange(seen + 1)
            misses = count < (low or 0) if lower else count >= (math.inf if high is None else high)
            ever_wrong += float(chances[misses].sum())
            chances = np.where(misses, 0, chances)
        assert 0 < ever_wrong <= wrong


def estimate(needs_us: list[int], *, sketched: bool = False, **changes: Any) -> ProvisionalBound | None:
    needs: Any = ExactNeeds(np.array(needs_us, np.int64), np.ones(len(needs_us), np.int64))
    if sketched:
        needs = Sketch()
        needs.add(np.array(needs_us))
    given_: dict[str, Any] = {
        "slo": Slo(target_ppm=990_000),
        "reported_us": 4 * MINUTE_US,
        "span": FOUR_MINUTES_OF_AN_HOUR,
        "recommended": None,
        **changes,
    }
    return provisional_bound_of(Curve(needs, None), **given_)


def test_few_rows_give_a_lower_end_and_say_when_there_will_be_an_upper_one() -> None:
    """300 of the 417 events that certify 99 % came in 4 minutes, so the rest takes 2 more."""
    found = estimate([n * SECOND_US // 10 for n in range(300)])
    assert found is not None
    assert (found.bound_ms, found.max_bound_ms, found.max_known_in_ms) == (
        29_600,
        None,
        2 * MINUTE_US // 1_000,
    )
    assert found.text == (
        "provisionally 29.6 s: at least 29 s at 95 % confidence, and the upper end is unknown for about 2 min more; "
        "what comes seldomer than every 26.22 s is not covered by 4 min of evidence, and narrowing waits "
        "for 1 h or a person"
    )


@pytest.mark.parametrize(
    ("recommended", "said"),
    [
        (None, "provisionally 29.7 s: "),
        (
            Recommended(29_900, None),
            "29.9 s is recommended: the rows seen need 29.7 s, ",
        ),
        (
            Recommended(120_000, "narrowing step"),
            "2 min is recommended (narrowing step): the rows seen need 29.7 s, ",
        ),
    ],
)
def test_what_is_recommended_comes_first_and_the_estimate_is_its_reason(
    recommended: Recommended | None, said: str
) -> None:
    found = estimate([n * SECOND_US // 100 for n in range(3_000)], recommended=recommended)
    assert found is not None
    assert found.max_bound_ms == 29_900
    assert found.text == said + (
        "at least 29.5 s and at most 29.9 s, each at 95 % confidence; what comes seldomer than every 26.22 s is not "
        "covered by 4 min of evidence, and narrowing waits for 1 h or a person"
    )


def test_a_join_gives_one_number_for_all_its_sides_and_no_lower_end() -> None:
    """Rows of one side that need up to 20 s, and of the other that need nothing: 200 of 1,025 each in 4 minutes."""
    needs = JointNeeds.counted(
        ("clicks", "views"),
        np.repeat([0, 1], 200),
        np.repeat(np.r_[np.arange(200) * SECOND_US // 10, np.zeros(200, np.int64)], 2).reshape(-1, 2),
        np.ones(400, np.int64),
    )
    slo = JoinSlo(streams=("clicks", "views"), target_ppm=990_000)
    found = provisional_joint_bound("attribution", needs, slo, 4 * MINUTE_US, FOUR_MINUTES_OF_AN_HOUR)
    assert found is not None
    assert (found.min_bound_ms, found.max_bound_ms) == (None, None)
    assert found.text == (
        "provisionally 19.8 s of each side of join attribution: a join has no lower end, and the upper one is "
        "unknown for about 17 min more; what comes seldomer than every 26.22 s is not covered by 4 min of evidence, "
        "and narrowing waits for 1 h or a person"
    )
    assert provisional_joint_bound("attribution", JointNeeds.nothing(slo.streams), slo, 0, None) is None


def test_a_handful_of_rows_gives_the_number_and_says_that_both_ends_are_unknown() -> None:
    found = estimate([SECOND_US], reported_us=0, span=None)
    assert found is not None
    assert found.text == (
        "provisionally 1 s: too few rows for either end, and the upper one is unknown; from one batch, and nothing "
        "acts on it before it is certified"
    )


def test_a_lower_end_of_0_is_not_said_since_no_bound_is_below_it() -> None:
    found = estimate([-SECOND_US] * 50)
    assert found is not None
    assert found.min_bound_ms == 0
    assert "too few rows for either end" in found.text


@pytest.mark.parametrize(
    "changes",
    [
        {"recommended": Recommended(1, None), "span": None},
        {
            "recommended": Recommended(1, None),
            "span": EvidenceSpan(covered_us=2, needed_us=2, reached_us=0),
        },
    ],
)
def test_what_may_be_acted_on_is_not_provisional(changes: dict[str, Any]) -> None:
    assert estimate([SECOND_US] * 1_000, **changes) is None
    assert estimate([]) is None, "without rows there is no number"


@given(st.lists(st.integers(-(10**9), 10**10), min_size=1, max_size=600), SHARES)
def test_a_sketch_widens_the_interval_and_never_narrows_it(needs_us: list[int], share_ppm: int) -> None:
    exact = estimate(needs_us, slo=Slo(target_ppm=share_ppm))
    found = estimate(needs_us, slo=Slo(target_ppm=share_ppm), sketched=True)
    assert exact is not None
    assert found is not None
    assert exact.bound_ms <= found.bound_ms
    assert (found.min_bound_ms or 0) <= (exact.min_bound_ms or 0)
    assert (found.max_bound_ms or 0) >= (exact.max_bound_ms or 0)
    assert (found.min_bound_ms or 0) <= found.bound_ms
    assert found.max_bound_ms is None or found.bound_ms <= found.max_bound_ms
