"""Adaptive conformal inference: its recursion by hand, a naive one beside it, and the coverage it promises."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from tidemark.models.live.policy import Decision

from bench.policies.conformal import AdaptiveConformal
from support.seen import UNKNOWN_US, seen_rows

SECOND = 1_000_000


def test_before_250_records_there_is_no_decision() -> None:
    policy = AdaptiveConformal(990_000)
    policy.observe(seen_rows(0, [UNKNOWN_US, SECOND], count=[900, 249]))
    assert policy.decide(0, 0) == Decision()
    policy.observe(seen_rows(1, [SECOND]))
    assert policy.decide(1, 1).bound_us == SECOND


def test_a_missed_tick_widens_to_one_and_a_half_times_the_maximum_and_quiet_narrows_again() -> None:
    """Target 90 %, gamma 0.05: all missed moves alpha by 0.05 * (0.1 - 1) = -0.045, none missed by +0.005.

    0.1 -> 0.055 -> 0.01 -> -0.035; then 8 quiet ticks: 0.005.
    """
    policy = AdaptiveConformal(900_000, 1_000)
    policy.observe(seen_rows(0, [SECOND], count=[1_000]))
    assert policy.decide(0, 1).bound_us == SECOND
    for tick in range(1, 4):
        policy.observe(seen_rows(tick, [100 * SECOND]))
        policy.decide(tick, 100)  # nothing new is in force until tick 100
    assert policy.decide(3, 100).bound_us == 150 * SECOND
    for tick in range(4, 12):
        policy.observe(seen_rows(tick, [0]))
    assert policy.decide(12, 100).bound_us == SECOND, "rank 995 of 1,000, of which three are greater"


def test_what_was_missed_is_judged_by_the_bound_that_was_in_force() -> None:
    """A bound of 5 s decided at 0 for time 20 misses nothing at 20, but at 19 the older one, 1 s, is in force."""
    for now, moves in [(19, True), (20, False)]:
        policy = AdaptiveConformal(900_000, 300)
        policy.observe(seen_rows(0, [SECOND], count=[300]))
        assert policy.decide(0, 1).bound_us == SECOND
        policy.observe(seen_rows(0, [5 * SECOND], count=[300]))
        assert policy.decide(0, 20).bound_us == 5 * SECOND
        policy.observe(seen_rows(now, [4 * SECOND]))
        assert (policy._bases[0]._alpha < 0.1) is moves


def test_a_later_decision_takes_the_place_of_one_on_its_way() -> None:
    """1 s from time 1; 5 s for time 30; then 3 s for time 10 already: at 15 it is 3 s that misses no need of 2 s."""
    policy = AdaptiveConformal(900_000, 300)
    for bound_s, due in [(1, 1), (5, 30), (3, 10)]:
        policy.observe(seen_rows(0, [bound_s * SECOND], count=[300]))
        assert policy.decide(0, due).bound_us == bound_s * SECOND
    policy.observe(seen_rows(15, [2 * SECOND]))
    assert policy._bases[0]._alpha > 0.1


def naive_bound(scores: list[int], size: int, alpha: float) -> int | None:
    last = sorted(scores[-size:])
    if len(last) < min(250, size):
        return None
    if alpha <= 0:
        return math.ceil(Fraction(3, 2) * last[-1] / 1_000) * 1_000
    rank = math.ceil(round(len(last) * (1 - alpha), 6))
    return last[min(max(rank, 1), len(last)) - 1]


def test_it_is_the_naive_recursion() -> None:
    """Batches of 32 rows into a ring of 128, a control's delay of two ticks, and a step of the delays half way."""
    rng = np.random.default_rng(5)
    policy, scores, alpha = AdaptiveConformal(950_000, 128), list[int](), 0.05
    decided: dict[int, int | None] = {}
    for tick in range(300):
        needs = (rng.exponential(5 if tick > 150 else 1, 32) * 1_000).astype(np.int64) * 1_000
        in_force = decided.get(tick - 2)
        if in_force is not None:
            alpha += 0.05 * (0.05 - float((needs > in_force).mean()))
        scores += needs.tolist()
        policy.observe(seen_rows(tick, needs.tolist()))
        decided[tick] = policy.decide(tick, tick + 2).bound_us
        assert decided[tick] == naive_bound(scores, 128, alpha), tick


def test_over_a_long_time_the_misses_are_the_target_whatever_the_delays_do() -> None:
    """Gibbs and Candes: within (1 - alpha + gamma) / (gamma * ticks) of the target, here 1 %."""
    rng = np.random.default_rng(9)
    policy, missed, bound_us = AdaptiveConformal(990_000, 512), list[float](), None
    scale = np.exp(np.cumsum(rng.normal(0, 0.1, 2_500)))
    for tick in range(2_500):
        needs = (1e6 * scale[tick] * rng.exponential(size=50)).astype(np.int64)
        if bound_us is not None:
            missed.append(float((needs > bound_us).mean()))
        policy.observe(seen_rows(tick, needs.tolist()))
        bound_us = policy.decide(tick, tick + 1).bound_us
    promised = (0.99 + 0.05) / (0.05 * len(missed))
    assert abs(np.mean(missed) - 0.01) <= promised


def test_each_partition_has_its_own_level() -> None:
    """Partition 1 misses, partition 0 does not."""
    policy = AdaptiveConformal(900_000, 300, scope="partition")
    for number, need in [(0, SECOND), (0, 9 * SECOND), (1, 9 * SECOND), (2, 9 * SECOND)]:
        first = number == 0 and need == SECOND
        policy.observe(
            seen_rows(
                number,
                [0, 0],
                own_us=[SECOND, need],
                partition=[0, 1],
                count=[300, 300] if first else [1, 1],
                partitions=2,
            )
        )
        policy.decide(number, 0 if first else 50)
    bounds = policy.decide(2, 50).bounds_us
    assert bounds is not None
    assert bounds.tolist() == [SECOND, 13_500_000]


@pytest.mark.parametrize(
    ("target_ppm", "gamma"), [(0, 0.05), (1_000_000, 0.05), (990_000, 0.0), (990_000, 1.5)]
)
def test_what_is_out_of_range_is_rejected(target_ppm: int, gamma: float) -> None:
    with pytest.raises(ValueError, match=r"the target must lie between|gamma must be above 0"):
        AdaptiveConformal(target_ppm, gamma=gamma)
