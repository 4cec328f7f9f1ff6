"""The distribution of delays from cohorts that are not complete yet: right truncation, by the reverse-time hazard.

A row with delay x is seen only once its event time is at least x ago, so among recent rows long delays are missing and
their plain quantile is too low: 22 % at p99 when the oldest rows are 2.3 times p99 old (literature S6). The hazard in
reverse time, ``g(x) = P(X = x | X <= x)``, is free of that: with

* ``n_x`` = rows with delay x whose age is at least x, and
* ``N_x`` = rows with delay at most x whose age is at least x,

``g(x) = n_x / N_x`` and ``F(x) = prod over y > x of (1 - g(y))`` (Lawless, Canadian Journal of Statistics 22(1), 1994;
Kalbfleisch and Lawless 1989; written forward it is the chain ladder of actuaries). F is identified only relative to
``F(oldest age)``. What lies beyond is continued by a generalised Pareto tail, the limit of every tail over high
thresholds (Pickands 1975), fitted to the same hazards above the 90 % quantile.

Delays and ages are compared at the edges of fixed buckets only, where the counts are exact: bucket 0 holds delays up to
``edges[0]``, bucket k those in ``(edges[k - 1], edges[k]]``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tidemark.models.operators import Int64s

__all__ = ["DelayDistribution", "TruncatedDelays", "delay_distribution", "delay_edges"]

Float64s = NDArray[np.float64]

MIN_AT_RISK = 50
"""Least ``N_x`` for a hazard to be used. The oldest cohorts are few: a single old row would have hazard 1, and make F
0 below its delay. Doubling it shortens the horizon by the age of 50 rows more."""
TAIL_FROM = 0.9
"""Quantile (of what is seen) above which the tail is fitted: the usual tenth of the rows. Higher leaves less to fit."""
MIN_TAIL_ROWS = 50
"""Rows above that quantile for a tail to be fitted, as many as SPOT (KDD 2017) asks to start with."""
_SHAPES = np.linspace(0, 1, 21)
"""Shapes of the tail: 0 is exponential, and no delay has a hard end; above 1 the mean would be infinite."""
_SCALES = np.exp(np.linspace(-3.5, 3.5, 71))
"""Scales of the tail, times the threshold: from a thirtieth to thirty times, in steps of 10 %."""


@dataclass(frozen=True, slots=True)
class DelayDistribution:
    """An estimated distribution of delays."""

    edges_us: Int64s
    """Delays at which it is known, ascending, in microseconds, shape (edges,); the last one is the horizon."""
    share: Float64s
    """F at each edge, shape (edges,)."""
    variance: Float64s
    """Variance of F at each edge as if F at the horizon were known, shape (edges,)."""

    @property
    def share_within_horizon(self) -> float:
        """F at the horizon: 1 when nothing is said of what lies beyond."""
        return float(self.share[-1])

    def share_at(self, delay_us: int) -> float | None:
        """Return F(delay), linear inside a bucket; None beyond the horizon."""
        if delay_us > self.edges_us[-1]:
            return None
        return float(np.interp(delay_us, self.edges_us, self.share, left=0.0))

    def quantile_us(self, share: float) -> float | None:
        """Return the least delay with F at least ``share``, linear inside a bucket; None when beyond the horizon."""
        index = int(np.searchsorted(self.share, share))
        if index == len(self.share):
            return None
        if index == 0:
            return float(self.edges_us[0])
        return float(
            np.interp(share, self.share[index - 1 : index + 1], self.edges_us[index - 1 : index + 1])
        )

    def nowcast(self, rows: float, age_us: int) -> float | None:
        """Return how many rows a cohort of an age will have had, of which ``rows`` were seen.

        A cohort older than the horizon takes the horizon's share. None while no row can have been seen.
        """
        share = self.share_at(min(age_us, int(self.edges_us[-1])))
        return rows / share if share else None


class TruncatedDelays:
    """Counts of the cohorts of the last ``cohorts * granule_us`` of event time, by delay bucket: constant state.

    Args:
        edges_us: upper edges of the delay buckets, ascending, see ``delay_edges``.
        granule_us: event time in one cohort, in microseconds; a cohort's age is that of its youngest row.
        cohorts: how many cohorts are kept.

    Raises:
        ValueError: when an argument is not above 0 or the edges do not ascend.
    """

    __slots__ = ("_cells", "_edges_us", "_granule_us", "_newest")

    def __init__(self, edges_us: Int64s, granule_us: int, cohorts: int) -> None:
        _check_edges(edges_us)
        if granule_us <= 0 or cohorts <= 0:
            raise ValueError(f"granule {granule_us} us and {cohorts} cohorts must be above 0")
        self._edges_us = edges_us
        self._granule_us = granule_us
        self._cells = np.zeros((cohorts, len(edges_us)), np.int64)
        self._newest: int | None = None

    def add(self, event_time_us: Int64s, delay_us: Int64s, count: Int64s) -> None:
        """Count rows; those of cohorts that are no longer kept, or with a delay beyond the last edge, are left out.

        Args:
            event_time_us: event times, shape (n,), in any order.
            delay_us: arrival time minus event time, shape (n,); negative counts as the least bucket.
            count: rows behind each, shape (n,).
        """
        if not len(event_time_us):
            return
        cohort = event_time_us // self._granule_us
        self._forget_before(int(cohort.max()))
        bucket = np.searchsorted(self._edges_us, delay_us)
        assert self._newest is not None
        kept = (cohort > self._newest - len(self._cells)) & (bucket < len(self._edges_us))
        np.add.at(self._cells, (cohort[kept] % len(self._cells), bucket[kept]), count[kept])

    def estimate(self, now_us: int, *, continued: bool = True) -> DelayDistribution | None:
        """Return the distribution as of ``now_us``; None when there is not enough evidence (``delay_distribution``)."""
        if self._newest is None:
            return None
        row, bucket = np.nonzero(self._cells)
        cohort = self._newest - (self._newest - row) % len(self._cells)
        age = now_us - (cohort + 1) * self._granule_us
        age_class = np.searchsorted(self._edges_us, age, side="right")
        return _estimate(
            self._edges_us, _Cells(bucket, age_class, self._cells[row, bucket].astype(float)), continued
        )

    def _forget_before(self, newest: int) -> None:
        if self._newest is not None and newest > self._newest:
            steps = min(newest - self._newest, len(self._cells))
            self._cells[(newest - np.arange(steps)) % len(self._cells)] = 0
        self._newest = newest if self._newest is None else max(newest, self._newest)


def delay_edges(min_us: int, max_us: int, relative_accuracy_ppm: int = 5_000) -> Int64s:
    """Return edges from ``min_us`` to ``max_us``, in microseconds, whose buckets are that narrow.

    Raises:
        ValueError: when the least is not above 0, the greatest is not above it, or the accuracy is out of range.
    """
    if not 0 < min_us < max_us or not 0 < relative_accuracy_ppm <= 500_000:
        raise ValueError(
            f"edges from {min_us} to {max_us} us at {relative_accuracy_ppm} ppm: "
            "it takes 0 < least < greatest and an accuracy in (0, 500000]"
        )
    accuracy = relative_accuracy_ppm / 1e6
    steps = int(np.ceil(np.log(max_us / min_us) / np.log((1 + accuracy) / (1 - accuracy))))
    return np.unique(np.rint(np.geomspace(min_us, max_us, steps + 1)).astype(np.int64))


def delay_distribution(
    delay_us: Int64s,
    age_us: Int64s,
    edges_us: Int64s,
    *,
    weight: Float64s | None = None,
    continued: bool = True,
) -> DelayDistribution | None:
    """Return the distribution of delays of which only those up to each row's age could be seen.

    Args:
        delay_us: delays of the rows seen, shape (rows,).
        age_us: now minus the row's event time, at least the delay, shape (rows,).
        edges_us: upper edges of the delay buckets, ascending, shape (edges,).
        weight: weight of each row, shape (rows,); 1 when left out.
        continued: continue the tail beyond the horizon; otherwise F is relative to F(horizon).

    Returns:
        None when no edge has ``MIN_AT_RISK`` rows: there is not enough evidence.

    Raises:
        ValueError: when the edges do not ascend, or a row was seen before it could arrive.
    """
    _check_edges(edges_us)
    if (delay_us > age_us).any():
        raise ValueError("a delay is greater than the row's age: it cannot have been seen")
    cells = _Cells(
        np.searchsorted(edges_us, delay_us),
        np.searchsorted(edges_us, age_us, side="right"),
        np.ones(len(delay_us)) if weight is None else weight,
    )
    return _estimate(edges_us, cells, continued)


@dataclass(frozen=True, slots=True)
class _Cells:
    """Rows by delay bucket and by the number of edges at or below their age: all that the estimator compares."""

    bucket: NDArray[np.intp]
    age_class: NDArray[np.intp]
    weight: Float64s

    def above(self, bucket: int) -> _Cells:
        """Return the cells with a delay above a bucket."""
        kept = self.bucket > bucket
        return _Cells(self.bucket[kept], self.age_class[kept], self.weight[kept])

    def at_risk(self, edges: int) -> tuple[Float64s, Float64s]:
        """Return ``(n, N)`` at each of the first ``edges`` edges, shape (edges,) each.

        A row counts in N from its own bucket's edge to the last edge not above its age, so in n only if that is
        at or after its own.
        """
        whole = self.bucket < self.age_class
        bucket, last, weight = self.bucket[whole], self.age_class[whole], self.weight[whole]
        size = int(last.max(initial=edges)) + 1
        entered = np.bincount(bucket, weight, size).astype(np.float64)
        left = np.bincount(last, weight, size)
        # Weights may be fractions, whose sums leave a rest where nobody is left.
        at_risk = np.maximum(np.cumsum(entered - left), entered)
        return entered[:edges], at_risk[:edges]


def _estimate(edges_us: Int64s, cells: _Cells, continued: bool) -> DelayDistribution | None:
    seen, at_risk = cells.at_risk(len(edges_us))
    enough = np.flatnonzero(at_risk >= MIN_AT_RISK)
    if not len(enough):
        return None
    horizon = int(enough[-1]) + 1
    share, relative_variance = _product(seen[:horizon], at_risk[:horizon])
    within = _share_within_horizon(edges_us[:horizon], share, cells) if continued else 1.0
    return DelayDistribution(
        edges_us[:horizon], share * within, relative_variance * np.square(share * within)
    )


def _product(seen: Float64s, at_risk: Float64s) -> tuple[Float64s, Float64s]:
    """Return F at each edge, relative to the last, and Var(F) / F squared there (Lawless 1994)."""
    hazard = np.divide(seen, at_risk, out=np.zeros_like(seen), where=at_risk > 0)
    hazard[0] = 0  # by definition everything at or below the least delay is at it; nothing reads it
    share = np.append(np.cumprod((1 - hazard)[:0:-1])[::-1], 1.0)
    risk = np.divide(
        hazard, at_risk * (1 - hazard), out=np.zeros_like(seen), where=(at_risk > 0) & (hazard < 1)
    )
    return share, np.append(np.cumsum(risk[:0:-1])[::-1], 0.0)


def _share_within_horizon(edges_us: Int64s, share: Float64s, cells: _Cells) -> float:
    """Return F(horizon) by the tail above the threshold that makes the hazards there most likely.

    Rows in a bucket above the threshold, of those at risk there, are binomial with the tail's own reverse hazard; so
    the likelihood is one of truncated rows without knowing how many were cut off.
    """
    threshold = int(np.searchsorted(share, TAIL_FROM))
    seen, at_risk = cells.above(threshold).at_risk(len(edges_us))
    seen, at_risk = seen[threshold + 1 :], at_risk[threshold + 1 :]
    if seen.sum() < MIN_TAIL_ROWS or len(seen) < 2:
        return 1.0
    excess = (edges_us[threshold + 1 :] - edges_us[threshold]) / max(int(edges_us[threshold]), 1)
    tail = _generalised_pareto(excess)
    hazard = np.clip(1 - tail[..., :-1] / tail[..., 1:], 1e-12, 1 - 1e-12)
    log_likelihood = np.log(hazard) @ seen[1:] + np.log1p(-hazard) @ (at_risk - seen)[1:]
    best = np.unravel_index(int(log_likelihood.argmax()), log_likelihood.shape)
    within = float(tail[best][-1])
    below = float(share[threshold])
    # F(h) = F(u) + (1 - F(u)) G(h - u), and F(u) = below * F(h).
    return within / (1 - below + below * within)


def _generalised_pareto(excess: Float64s) -> Float64s:
    """Return G at each excess (in thresholds) for every shape and scale, shape (shapes, scales, edges)."""
    scaled = excess / _SCALES[:, None]
    shapes = _SHAPES[1:, None, None]
    heavy = -np.expm1(-np.log1p(shapes * scaled) / shapes)
    tail: Float64s = np.maximum(np.concatenate([-np.expm1(-scaled)[None], heavy]), 1e-300)
    return tail


def _check_edges(edges_us: Int64s) -> None:
    if not len(edges_us) or (np.diff(edges_us) <= 0).any():
        raise ValueError(f"the edges must ascend, and there must be one: {len(edges_us)} given")
