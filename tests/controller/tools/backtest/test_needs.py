"""Needs over time: what a constant bound would have had to be, against the replay that judges bounds one by one."""

from __future__ import annotations

import numpy as np
import pytest

from tidemark.controller.tools.backtest.record import lag_us, needs_over_time, pair_needs
from tidemark.models.backtest.arrivals import Arrivals
from tidemark.models.backtest.arrivals_builder import ArrivalsBuilder
from tidemark.models.backtest.run import run_native
from tidemark.models.base.operators import Operator, row_level, tumbling
from tidemark.models.evidence.curve import Engine
from tidemark.models.live.policy import Setup

from support.streams import SECOND


def arrived(setup: Setup, seed: int) -> Arrivals:
    rng = np.random.default_rng(seed)
    arrival = np.cumsum(rng.exponential(0.3 * SECOND, 500) * rng.choice([1, 1, 1, 20], 500)).astype(np.int64)
    event = arrival - rng.exponential(2 * SECOND, 500).astype(np.int64)
    builder = ArrivalsBuilder(setup)
    builder.add(event, arrival, rng.integers(0, 3, 500), 3)
    return builder.build()


@pytest.mark.parametrize("engine", ["spark", "per-row"])
@pytest.mark.parametrize("operator", [tumbling("5s"), row_level()], ids=str)
def test_a_constant_bound_loses_the_pairs_that_need_more(operator: Operator, engine: Engine) -> None:
    setup = Setup(operator=operator, trigger_us=SECOND, target_ppm=990_000, engine=engine)
    for seed in range(5):
        arrivals = arrived(setup, seed)
        pairs = pair_needs(arrivals, setup)
        for bound_us in (0, SECOND, 3 * SECOND, 7 * SECOND):
            assert run_native(arrivals, setup, bound_us).late == pairs.count[pairs.need_us > bound_us].sum()


def test_each_span_has_the_need_of_its_targets_share_and_of_its_latest_row() -> None:
    setup = Setup(operator=row_level(), trigger_us=SECOND, target_ppm=900_000)
    arrivals = arrived(setup, 1)
    pairs = pair_needs(arrivals, setup)
    found = needs_over_time(arrivals, setup, pairs, 10)
    width = -(-arrivals.slots // 10)

    assert len(found.wall_us) <= 10
    for wall, at_target, highest in zip(found.wall_us, found.at_target_us, found.max_us, strict=True):
        last = (wall - arrivals.first_us) // SECOND
        first = (last - 1) // width * width
        inside = (first <= pairs.slot) & (pairs.slot < last)
        one_by_one = np.sort(np.repeat(pairs.need_us[inside], pairs.count[inside]))
        assert highest == one_by_one[-1]
        assert at_target == one_by_one[-(-len(one_by_one) * 9 // 10) - 1]


def test_the_lag_of_a_constant_bound_is_the_bound() -> None:
    setup = Setup(operator=tumbling("5s"), trigger_us=SECOND, target_ppm=990_000)
    arrivals = arrived(setup, 2)
    lag = lag_us(arrivals, run_native(arrivals, setup, 3 * SECOND))

    assert np.isnan(lag[0])
    assert set(lag[~np.isnan(lag)].tolist()) == {3 * SECOND}
