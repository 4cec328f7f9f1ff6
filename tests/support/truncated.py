"""Cohorts that are not complete yet, of known laws of delay: the set-up of literature S6."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

__all__ = ["LAWS", "Law", "cohorts"]

Float64s = NDArray[np.float64]


@dataclass(frozen=True)
class Law:
    """A distribution of delays, in seconds."""

    quantiles_s: Callable[[Float64s], Float64s]
    share_at: Callable[[Float64s], Float64s]

    def quantile_s(self, share: float) -> float:
        return float(self.quantiles_s(np.array([share]))[0])


def _lognormal(median_s: float, sigma: float) -> Law:
    return Law(
        lambda share: median_s * np.exp(sigma * ndtri(share)),
        lambda delay_s: ndtr(np.log(delay_s / median_s) / sigma),
    )


def _pareto(min_s: float, shape: float) -> Law:
    return Law(
        lambda share: min_s * (1 - share) ** (-1 / shape),
        lambda delay_s: 1 - (np.maximum(delay_s, min_s) / min_s) ** -shape,
    )


def _exponential(mean_s: float) -> Law:
    return Law(lambda share: -mean_s * np.log1p(-share), lambda delay_s: -np.expm1(-delay_s / mean_s))


def _mixed(body: Law, tail: Law, tail_share: float) -> Law:
    def share_at(delay_s: Float64s) -> Float64s:
        return (1 - tail_share) * body.share_at(delay_s) + tail_share * tail.share_at(delay_s)

    grid = np.geomspace(1e-3, 1e9, 200_000)
    known = share_at(grid)
    return Law(lambda share: np.interp(share, known, grid), share_at)


LAWS: dict[str, Law] = {
    "lognormal(10 s, sigma 1)": _lognormal(10, 1),
    "lognormal(10 s, sigma 1.8)": _lognormal(10, 1.8),
    "Pareto(2 s, shape 1.2)": _pareto(2, 1.2),
    "Pareto(10 s, shape 2)": _pareto(10, 2),
    "exponential(20 s)": _exponential(20),
    "2 % Pareto in lognormal": _mixed(_lognormal(10, 0.6), _pareto(100, 1.2), 0.02),
}
"""The first is S6's; the others are there so that nothing is tuned to it."""


def cohorts(
    rng: np.random.Generator, law: Law, horizon_s: float, rate: float
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return ``(delay_us, age_us)`` of the rows seen by now, shape (rows,): Poisson arrivals over the last seconds."""
    size = rng.poisson(rate * horizon_s)
    age = rng.uniform(0, horizon_s, size)
    delay = law.quantiles_s(rng.random(size))
    seen = delay <= age
    delay_us = np.floor(delay[seen] * 1e6).astype(np.int64)
    return delay_us, np.maximum(np.floor(age[seen] * 1e6).astype(np.int64), delay_us)
