"""The conformal trackers: each beside its recursion written down row by row, and the coverage that they promise."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest

from tidemark.models.base.operators import tumbling
from tidemark.models.live.policy import BoundPolicy, Decision, Setup

from bench.policies.named import make_policy
from bench.policies.trackers import (
    CALIBRATION_BATCHES,
    ScaleFreeGradient,
    StronglyAdaptive,
    TrackerPolicy,
)
from support.seen import seen_rows

NAMES = ("sfogd", "saocp", "dtaci")
SECOND = 1_000_000

Floats = list[float]


def policy_of(name: str, target_ppm: int) -> BoundPolicy:
    return make_policy(name, Setup(operator=tumbling("10 s"), trigger_us=SECOND, target_ppm=target_ppm))


def batches(seed: int, count: int, rows: int = 20) -> list[Floats]:
    """Return needs in microseconds, exponential, three times as long in the second half."""
    dice = np.random.default_rng(seed)
    return [
        (dice.exponential(3 if number > count // 2 else 1, rows) * SECOND).round().tolist()
        for number in range(count)
    ]


def followed(name: str, target_ppm: int, shown: list[Floats]) -> list[int | None]:
    """Return the bound after each batch."""
    policy, found = policy_of(name, target_ppm), []
    for tick, needs in enumerate(shown):
        policy.observe(seen_rows(tick, [int(need) for need in needs]))
        found.append(policy.decide(tick, tick).bound_us)
    return found


def pinball(need: float, bound: float, level: float) -> float:
    return level * (need - bound) if need >= bound else (1 - level) * (bound - need)


def mean(values: Floats) -> float:
    return sum(values) / len(values)


def gradient(needs: Floats, bound: float, share: float) -> float:
    return round(share - mean([float(need > bound) for need in needs]), 12)


def naive_sfogd(shown: list[Floats], share: float) -> list[float | None]:
    bound, squares, found = 0.0, 0.0, list[float | None]()
    for tick, needs in enumerate(shown, 1):
        if tick >= CALIBRATION_BATCHES:
            scale = math.sqrt(3) * max(max(each) for each in shown[:CALIBRATION_BATCHES])
            step = gradient(needs, bound, share)
            squares += step**2
            bound = max(0.0, bound - scale / math.sqrt(3) * step / math.sqrt(squares or 1))
        found.append(bound if tick >= CALIBRATION_BATCHES else None)
    return found


@dataclass
class Expert:
    born: int
    lifetime: int
    bound: float
    squares: float = 0.0
    gained: float = 0.0
    bet: float = 0.0
    steps: int = 0

    @property
    def weight(self) -> float:
        return self.gained / self.steps * (1 + self.bet) if self.steps else 0.0

    @property
    def prior(self) -> float:
        return 1 / (self.born**2 * (1 + math.floor(math.log2(self.born))))


def mixed(experts: list[Expert]) -> float:
    shares = [each.prior * max(each.weight, 0) for each in experts]
    if not sum(shares):
        shares = [each.prior for each in experts]
    return (
        sum(s * each.bound for s, each in zip(shares, experts, strict=True)) / sum(shares) if shares else 0.0
    )


def naive_saocp(shown: list[Floats], share: float) -> list[float | None]:
    experts, found, step = list[Expert](), list[float | None](), 0
    for tick, needs in enumerate(shown, 1):
        if tick >= CALIBRATION_BATCHES:
            scale = math.sqrt(3) * max(max(each) for each in shown[:CALIBRATION_BATCHES])
            step += 1
            start = mixed(experts)
            power = 1
            while step % (2 * power) == 0:
                power *= 2
            experts = [each for each in experts if each.steps <= each.lifetime]
            experts.append(Expert(step, 8 * power, start))
            lost = mean([pinball(need, mixed(experts), 1 - share) for need in needs])
            for each in experts:
                gain = lost - mean([pinball(need, each.bound, 1 - share) for need in needs])
                gain = min(max(round(gain / (scale * (1 - share)), 9), -1.0 if each.weight > 0 else 0.0), 1.0)
                each.bet += gain * each.weight
                each.gained += gain
                each.steps += 1
                slope = gradient(needs, each.bound, share)
                each.squares += slope**2
                each.bound = max(
                    0.0, each.bound - scale / math.sqrt(3) * slope / math.sqrt(each.squares or 1)
                )
        found.append(mixed(experts) if tick >= CALIBRATION_BATCHES else None)
    return found


@pytest.mark.parametrize(("name", "naive"), [("sfogd", naive_sfogd), ("saocp", naive_saocp)])
@pytest.mark.parametrize("target_ppm", [950_000, 990_000])
def test_it_is_the_published_recursion(
    name: str, naive: Callable[[list[Floats], float], list[float | None]], target_ppm: int
) -> None:
    shown = batches(3, 200)
    expected = naive(shown, 1 - target_ppm / 1e6)
    for found, wanted in zip(followed(name, target_ppm, shown), expected, strict=True):
        assert (found is None) == (wanted is None)
        assert wanted is None or found == pytest.approx(wanted, abs=1_001), "up to a whole millisecond"


def test_dtaci_is_the_published_recursion() -> None:
    """Written down beside it: eight levels, their pinball losses on the ranks, and the weights from them."""
    share, shown = 0.1, batches(5, 40)
    ring: Floats = []
    levels, weights = np.full(8, share), np.full(8, 1 / 8)
    steps = 0.001 * 2.0 ** np.arange(8)
    losses_a_step = ((1 - share) ** 2 * share**3 + share**2 * (1 - share) ** 3) / 3
    rate = math.sqrt(3 / 100) * math.sqrt((math.log(800) + 2) / losses_a_step)
    for needs, found in zip(shown, followed("dtaci", 900_000, shown), strict=True):
        if len(ring) > 10:
            rank = 1 - np.searchsorted(np.sort(ring), needs, side="left") / len(ring)
            losses = np.array(
                [np.where(rank >= a, share * (rank - a), (share - 1) * (rank - a)).mean() for a in levels]
            )
            pulled = weights * np.exp(-rate * losses)
            weights = pulled / pulled.sum() * (1 - 1 / 200) + 1 / 200 / 8
            levels = np.clip(levels + steps * (share - np.array([(a > rank).mean() for a in levels])), 0, 1)
        ring += needs
        if len(ring) < 250:
            assert found is None
            continue
        level = float(weights @ levels)
        wanted = sorted(ring)[min(math.ceil((1 - level) * len(ring)), len(ring) - 1)]
        assert found == pytest.approx(wanted, abs=1_001)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_over_a_long_time_the_misses_are_the_target_whatever_the_delays_do(name: str) -> None:
    """Delays wander by a factor of hundreds; each misses the share it may, within a fifth."""
    dice = np.random.default_rng(9)
    scale = np.exp(np.cumsum(dice.normal(0, 0.05, 1_500)))
    shown = [(SECOND * factor * dice.exponential(size=50)).round().tolist() for factor in scale]
    missed, before = list[float](), None
    for needs, bound in zip(shown, followed(name, 950_000, shown), strict=True):
        if before is not None:
            missed.append(mean([float(need > before) for need in needs]))
        before = bound
    assert 0.04 < mean(missed) < 0.06


def test_the_experts_of_saocp_grow_with_the_logarithm_of_the_steps() -> None:
    tracker = StronglyAdaptive(0.05)
    policy = TrackerPolicy(lambda _: tracker, 950_000)
    for tick, needs in enumerate(batches(1, 2_000, rows=3)):
        policy.observe(seen_rows(tick, [int(need) for need in needs]))
    assert tracker._experts.shape[1] <= 9 * math.ceil(math.log2(2_000))


def test_each_partition_has_a_tracker_of_its_own() -> None:
    policy = TrackerPolicy(ScaleFreeGradient, 900_000, scope="partition")
    for tick in range(200):
        policy.observe(
            seen_rows(
                tick, [0, 0], own_us=[SECOND, 9 * SECOND], partition=[0, 1], count=[10, 10], partitions=2
            )
        )
    bounds = policy.decide(200, 200).bounds_us
    assert bounds is not None
    assert bounds[0] < 2 * SECOND < bounds[1]


def test_during_the_calibration_nothing_is_decided() -> None:
    policy = policy_of("saocp", 990_000)
    for tick in range(CALIBRATION_BATCHES - 1):
        policy.observe(seen_rows(tick, [SECOND]))
        assert policy.decide(tick, tick) == Decision()
    policy.observe(seen_rows(CALIBRATION_BATCHES, [SECOND]))
    assert policy.decide(CALIBRATION_BATCHES, CALIBRATION_BATCHES).bound_us is not None


@pytest.mark.parametrize("target_ppm", [0, 1_000_000])
def test_a_target_out_of_range_is_rejected(target_ppm: int) -> None:
    with pytest.raises(ValueError, match="the target must lie between"):
        TrackerPolicy(ScaleFreeGradient, target_ppm)
