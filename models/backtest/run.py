"""Run: what Spark does with recorded arrivals under a policy, batch by batch and window by window."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tidemark.models.backtest.arrivals import Arrivals, shifted, sums
from tidemark.models.backtest.flink import Flink, flink_batches
from tidemark.models.backtest.spark import (
    NO_BOUND_US,
    Batches,
    live_batches,
    native_batches,
    plan_bound_us,
    restart_batches,
)
from tidemark.models.base.operators import Int64s, TimeWindow
from tidemark.models.base.target import PPM
from tidemark.models.live.policy import NO_BASE_US, BoundPolicy, Setup


@dataclass(frozen=True, slots=True)
class BacktestRun:
    """What happened in a run. Arrays are int64, times microseconds; late and arrived are (row, key) pairs."""

    slot: Int64s
    """Slot of each batch, ascending, shape (batches,)."""
    wall_us: Int64s
    """Wall time at which each runs, shape (batches,)."""
    rows: Int64s
    bound_us: Int64s
    """Bound behind each one's watermark, ``NO_BOUND_US`` where there is none, shape (batches,)."""
    watermark_us: Int64s
    """Watermark by which each batch emits, shape (batches,)."""
    late_watermark_us: Int64s
    """Watermark by which each batch's rows are late, shape (batches,)."""
    base_lag_us: Int64s
    """The stream's base after a batch less the watermark in force after it, where both are known, shape (known,)."""
    bound_changes: int
    """How often a bound was changed (with restarts: their number); 0 when the policy moves the watermark."""
    late: int
    late_by_minute: Int64s
    rows_by_minute: Int64s
    late_by_key: Int64s
    rows_by_key: Int64s
    emit_wall_us: Int64s
    """When each key was closed, the end of the replay when it was not, shape (keys,)."""


def run(
    arrivals: Arrivals, setup: Setup, policy: BoundPolicy, on_slot: Callable[[int], object] = lambda _: None
) -> BacktestRun:
    """Return what Spark does with ``arrivals`` under ``policy``.

    Raises:
        ValueError: when the policy decides something that Spark cannot do.
    """
    if isinstance(policy, Flink):
        on_slot(arrivals.slots - 1)
        return run_flink(arrivals, setup, policy)
    if policy.native:
        bound_us = policy.decide(arrivals.first_us, arrivals.first_us).bound_us
        if bound_us is None:
            raise ValueError("a native policy gives its bound before the first batch, and a bound only")
        on_slot(arrivals.slots - 1)
        return run_native(arrivals, setup, bound_us)
    replay = live_batches if setup.mode == "live" else restart_batches
    return _judged_batches(arrivals, setup, replay(arrivals, setup, policy, on_slot))


def run_native(arrivals: Arrivals, setup: Setup, bound_us: int) -> BacktestRun:
    """Return what Spark does by itself under one constant bound, at least 0, in whole milliseconds."""
    return _judged_batches(arrivals, setup, native_batches(arrivals, plan_bound_us(bound_us)))


def run_flink(arrivals: Arrivals, setup: Setup, flink: Flink) -> BacktestRun:
    """Return what Flink does with the same arrivals, whatever the mode of ``setup``; a batch is a tick.

    Raises:
        ValueError: when Flink's tick is not a whole number of triggers.
    """
    return _judged_batches(arrivals, setup, flink_batches(arrivals, setup, flink))


def _judged_batches(arrivals: Arrivals, setup: Setup, batches: Batches) -> BacktestRun:
    wall = arrivals.first_us + (batches.slot + 1) * setup.trigger_us
    late_watermark = shifted(batches.watermark_us, 1)
    rows = np.zeros(len(batches.slot), np.int64)
    np.add.at(rows, batches.of_occupied, arrivals.occupied_rows)
    counts = np.diff(np.searchsorted(arrivals.slot, arrivals.occupied), append=len(arrivals.slot))
    late = arrivals.key_us <= np.repeat(late_watermark[batches.of_occupied], counts)
    weight = arrivals.count[late]
    emitting = np.searchsorted(batches.watermark_us, arrivals.keys_us)
    return BacktestRun(
        slot=batches.slot,
        wall_us=wall,
        rows=rows,
        bound_us=batches.bound_us,
        watermark_us=batches.watermark_us,
        late_watermark_us=late_watermark,
        base_lag_us=_lag(batches.base_us, batches.next_watermark_us),
        bound_changes=batches.bound_changes,
        late=int(weight.sum()),
        late_by_minute=sums(arrivals.minute_index[late], weight, len(arrivals.minutes)),
        rows_by_minute=arrivals.pairs_by_minute,
        late_by_key=sums(arrivals.key_index[late], weight, len(arrivals.keys_us)),
        rows_by_key=arrivals.pairs_by_key,
        emit_wall_us=wall[np.minimum(emitting, len(wall) - 1)],
    )


def _lag(base_us: Int64s, watermark_us: Int64s) -> Int64s:
    both_known = (base_us > NO_BASE_US) & (watermark_us > NO_BASE_US)
    return (base_us - watermark_us)[both_known]


@dataclass(frozen=True, slots=True)
class BacktestScore:
    """The completeness and the latency of a run. Latencies in microseconds, None when no window is scored."""

    pairs: int
    """(Row, key) pairs that arrived."""
    late: int
    decided: bool
    """Whether a bound or a watermark was ever in force; without one nothing is late, and no window comes out."""
    completeness: float
    """Share of the pairs admitted."""
    windows: int
    """Windows scored: distinct keys up to ``Arrivals.scored_until_us``."""
    windows_open: int
    """Scored windows that no watermark closed: their latencies count up to the last batch, so they are minimums."""
    windows_met: int
    """Scored windows that reached the target each."""
    windows_meeting_target: float | None
    """Their share."""
    minutes_meeting_target: float
    """Share of the minutes of event time that reached the target each."""
    worst_minute: float
    """Completeness of the worst of them."""
    latency_mean_us: float | None
    """Mean over scored windows of the wall time of emission minus the window's end, at least 0."""
    latency_p95_us: float | None
    """Smallest latency that 95 % of them do not exceed."""
    bound_mean_us: float | None
    """Mean over the batches that had a bound; None when none had."""
    bound_changes: int
    median_lag_us: float | None
    """Median over the batches of the stream's base less the watermark; None when it was never known."""


def score(arrivals: Arrivals, setup: Setup, run: BacktestRun) -> BacktestScore:
    """Return the score of ``run``, a run over ``arrivals``.

    A window has weight one. A row-level or session key has as much weight as pairs, so the latency is that of the
    pairs.
    """
    until = int(np.searchsorted(arrivals.keys_us, arrivals.scored_until_us, side="right"))
    rows, late = run.rows_by_key[:until], run.late_by_key[:until]
    met = int((late * PPM <= (PPM - setup.target_ppm) * rows).sum())
    latency = np.maximum(run.emit_wall_us - arrivals.keys_us, 0)[:until]
    weight = weights(arrivals, setup)[:until]
    admitted = run.rows_by_minute - run.late_by_minute
    minutes_met = run.late_by_minute * PPM <= (PPM - setup.target_ppm) * run.rows_by_minute
    bounds = run.bound_us[run.bound_us != NO_BOUND_US]
    return BacktestScore(
        pairs=arrivals.pairs,
        late=run.late,
        decided=bool((run.bound_us != NO_BOUND_US).any() or (run.watermark_us > NO_BASE_US).any()),
        completeness=(arrivals.pairs - run.late) / arrivals.pairs,
        windows=until,
        windows_open=int((arrivals.keys_us[:until] > run.watermark_us[-1]).sum()),
        windows_met=met,
        windows_meeting_target=met / until if until else None,
        minutes_meeting_target=float(minutes_met.mean()),
        worst_minute=float((admitted / run.rows_by_minute).min()),
        latency_mean_us=float(np.average(latency, weights=weight)) if until else None,
        latency_p95_us=_at_share(latency, weight) if until else None,
        bound_mean_us=float(bounds.mean()) if len(bounds) else None,
        bound_changes=run.bound_changes,
        median_lag_us=float(np.median(run.base_lag_us)) if len(run.base_lag_us) else None,
    )


def meets(setup: Setup, score: BacktestScore) -> bool:
    """Whether the target was met, in whole numbers; not where nothing was ever decided.

    With ``timeslices`` and no scored window it was.
    """
    if not score.decided:
        return False
    if setup.objective == "timeslices":
        return score.windows_met * PPM >= setup.good_windows_ppm * score.windows
    return score.late <= late_budget(setup, score.pairs)


def late_budget(setup: Setup, pairs: int) -> int:
    """Return how many of ``pairs`` may be late."""
    return (PPM - setup.target_ppm) * pairs // PPM


def weights(arrivals: Arrivals, setup: Setup) -> Int64s:
    """Return the weight of each key in a mean of latencies, shape (keys,)."""
    return np.ones_like(arrivals.keys_us) if isinstance(setup.operator, TimeWindow) else arrivals.pairs_by_key


def _at_share(latency_us: Int64s, weight: Int64s) -> float:
    order = np.argsort(latency_us, kind="stable")
    reached = np.cumsum(weight[order])
    return float(latency_us[order][np.searchsorted(reached * 100, 95 * reached[-1])])
