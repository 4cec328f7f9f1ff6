"""The interval of a forecast, from what it was off on past windows: conformal prediction that follows a change.

Errors are compared in units of those of similar windows. Their order statistics bound the next one, whatever their
distribution (V. Vovk, A. Gammerman and G. Shafer, "Algorithmic Learning in a Random World", 2005). Each past window is
bounded by those before it alone; where they miss more often than asked, wider ranks are taken from then on (I. Gibbs
and E. Candes, "Adaptive conformal inference under distribution shift", NeurIPS 2021).
"""

from __future__ import annotations

import math
from bisect import insort
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tidemark.models.completeness.ages import Float64s
from tidemark.models.completeness.forecasts import Forecast
from tidemark.models.completeness.history import MIN_WINDOWS, AgeHistory

MISSED = 0.05
"""Share of the windows that an interval may miss."""
_STEP = 0.02
"""How far a miss moves the share that is aimed at."""
_CERTAIN = 1.64
"""Standard deviations by which more misses than that are no chance, 5 %."""
_HALF_LIFE = 20
"""Windows after which one counts half for whether the interval holds of recent ones."""
_BEYOND = 1.5
"""How much further than every error so far an interval reaches that no rank is wide enough for."""


@dataclass(frozen=True, slots=True, eq=False)
class Bounds:
    """The least and the most final rows of windows, and which past ones were bounded by those before them."""

    least: Float64s
    """Of each window of the history, shape (windows,)."""
    most: Float64s
    scored: slice
    """The past windows that were."""

    def holds(self, final: Float64s) -> tuple[int, int, bool]:
        """Return how many past windows were bounded, how many of them lay within, and whether the interval holds.

        It does where it missed no more than chance has it of all of them, or of recent ones, after a change.
        """
        final = final[self.scored]
        within = (self.least[:-1][self.scored] <= final) & (final <= self.most[:-1][self.scored])
        few = []
        for half_life in (math.inf, _HALF_LIFE):
            weight = 0.5 ** (np.arange(len(final))[::-1] / half_life)
            expected, deviation = MISSED * weight.sum(), math.sqrt(MISSED * (weight * weight).sum())
            few.append((weight * ~within).sum() <= expected + _CERTAIN * deviation + 1 / 2)
        return len(final), int(within.sum()), any(few)


def bounds_of(history: AgeHistory, forecast: Forecast) -> Bounds:
    """Return the bounds of each window, by the windows that were past when it was as old."""
    final, so_far, rows = history.final, history.so_far, forecast.rows
    error = final - rows[:-1]
    size = np.abs(error)
    scale = size[forecast.alike].mean(axis=1) + size.mean() / 10 + 0.25
    scaled = (error / scale[:-1]).tolist()
    first = MIN_WINDOWS + min(history.lag, len(final) - MIN_WINDOWS)
    bounds, ranked, aim = [], list[float](), MISSED
    known = np.maximum(history.known, MIN_WINDOWS)
    each = np.column_stack([known, rows, scale, so_far, np.append(final, np.nan)])[first:].tolist()
    for before, expected, unit, came, became in each:
        for one in scaled[len(ranked) : int(before)]:
            insort(ranked, one)
        below, above = _ranks(ranked, aim)
        low, high = max(expected + below * unit, came), max(expected + above * unit, came)
        bounds.append((low, high))
        # Rounded outwards they hold one row more.
        within = low - 1 < became < high + 1
        aim = min(max(aim + _STEP * (MISSED - (not within)), 0.0), 2 * MISSED)
    least, most = so_far.copy(), np.full(len(rows), np.inf)
    least[first:], most[first:] = np.floor([low for low, _ in bounds]), np.ceil([high for _, high in bounds])
    return Bounds(least, most, slice(first, len(final)))


def _ranks(errors: Sequence[float], aim: float) -> tuple[float, float]:
    """Return the order statistics between which the next error lies but for a share ``aim``, of ascending ones."""
    count = len(errors)
    rank = math.ceil((count + 1) * (1 - aim / 2))
    if rank <= count:
        return errors[count - rank], errors[rank - 1]
    # Too few for both ends: what has come is the least.
    rank = math.ceil((count + 1) * (1 - aim))
    return -math.inf, errors[rank - 1] if rank <= count else max(errors[-1] * _BEYOND, errors[-1])
