"""Forecasts of a window's final rows, of past windows and of the one asked about alike; the best of late is taken.

Some go by what has come (as the chain ladder of insurers does with claims), some by volume, some by both.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tidemark.models.completeness.ages import Float64s
from tidemark.models.completeness.arrivals import WindowArrivals
from tidemark.models.completeness.history import LAGS, AgeHistory

_HALF_LIFE = 40
"""Windows after which a share or an error counts half."""
_PRIOR = 5
"""Windows that the mean of all past ones counts as, before there are recent ones."""
_NEIGHBOURS = 8
"""An eighth of the past windows are like one."""
_FEWEST_NEIGHBOURS = 9
_USABLE = 0.5
"""Share from which on a window tells the volume."""
_RECENT = 4
"""Windows whose development is recent."""
_HALF_ROW = 0.5
_SEASONS_US = (86_400_000_000, 7 * 86_400_000_000)
"""A day and a week."""
_SEASONS = 5
"""So many of them back count."""


@dataclass(frozen=True, slots=True, eq=False)
class Forecast:
    """What one way of forecasting says of each window of a history, shape (windows,); the last is asked about."""

    rows: Float64s
    alike: NDArray[np.intp]
    """Past windows most like each, shape (windows, neighbours)."""


def best_forecast(arrivals: WindowArrivals, history: AgeHistory) -> Forecast:
    """Return the forecast with the least recent error."""
    if (history.so_far[:-1] == history.final).all():
        return Forecast(history.so_far, np.zeros((len(history.places), 1), np.intp))
    shares = _recent_shares(history)
    seasonal = _seasonal(arrivals, history)
    volume = _volume(history, shares)
    forecasts = [
        forecast
        for each in (volume, *seasonal)
        for forecast in _forecasts(history, shares, np.maximum(each, history.so_far))
    ]
    weight = 0.5 ** (np.arange(len(history.final))[::-1] / _HALF_LIFE)
    return min(forecasts, key=lambda one: float((weight * np.abs(one.rows[:-1] - history.final)).sum()))


def _forecasts(history: AgeHistory, shares: Float64s, volume: Float64s) -> list[Forecast]:
    so_far, final = history.so_far, history.final
    most = np.maximum(2 * final.max(), so_far)

    def rows(found: Float64s) -> Float64s:
        return np.clip(found, so_far, most)

    by_rows = _alike(so_far, volume, len(final))
    rest = np.median(((final - so_far[:-1]) / (volume[:-1] + _HALF_ROW))[by_rows], axis=1)
    found = [
        Forecast(so_far, by_rows),
        Forecast(rows(so_far + rest * (volume + _HALF_ROW)), by_rows),
    ]
    for share in (shares[:, 0], _developed(history, shares)):
        plain = rows(so_far / np.clip(share, 1e-6, 1))
        alike = _alike(plain, volume, len(final))
        off = np.median(((final + _HALF_ROW) / (plain[:-1] + _HALF_ROW))[alike], axis=1)
        found += [
            Forecast(plain, by_rows),
            Forecast(rows(plain * off), alike),
        ]
    return found


def _alike(rows: Float64s, volume: Float64s, past: int) -> NDArray[np.intp]:
    """Return which past windows other than itself are next to each by their rows over their volume."""
    level = (rows + _HALF_ROW) / (volume + _HALF_ROW)
    order = np.argsort(level[:past], kind="stable")
    rank = np.empty(past + 1, np.intp)
    rank[order], rank[-1] = np.arange(past), np.searchsorted(level[order], level[-1])
    count = min(max(_FEWEST_NEIGHBOURS, past // _NEIGHBOURS), past - 1)
    beside = np.clip(rank - count // 2, 0, past - 1 - count)[:, None] + np.arange(count)
    beside[:-1] += beside[:-1] >= rank[:-1, None]
    found: NDArray[np.intp] = order[beside]
    return found


def _recent_shares(history: AgeHistory) -> Float64s:
    """Return which share of its rows a window has usually at the age and some steps later, shape (windows, lags + 1).

    Of each window by those that were past when it was as old.
    """
    both = np.column_stack([history.at_ages[:-1, 0, :], history.final])
    prior = _PRIOR * both.mean(axis=0)
    # Of each window the weight is that of the newest one, whose own is 1, over how often it has halved since.
    growth = 2 ** (np.arange(len(both)) / _HALF_LIFE)[:, None]
    came = np.vstack([prior, prior + np.cumsum(both * growth, axis=0)])[history.known]
    shares: Float64s = came[:, :-1] / np.maximum(came[:, -1:], 1e-9)
    return shares


def _developed(history: AgeHistory, shares: Float64s) -> Float64s:
    """Return the share at the age as the windows just before developed, step by step, shape (windows,)."""
    share: Float64s = shares[:, LAGS].copy()
    prior = history.final.mean() / 2
    for step in range(1, LAGS + 1):
        before = history.at_ages[:, step : step + _RECENT, step - 1]
        after = history.at_ages[:, step : step + _RECENT, step]
        known = np.isfinite(before) & np.isfinite(after)
        usual = shares[:, step - 1] / np.maximum(shares[:, step], 1e-9)
        came = np.where(known, before, 0).sum(axis=1) + prior * usual
        share *= np.clip(came / np.maximum(np.where(known, after, 0).sum(axis=1) + prior, 1e-9), 1e-6, 1)
    return share


def _volume(history: AgeHistory, shares: Float64s) -> Float64s:
    """Return the volume of each window by those just before, which are not all in yet, shape (windows,)."""
    lags = np.arange(1, LAGS + 1)
    rows = history.at_ages[:, lags, lags] / np.clip(shares[:, 1:], 1e-6, 1)
    usable = (shares[:, 1:] >= _USABLE) & np.isfinite(rows)
    mean = np.where(usable, rows, 0).sum(axis=1) / np.maximum(usable.sum(axis=1), 1)
    by_itself = history.so_far / np.clip(shares[:, 0], 1e-6, 1)
    found: Float64s = np.where(usable.any(axis=1), mean, by_itself)
    return found


def _seasonal(arrivals: WindowArrivals, history: AgeHistory) -> list[Float64s]:
    """Return the volume of each window by those at its time of day and week, as far as they are there."""
    totals = np.concatenate([arrivals.earlier, arrivals.so_far[:, -1]]).astype(np.float64)
    places = history.places + len(arrivals.earlier)
    found = []
    for season_us in _SEASONS_US:
        steps, rest = divmod(season_us, arrivals.step_us)
        if rest or steps <= LAGS or places[0] < steps or history.mature_us > season_us:
            continue
        back = places[:, None] - steps * np.arange(1, _SEASONS + 1)
        there = back >= 0
        rows = np.where(there, totals[np.maximum(back, 0)], 0)
        found.append(rows.sum(axis=1) / there.sum(axis=1))
    return found
