"""Yardsticks: the best fixed bound in hindsight, and a lower bound of the latency of every policy.

Both use the whole trace. The *fixed bound in hindsight* is the smallest constant one that meets the target when
Spark follows it by itself: a quantile of the needs. The *clairvoyant* closes each window separately, at any time, and
may lose as many rows as the target allows wherever waiting costs most. No watermark can do better: it closes windows in
order, which is at most as good as closing each by itself. The bound is the value of the Lagrangian dual, ``max over
lambda >= 0 of sum over windows of min(latency + lambda * late) - lambda * budget``, which is at most the minimum
latency of any choice within the budget.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tidemark.models.backtest.arrivals import Arrivals, shifted, sums
from tidemark.models.backtest.flink import Flink, FlinkTicks, flink_ticks, longest_silence
from tidemark.models.backtest.run import (
    BacktestScore,
    late_budget,
    meets,
    run_flink,
    run_native,
    score,
    weights,
)
from tidemark.models.backtest.spark import native_bases
from tidemark.models.base.granules import SPARK_TICK_US
from tidemark.models.base.operators import Int64s
from tidemark.models.base.target import PPM
from tidemark.models.evidence.needs import needs_us
from tidemark.models.live.policy import Setup

_ROUNDING = 1e-12
"""Relative error well above that of the sums below; the clairvoyant is reduced by it."""

_MAX_TANGENTS = 500
"""Maximum number of tangents: each gives a bound, and some 20 reach the maximum."""


def fixed_hindsight(arrivals: Arrivals, setup: Setup) -> tuple[int, BacktestScore]:
    """Return the smallest constant bound, at least 0, that meets the target over the whole trace, and its score.

    Microseconds, in whole milliseconds. With ``timeslices`` it is the smallest one under which the required
    share of the scored windows each reach the target.
    """
    windows = int(np.searchsorted(arrivals.keys_us, arrivals.scored_until_us, side="right"))
    bound = least_bound_us(setup, *_native_needs(arrivals), windows)
    scored = score(arrivals, setup, run_native(arrivals, setup, bound))
    assert meets(setup, scored), f"bound {bound} us does not meet the target in the replay: {scored}"
    return bound, scored


def least_bound_us(setup: Setup, need_us: Int64s, key: Int64s, count: Int64s, windows: int) -> int:
    """Return the smallest bound, at least 0, that meets the target."""
    if setup.objective == "timeslices":
        return max(_bound_of_good_windows(setup, need_us, key, count, windows), 0)
    order = np.argsort(need_us, kind="stable")
    admitted = np.cumsum(count[order])
    pairs = int(count.sum())
    return max(int(need_us[order][np.searchsorted(admitted, pairs - late_budget(setup, pairs))]), 0)


def clairvoyant(arrivals: Arrivals, setup: Setup) -> float | None:
    """Return a lower bound of every policy's mean latency in microseconds; None when no window is scored.

    It holds for policies within the budget of late rows (with ``timeslices``: with at most the allowed number of
    scored windows short of the target), causal or not.
    """
    choices = _choices(arrivals, setup)
    if choices is None:
        return None
    if setup.objective == "occurrences":
        total = _max_dual(choices, late_budget(setup, arrivals.pairs))
    else:
        total = _total_with_failures(choices, setup)
    return total * (1 - _ROUNDING) / choices.weight


def _native_needs(arrivals: Arrivals) -> tuple[Int64s, Int64s, Int64s]:
    """Return ``(need_us, key index, count)`` of what arrived against the base of Spark's own late filter."""
    native = native_bases(arrivals)
    late_base = shifted(native.base_us, 2)[native.of_occupied]
    base = late_base[np.searchsorted(arrivals.occupied, arrivals.slot)]
    return needs_us(arrivals.key_us, base, SPARK_TICK_US), arrivals.key_index.astype(np.int64), arrivals.count


def _bound_of_good_windows(setup: Setup, need: Int64s, key: Int64s, count: Int64s, windows: int) -> int:
    scored = key < windows
    pairs = sums(key[scored], count[scored], windows)
    pairs = pairs[pairs > 0]
    if not len(pairs):
        return 0
    order = np.lexsort((need, key))
    admitted = np.cumsum(count[order])
    before = np.cumsum(pairs) - pairs
    required = pairs - (PPM - setup.target_ppm) * pairs // PPM
    bound_of_window = need[order][np.searchsorted(admitted, before + required)]
    must_meet = -(-setup.good_windows_ppm * len(pairs) // PPM)
    return int(np.sort(bound_of_window)[must_meet - 1])


@dataclass(frozen=True, slots=True)
class _Choices:
    """When each scored window may be closed, in order of window and time; one element per choice."""

    first: Int64s
    """Index of each window's first choice, shape (windows,)."""
    latency_us: Int64s
    """Latency of each choice times the window's weight, shape (choices,)."""
    late: Int64s
    """Pairs that are late then, shape (choices,)."""
    pairs: Int64s
    """Pairs of each window, shape (windows,)."""
    weight: int
    """Sum of the windows' weights."""


def _choices(arrivals: Arrivals, setup: Setup) -> _Choices | None:
    """Return the choices worth considering, None when no window is scored.

    The best time to close a window is when one of its rows has arrived, or the last moment that costs nothing.
    """
    windows = int(np.searchsorted(arrivals.keys_us, arrivals.scored_until_us, side="right"))
    if not windows:
        return None
    window, count = arrivals.key_index.astype(np.int64), arrivals.count
    wall = arrivals.first_us + (arrivals.slot + 1) * setup.trigger_us
    earliest = arrivals.first_us + setup.trigger_us
    scored = window < windows
    end = arrivals.keys_us[:windows]
    # Closing before the end costs nothing, but nothing can be closed before the first batch. A choice that admits
    # nothing by itself represents that moment.
    window = np.concatenate([window[scored], np.arange(windows)])
    wall = np.concatenate([wall[scored], np.maximum(end, earliest)])
    count = np.concatenate([count[scored], np.zeros(windows, np.int64)])
    order = np.lexsort((wall, window))
    window, wall, count = window[order], wall[order], count[order]
    admitted = np.cumsum(count)
    last_of_group = np.append((np.diff(window) != 0) | (np.diff(wall) != 0), True)
    window, wall, admitted = window[last_of_group], wall[last_of_group], admitted[last_of_group]
    pairs = arrivals.pairs_by_key[:windows]
    weight = weights(arrivals, setup)[:windows]
    return _Choices(
        first=np.searchsorted(window, np.arange(windows)),
        latency_us=np.maximum(wall - end[window], 0) * weight[window],
        late=np.cumsum(pairs)[window] - admitted,
        pairs=pairs,
        weight=int(weight.sum()),
    )


def _max_dual(choices: _Choices, budget: int) -> float:
    """Return the maximum of the dual, by its tangents.

    The dual is concave and piecewise linear in the price of a late row. The crossing of a rising and a falling tangent
    is an upper bound; the tangent there either passes through it, which makes it the maximum, or replaces one of the
    two.
    """
    rising = _tangent(choices, 0.0)
    if rising[1] <= budget:
        return float(rising[0])
    # At an infinite price no row is lost.
    falling = (_total(_min_latency_without_loss(choices)), 0)
    best = float(rising[0])
    for _ in range(_MAX_TANGENTS):
        price = (falling[0] - rising[0]) / (rising[1] - falling[1])
        tangent = _tangent(choices, price)
        value = tangent[0] + price * (tangent[1] - budget)
        best = max(best, value)
        if tangent in (rising, falling) or value >= falling[0] + price * (falling[1] - budget):
            break
        if tangent[1] > budget:
            rising = tangent
        else:
            falling = tangent
    return best


def _tangent(choices: _Choices, price_us: float) -> tuple[int, int]:
    """Return ``(latency, late)`` in total when a late row costs ``price_us``; ties go to fewer late rows."""
    cost = choices.latency_us + price_us * choices.late
    minimum = np.minimum.reduceat(cost, choices.first)
    sizes = np.diff(choices.first, append=len(cost))
    chosen = np.where(cost == np.repeat(minimum, sizes), np.arange(len(cost)), -1)
    last = np.maximum.reduceat(chosen, choices.first)
    return _total(choices.latency_us[last]), _total(choices.late[last])


def _min_latency_without_loss(choices: _Choices) -> Int64s:
    without = np.where(choices.late == 0, choices.latency_us, np.iinfo(np.int64).max)
    minimum: Int64s = np.minimum.reduceat(without, choices.first)
    return minimum


def _total_with_failures(choices: _Choices, setup: Setup) -> float:
    """Return the minimum total latency when the most expensive windows need not reach the target."""
    windows = len(choices.first)
    sizes = np.diff(choices.first, append=len(choices.late))
    allowed = (PPM - setup.target_ppm) * choices.pairs // PPM
    reaching = choices.late <= np.repeat(allowed, sizes)
    latency = np.where(reaching, choices.latency_us, np.iinfo(np.int64).max)
    minimum = np.minimum.reduceat(latency, choices.first)
    saved = np.sort(minimum - np.minimum.reduceat(choices.latency_us, choices.first))
    failing = windows - -(-setup.good_windows_ppm * windows // PPM)
    return float(_total(minimum) - _total(saved[windows - failing :]))


def _total(values: Int64s) -> int:
    """Return the exact sum, which may be beyond 64 bits."""
    return (int((values >> 24).sum()) << 24) + int((values & 0xFFFFFF).sum())


def flink_hindsight(arrivals: Arrivals, setup: Setup) -> tuple[Flink, BacktestScore]:
    """Return the settings of Flink with the lowest latency that meet the target over the whole trace, and their score.

    The tick is the trigger. Idle timeouts are tried from one tick on, each twice the one before it, and none.
    """
    flink = fit_flink(arrivals, setup, arrivals.slots)
    scored = score(arrivals, setup, run_flink(arrivals, setup, flink))
    assert meets(setup, scored), f"{flink} does not meet the target in the replay: {scored}"
    return flink, scored


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
    _, bound_us, idle_us = min(fitted, key=lambda fit: (fit[0], fit[1], -(fit[2] or np.inf)))
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
