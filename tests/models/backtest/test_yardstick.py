"""The yardsticks against brute force on tiny traces: every bound, every price, every way to close each window."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from tidemark.models.backtest.run import meets, run, run_native, score
from tidemark.models.backtest.yardstick import clairvoyant, fixed_hindsight
from tidemark.models.base.operators import Operator, RowLevel, SessionWindow, TimeWindow
from tidemark.models.live.policy import Setup

from support.backtests import (
    Recorder,
    Row,
    Simulated,
    arrivals_of,
    keys_of,
    literal_native,
    random_rows,
    scored_keys,
)
from support.soak import with_soak

TICK = 1_000

Choices = list[tuple[int, int]]
"""Latency, times the window's weight, and late pairs of each moment at which a window may be closed."""


def tiny(count: int) -> Iterator[tuple[int, list[Row], Setup, int]]:
    """Few rows in few slots of five ticks; windows of one or two slots, sliding ones, and keys that are none."""
    for seed in range(count):
        dice = np.random.default_rng([11, seed])
        slot = 5 * TICK
        operators: tuple[Operator, ...] = (
            TimeWindow(slot, slot),
            TimeWindow(2 * slot, 2 * slot, slot // 5),
            TimeWindow(2 * slot, slot),
            RowLevel(),
            SessionWindow(slot // 5),
        )
        partitions = int(dice.integers(1, 3))
        span = int(dice.integers(1, 9)) * slot
        rows = random_rows(dice, int(dice.integers(1, 13)), span, 2 * slot, partitions)
        setup = Setup(
            operator=operators[seed % len(operators)],
            trigger_us=slot,
            target_ppm=int(dice.choice([500_000, 700_000, 800_000, 900_000, 999_000])),
            good_windows_ppm=int(dice.choice([400_000, 600_000, 750_000, 990_000])),
            objective=("occurrences", "timeslices")[seed // len(operators) % 2],
        )
        yield seed, rows, setup, partitions


def pairs_by_key(rows: list[Row], setup: Setup) -> dict[int, list[Row]]:
    found: dict[int, list[Row]] = {}
    for row in rows:
        for key in keys_of(row[0], setup.operator):
            found.setdefault(key, []).append(row)
    return found


def reached(rows: list[Row], setup: Setup, outcome: Simulated) -> bool:
    """Whether the target is met, by fractions."""
    pairs = pairs_by_key(rows, setup)
    target, good_windows = Fraction(setup.target_ppm, 10**6), Fraction(setup.good_windows_ppm, 10**6)
    if setup.objective == "occurrences":
        total = sum(map(len, pairs.values()))
        return Fraction(total - outcome.late.total(), total) >= target
    scored = scored_keys(rows, setup)
    late = dict.fromkeys(pairs, 0)
    for (_, key), count in outcome.late.items():
        late[key] += count
    met = [key for key in scored if Fraction(len(pairs[key]) - late[key], len(pairs[key])) >= target]
    return len(met) >= good_windows * len(scored)


def min_bound(rows: list[Row], setup: Setup, partitions: int) -> int:
    bound = 0
    while not reached(rows, setup, literal_native(rows, setup, bound, partitions)):
        bound += TICK
    return bound


def choices_of(rows: list[Row], setup: Setup) -> list[Choices]:
    """Return for each scored window what closing it would cost: in any slot."""
    first = rows[0][1]
    pairs = pairs_by_key(rows, setup)

    def wall_of(arrival: int) -> int:
        slot = (arrival - first) // setup.trigger_us
        return first + (slot + 1) * setup.trigger_us

    walls = list(range(wall_of(first), wall_of(rows[-1][1]) + 1, setup.trigger_us))
    found = []
    for key in scored_keys(rows, setup):
        weight = 1 if isinstance(setup.operator, TimeWindow) else len(pairs[key])
        found.append(
            [
                (
                    max(wall - key, 0) * weight,
                    sum(wall_of(arrival) > wall for _, arrival, _ in pairs[key]),
                )
                for wall in walls
            ]
        )
    return found


def weight_of(rows: list[Row], setup: Setup) -> int:
    pairs, scored = pairs_by_key(rows, setup), scored_keys(rows, setup)
    return len(scored) if isinstance(setup.operator, TimeWindow) else sum(len(pairs[key]) for key in scored)


def budget_of(rows: list[Row], setup: Setup) -> int:
    total = sum(map(len, pairs_by_key(rows, setup).values()))
    return int((1 - Fraction(setup.target_ppm, 10**6)) * total)


def dual_at_every_price(windows: list[Choices], budget: int) -> Fraction:
    """Return the highest of the dual's values at all prices at which a window's best choice can change."""
    prices = {Fraction(0)}
    for choices in windows:
        for latency, late in choices:
            prices |= {
                Fraction(other - latency, late - less)
                for other, less in choices
                if less < late and other > latency
            }
    return max(
        sum(min(latency + price * late for latency, late in choices) for choices in windows) - price * budget
        for price in prices
    )


def best_within(windows: list[Choices], budget: int) -> int:
    """Return the lowest total latency of any way to close each window, with late rows within the budget."""
    lowest: dict[int, int] = {0: 0}
    for choices in windows:
        after: dict[int, int] = {}
        for spent, total in lowest.items():
            for latency, late in choices:
                if spent + late <= budget:
                    after[spent + late] = min(total + latency, after.get(spent + late, total + latency))
        lowest = after
    return min(lowest.values())


def best_good_windows(windows: list[Choices], rows: list[Row], setup: Setup) -> int:
    """Return the lowest total latency when enough windows reach the target: tried for every number that fails."""
    pairs = pairs_by_key(rows, setup)
    target, good_windows = Fraction(setup.target_ppm, 10**6), Fraction(setup.good_windows_ppm, 10**6)
    lowest: dict[int, int] = {0: 0}
    for key, choices in zip(scored_keys(rows, setup), windows, strict=True):
        after: dict[int, int] = {}
        size = len(pairs[key])
        for met, total in lowest.items():
            for latency, late in choices:
                now = met + (Fraction(size - late, size) >= target)
                after[now] = min(total + latency, after.get(now, total + latency))
        lowest = after
    return min(total for met, total in lowest.items() if met >= good_windows * len(windows))


@pytest.mark.slow
@pytest.mark.parametrize("traces", with_soak([200, 1_000], {1_000}))
def test_hindsight_and_clairvoyant_equal_brute_force_on_tiny_random_traces(traces: int) -> None:
    spent, above_0 = 0, 0
    for seed, rows, setup, partitions in tiny(traces):
        arrivals = arrivals_of(rows, setup, partitions)

        bound, fixed = fixed_hindsight(arrivals, setup)
        lower = clairvoyant(arrivals, setup)

        assert bound == min_bound(rows, setup, partitions), seed
        windows = choices_of(rows, setup)
        if lower is None:
            assert not windows
            continue
        weight = weight_of(rows, setup)
        if setup.objective == "occurrences":
            budget = budget_of(rows, setup)
            assert lower * weight == pytest.approx(float(dual_at_every_price(windows, budget))), seed
            best = best_within(windows, budget)
            spent += lower * weight < best * 0.999
        else:
            best = best_good_windows(windows, rows, setup)
            assert lower * weight == pytest.approx(best), seed
        assert lower * weight <= best
        assert fixed.latency_mean_us is not None
        assert lower <= fixed.latency_mean_us
        above_0 += lower > 0
    # The traces are worth trying: bounds that are more than 0, and prices at which only the dual is exact.
    assert above_0 > traces // 3
    assert spent > traces // 200


@pytest.mark.slow
@pytest.mark.parametrize("traces", with_soak([120, 600], {600}))
def test_no_policy_is_ever_below_the_clairvoyant(traces: int) -> None:
    judged = 0
    for seed, rows, tiny_setup, partitions in tiny(traces):
        arrivals = arrivals_of(rows, tiny_setup, partitions)
        for mode in ("live", "restart"):
            setup = replace(tiny_setup, mode=mode, restart_cost_us=tiny_setup.trigger_us)
            lower = clairvoyant(arrivals, setup)
            if lower is None:
                continue
            kinds = ("bound",) if mode == "restart" else ("bound", "watermark")
            for again in range(4):
                policy = Recorder(seed * 10 + again, kinds, 4 * setup.trigger_us)
                found = score(arrivals, setup, run(arrivals, setup, policy))
                if meets(setup, found):
                    assert found.latency_mean_us is not None
                    assert lower <= found.latency_mean_us, (seed, mode, again)
                    judged += 1
    assert judged > traces * 5 // 6


def test_the_bound_below_the_hindsight_misses_the_target() -> None:
    above_0 = 0
    for seed, rows, setup, partitions in tiny(300):
        arrivals = arrivals_of(rows, setup, partitions)
        bound, found = fixed_hindsight(arrivals, setup)

        assert meets(setup, found), seed
        assert found == score(arrivals, setup, run_native(arrivals, setup, bound))
        if bound:
            less = score(arrivals, setup, run_native(arrivals, setup, bound - TICK))
            assert not meets(setup, less), seed
            above_0 += 1
    assert above_0 > 10


def test_a_budget_is_spent_where_waiting_is_dearest() -> None:
    second = 1_000_000
    setup = Setup(operator=TimeWindow(second, second), trigger_us=1_000, target_ppm=750_000)
    # Two windows with a straggler each, and one row of four may be late: the later straggler is dropped. The last
    # row ends the trace, so that both windows are scored.
    rows = [
        (100_000, 200_000, 0),
        (1_100_000, 1_200_000, 0),
        (200_000, 3_000_000, 0),
        (1_200_000, 9_000_000, 0),
        *[(20 * second, 20 * second, 0)] * 4,
    ]
    arrivals = arrivals_of(rows, replace(setup, target_ppm=875_000), 1)

    # The first window waits 2 s for its straggler, the second closes at its end.
    assert clairvoyant(arrivals, replace(setup, target_ppm=875_000)) == pytest.approx(second, abs=1_000)
    # With no row to spare both wait.
    assert clairvoyant(arrivals, replace(setup, target_ppm=999_000)) == pytest.approx(
        (2 + 7) / 2 * second, abs=1_000
    )
    # With two to spare none does.
    assert clairvoyant(arrivals, setup) == 0


def test_there_is_no_latency_to_bound_when_no_window_ends_inside_the_trace() -> None:
    setup = Setup(operator=TimeWindow(10**6, 10**6), trigger_us=1_000, target_ppm=990_000)
    arrivals = arrivals_of([(5, 10, 0)], setup, 1)

    assert clairvoyant(arrivals, setup) is None
    assert fixed_hindsight(arrivals, setup)[1].latency_mean_us is None
