"""How complete a window is: rows so far, rows in the end with an interval, and when a share will have come.

Of the rows that will ever come, how many have come: that is the share here. What the result has of those is another
one, which the ledger knows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from tidemark.models.base.target import PPM
from tidemark.models.base.text import plural
from tidemark.models.completeness.ages import Float64s, edges_us
from tidemark.models.completeness.arrivals import WindowArrivals
from tidemark.models.completeness.forecasts import best_forecast
from tidemark.models.completeness.history import LAGS, MIN_WINDOWS, AgeHistory, history_of
from tidemark.models.completeness.interval import MISSED, bounds_of
from tidemark.models.completeness.outcome import SilentPartition, WindowEstimate, WindowScore
from tidemark.models.completeness.silent import PartitionProgress, missing_of

DEFAULT_SHARE_PPM = 995_000
"""The share by which a window counts as settled where nobody asks for another, in parts per million."""
MIN_ROWS = 20
"""Below so many rows of a usual window an estimate tells nothing: their chance alone is a fifth."""


@dataclass(frozen=True, slots=True)
class NotKnown:
    """Why there is no estimate."""

    reason: str
    """In one sentence."""


def estimate(
    arrivals: WindowArrivals,
    end_us: int,
    partitions: Sequence[PartitionProgress] = (),
    *,
    seen_us: int = 0,
    share_ppm: int = DEFAULT_SHARE_PPM,
) -> WindowEstimate | NotKnown:
    """Return what the window that ends at ``end_us`` will become, as of the newest batch, or why that is not known.

    Args:
        arrivals: the stream's windows.
        end_us: end of the window in microseconds.
        partitions: how far the partitions have come.
        seen_us: when the newest batch was triggered, by the clock of ``partitions``, in microseconds.
        share_ppm: the share asked for, in parts per million.
    """
    place = arrivals.place_of(end_us)
    if place is None:
        begun = arrivals.base_us > end_us - arrivals.span_us
        return NotKnown("it is before the first row that is known" if begun else "it has not begun")
    plain = history_of(arrivals, place, np.zeros(LAGS + 1))
    if plain is None:
        return NotKnown(f"fewer than {MIN_WINDOWS} windows are complete")
    usual = float(plain.final.mean())
    if usual < MIN_ROWS:
        return NotKnown(f"windows have {plural(round(usual), 'row')} on average, fewer than {MIN_ROWS}")
    missing = [
        missing_of(partitions, arrivals, until_us, seen_us=seen_us, mature_us=plain.mature_us, rows=usual)
        for until_us in range(end_us, end_us - (LAGS + 1) * arrivals.step_us, -arrivals.step_us)
    ]
    shares = np.array([_lacked(some) for some in missing])
    history = plain if not shares.any() else history_of(arrivals, place, shares) or plain
    return _estimate(arrivals, history, place, missing[0], share_ppm)


_MOST_MISSING = 0.95
"""Beyond this share of missing rows nothing is scaled."""


def _lacked(missing: Sequence[SilentPartition]) -> float:
    return min(sum(one.share_ppm for one in missing) / PPM, _MOST_MISSING)


def _estimate(
    arrivals: WindowArrivals,
    history: AgeHistory,
    place: int,
    silent: list[SilentPartition],
    share_ppm: int,
) -> WindowEstimate | NotKnown:
    forecast = best_forecast(arrivals, history)
    bounds = bounds_of(history, forecast)
    windows, within, holds = bounds.holds(history.final)
    if not holds:
        return NotKnown(f"for windows as old as it the interval was right for {within} of {windows} only")
    rows, lacked, whole = int(arrivals.so_far[place, -1]), _lacked(silent), arrivals.whole
    believed = 1 - rows / history.so_far[-1] if history.so_far[-1] else 0.0
    most = max(float(np.ceil(bounds.most[-1] + arrivals.unsure)), rows)
    # Where silent partitions are not believed missing, their rows may come all the same.
    if lacked > believed:
        most = np.ceil(most / (1 - lacked))
    least = max(int(np.floor((bounds.least[-1] - arrivals.unsure) * (1 - believed))), rows)
    expected = min(max(round(float(forecast.rows[-1])), least), int(most))
    silent = [replace(one, share_ppm=one.share_ppm * expected // max(expected + whole, 1)) for one in silent]
    rows, least, expected, most = rows + whole, least + whole, expected + whole, most + whole
    settled_ppm = _share_ppm(rows, most)
    reached = _reached_us(arrivals, history, place, share_ppm)
    settled = settled_ppm >= share_ppm
    came = (history.so_far[:-1][bounds.scored] + whole) * PPM
    said = came >= share_ppm * (bounds.most[:-1][bounds.scored] + arrivals.unsure + whole)
    right = came >= share_ppm * (history.final[bounds.scored] + whole)
    return WindowEstimate(
        expected=expected,
        expected_min=least,
        expected_max=int(most),
        came_ppm=_share_ppm(rows, expected),
        came_min_ppm=settled_ppm,
        came_max_ppm=_share_ppm(rows, least),
        settled=settled,
        reached_us=None if settled else reached[0],
        reached_max_us=None if settled else reached[1],
        silent=silent,
        score=WindowScore(
            windows=windows, within=within, settled=int(said.sum()), rightly=int((said & right).sum())
        ),
    )


def _share_ppm(rows: int, of: float) -> int:
    return int(rows * PPM // of) if of else PPM


def _reached_us(
    arrivals: WindowArrivals, history: AgeHistory, place: int, share_ppm: int
) -> tuple[int, int | None]:
    """Return by which base a share will probably, and will surely, have come, as of past windows without it yet."""
    came = arrivals.so_far[history.places[:-1]] + arrivals.whole
    slots = (came * PPM >= share_ppm * came[:, -1:]).argmax(axis=1)
    ages: Float64s = edges_us(arrivals.span_us)[1:][slots]
    ages = np.sort(ages[ages > history.age_us])
    end_us = arrivals.first_end_us + place * arrivals.step_us
    if not len(ages):
        return max(arrivals.base_us, end_us), None
    rank = int(np.ceil((len(ages) + 1) * (1 - MISSED)))
    high = end_us + int(ages[rank - 1]) if rank <= len(ages) else None
    return end_us + int(np.median(ages)), high
