"""Flink, tuned: the bound and the idle timeout that are best over a whole trace, or over its first quarter.

The first is a yardstick, known only afterwards. The second is what somebody has who tunes Flink on what was recorded
and leaves it: on the rest of the trace it may miss the target.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tidemark.models.backtest.arrivals import Arrivals
from tidemark.models.backtest.flink import FlinkTicks, flink_ticks, longest_silence
from tidemark.models.backtest.run import run_flink
from tidemark.models.backtest.score import BacktestScore, meets, score, weights
from tidemark.models.backtest.yardstick import least_bound_us
from tidemark.models.granules import SPARK_TICK_US
from tidemark.models.needs import needs_us
from tidemark.models.policies.flink import Flink
from tidemark.models.policies.setup import Setup


def flink_hindsight(arrivals: Arrivals, setup: Setup) -> tuple[Flink, BacktestScore]:
    """Return the settings of Flink with the lowest latency that meet the target over the whole trace, and their score.

    The tick is the trigger. Idle timeouts are tried from one tick on, each twice the one before it, and none.
    """
    flink = fit_flink(arrivals, setup, arrivals.slots)
    found = score(arrivals, setup, run_flink(arrivals, setup, flink))
    assert meets(setup, found), f"{flink} does not meet the target in the replay: {found}"
    return flink, found


def flink_quarter(arrivals: Arrivals, setup: Setup) -> Flink:
    """Return the settings of Flink that are best over the first quarter of the trace."""
    return fit_flink(arrivals, setup, max(arrivals.slots // 4, 1))


def fit_flink(arrivals: Arrivals, setup: Setup, slots: int) -> Flink:
    """Return the settings with the lowest latency of those that meet the target over the first ``slots`` slots."""
    fitted = []
    for idle_us in _idle_timeouts_us(arrivals, setup):
        ticks = flink_ticks(arrivals, setup, Flink(idle_us=idle_us))
        bound_us = _bound_us(arrivals, setup, ticks, slots)
        fitted.append((_latency_us(arrivals, setup, ticks, bound_us, slots), bound_us, idle_us))
    # Of equal ones the lowest bound, then the longest timeout, which loses the fewest rows elsewhere.
    _, bound_us, idle_us = min(fitted, key=lambda each: (each[0], each[1], -(each[2] or np.inf)))
    return Flink(bound_us, idle_us)


def _idle_timeouts_us(arrivals: Arrivals, setup: Setup) -> Iterator[int | None]:
    yield None
    idle_us = setup.trigger_us
    while idle_us < longest_silence(arrivals) * setup.trigger_us:
        yield idle_us
        idle_us *= 2


def _bound_us(arrivals: Arrivals, setup: Setup, ticks: FlinkTicks, slots: int) -> int:
    rows = int(np.searchsorted(arrivals.slot, slots))
    base_us = ticks.before_us()[np.searchsorted(arrivals.occupied, arrivals.slot[:rows])]
    need_us = needs_us(arrivals.key_us[:rows], base_us, SPARK_TICK_US)
    key = arrivals.key_index[:rows].astype(np.int64)
    return least_bound_us(setup, need_us, key, arrivals.count[:rows], _scored(arrivals, setup, slots))


def _latency_us(arrivals: Arrivals, setup: Setup, ticks: FlinkTicks, bound_us: int, slots: int) -> float:
    """Return the mean latency over the first slots; windows that are still open count with the last of them."""
    windows = _scored(arrivals, setup, slots)
    if not windows:
        return 0.0
    key_us = arrivals.keys_us[:windows]
    tick = np.minimum(np.searchsorted(ticks.base_us, key_us + bound_us), len(ticks.slot) - 1)
    wall_us = arrivals.first_us + (np.minimum(ticks.slot[tick], slots - 1) + 1) * setup.trigger_us
    return float(np.average(np.maximum(wall_us - key_us, 0), weights=weights(arrivals, setup)[:windows]))


def _scored(arrivals: Arrivals, setup: Setup, slots: int) -> int:
    """Return how many keys are scored over the first slots."""
    until_us = min(arrivals.scored_until_us, arrivals.first_us + slots * setup.trigger_us)
    return int(np.searchsorted(arrivals.keys_us, until_us, side="right"))
