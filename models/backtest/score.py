"""The score of a run."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tidemark.models.backtest.arrivals import Arrivals
from tidemark.models.backtest.run import BacktestRun
from tidemark.models.backtest.spark import NO_BOUND_US
from tidemark.models.operators import Int64s, TimeWindow
from tidemark.models.policies.setup import Setup
from tidemark.models.target import PPM


@dataclass(frozen=True, slots=True)
class BacktestScore:
    """The completeness and the latency of a run. Latencies in microseconds, None when no window is scored."""

    pairs: int
    """(Row, key) pairs that arrived."""
    late: int
    """Late pairs."""
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
    """How often the bound changed."""
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
    """Whether the target was met, in whole numbers. With ``timeslices`` and no scored window it was."""
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
