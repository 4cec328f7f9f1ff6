"""The past of a window's age: what earlier windows had when they were as old, and what they had in the end.

Batches end at other ages of each window. A window is compared at its batch nearest to the age asked for, and what it
lacked there is scaled by what all windows lack at both ages, so that no phase of the batches counts as a delay.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tidemark.models.completeness.ages import SLOTS, Float64s, edges_us, slot_of
from tidemark.models.completeness.arrivals import WindowArrivals

LAGS = 6
"""Windows before one that tell of its volume and of delays now."""
MAX_WINDOWS = 200
"""How many past windows count: with fewer an interval is wider, with more it follows a change more slowly."""
MIN_WINDOWS = 20
"""Below so many past windows nothing is known: the most extreme of 19 bounds the next one with 95 %."""
_COMPLETE = 0.999
"""Share of all rows by whose age a window counts as past."""
_WIDE_GAPS = 2
"""Batches from which on a slot is wide."""
_SHORT_BEFORE = 2
"""Past windows that were half as short as silent partitions would make one, for them to be believed missing."""


@dataclass(frozen=True, slots=True, eq=False)
class AgeHistory:
    """Windows whose rows have come, in order, and last the window that is asked about."""

    age_us: int
    """Its age."""
    mature_us: int
    """The age from which on a window counts as past."""
    places: NDArray[np.intp]
    """Place of each window in the arrivals, shape (windows,); the last one is the window's own."""
    final: Float64s
    """Rows that each past window had in the end, shape (windows - 1,)."""
    at_ages: Float64s
    """Rows of the windows before each: [w, i, q] of the i-th window before w when it was q steps older than the age;
    NaN where that is not known. Shape (windows, lags + 1, lags + 1)."""
    lag: int
    """A window was past when the one so many steps after it was as old."""

    @property
    def so_far(self) -> Float64s:
        """Rows of each window at the age, shape (windows,)."""
        return self.at_ages[:, 0, 0]


def history_of(arrivals: WindowArrivals, place: int, missing: Float64s) -> AgeHistory | None:
    """Return the past of a window; None where too few windows are past.

    Args:
        arrivals: the windows.
        place: place of the window.
        missing: share of the rows that silent partitions lack, of the window and those before it, shape (lags + 1,).
    """
    age_us = arrivals.age_us(place)
    edges = edges_us(arrivals.span_us)
    by_slot = np.cumsum(arrivals.rows[:place].sum(axis=0))
    if not place or not by_slot[-1]:
        return None
    complete = int(np.searchsorted(by_slot, _COMPLETE * by_slot[-1]))
    mature_us = int(max(edges[complete + 1], age_us + LAGS * arrivals.step_us))
    until = min((arrivals.base_us - mature_us - arrivals.first_end_us) // arrivals.step_us + 1, place)
    first = max(until - MAX_WINDOWS, 0)
    if until - first < MIN_WINDOWS:
        return None
    before = max(first - LAGS, 0)
    past = slice(first - before, until - before)
    rows = arrivals.rows[before : place + 1]
    table = np.full((len(rows), LAGS + 1), np.nan)
    for q in range(min(LAGS + 1, len(rows))):
        then_us = age_us + q * arrivals.step_us
        found, usual = _at_age(rows, past, arrivals, then_us)
        last = len(rows) - 1 - q
        lacked = _believed(arrivals, until, then_us, usual, float(missing[q])) if missing[q] else 0.0
        table[:last, q] = found[:last]
        table[last, q] = rows[last].sum() / (1 - lacked)
    places = np.append(np.arange(first, until), place)
    lagged = places[:, None] - before - np.arange(LAGS + 1)
    at_ages = np.where((lagged >= 0)[:, :, None], table[np.maximum(lagged, 0)], np.nan)
    lag = max(-(-(mature_us - age_us) // arrivals.step_us), 1)
    return AgeHistory(age_us, mature_us, places, rows[past].sum(axis=1).astype(np.float64), at_ages, lag)


def _believed(arrivals: WindowArrivals, until: int, age_us: int, usual: float, missing: float) -> float:
    """Return the share that silent partitions lack; 0 where no windows were half as short at the age, ever.

    There, who falls silent has ended.
    """
    here = int(slot_of(np.array([age_us]), arrivals.span_us)[0])
    rows = arrivals.rows[:until]
    short = rows[:, : here + 1].sum(axis=1) <= usual * rows.sum(axis=1) * (1 - missing / 2)
    return missing if np.count_nonzero(short & (rows.sum(axis=1) > 0)) >= _SHORT_BEFORE else 0.0


def _at_age(
    rows: NDArray[np.int64], past: slice, arrivals: WindowArrivals, age_us: int
) -> tuple[Float64s, float]:
    """Return the rows of windows at an age, shape (windows,), and the share of all that past ones have then.

    Args:
        rows: rows of windows by slot, shape (windows, slots).
        past: the windows that are past.
        arrivals: where they are from.
        age_us: the age.
    """
    edges = edges_us(arrivals.span_us)
    middle = (edges[:-1] + edges[1:]) / 2
    here = int(slot_of(np.array([age_us]), arrivals.span_us)[0])
    total, so_far = rows.sum(axis=1).astype(np.float64), np.cumsum(rows, axis=1)
    width = edges[here + 1] - edges[here]
    if width > _WIDE_GAPS * arrivals.gap_us:
        # Several batches of a window are in the slot: some before the age, and the one at it.
        passed = np.clip((age_us + arrivals.gap_us / 2 - edges[here]) / width, 0, 1)
        found = so_far[:, here] - (1 - passed) * rows[:, here]
        return found, float(found[past].sum() / max(total[past].sum(), 1))
    slots = np.flatnonzero((np.abs(middle - age_us) <= arrivals.gap_us) | (np.arange(SLOTS) == here))
    shares = _usual_shares(rows[past], so_far[past], middle, slots, arrivals.gap_us)
    at_here = float(shares[np.searchsorted(slots, here)])
    distance = np.where(rows[:, slots] > 0, np.abs(middle[slots] - age_us), np.inf)
    nearest, has = distance.argmin(axis=1), np.isfinite(distance.min(axis=1))
    share = np.where(has, shares[nearest], at_here)
    lacked = total - so_far[np.arange(len(rows)), np.where(has, slots[nearest], here)]
    scale = np.where(share < 1, (1 - at_here) / np.maximum(1 - share, 1e-9), 1)
    return np.clip(total - lacked * scale, 0, total), at_here


def _usual_shares(
    rows: NDArray[np.int64],
    so_far: NDArray[np.int64],
    middle: Float64s,
    slots: NDArray[np.intp],
    gap_us: int,
) -> Float64s:
    """Return the share of their rows that past windows have after a batch in each of some slots, shape (slots,).

    A window counts where one of its batches was in the slot, or none was near it.
    """
    total, there = rows.sum(axis=1), rows > 0
    shares = np.full(len(slots), np.nan)
    for number, slot in enumerate(slots):
        near = np.abs(middle - middle[slot]) <= gap_us
        counts = there[:, slot] | ~there[:, near].any(axis=1)
        every = total[counts].sum()
        if every:
            shares[number] = so_far[counts, slot].sum() / every
    known = np.flatnonzero(np.isfinite(shares))
    if not len(known):
        return np.ones(len(slots))
    filled: Float64s = np.maximum.accumulate(np.interp(np.arange(len(slots)), known, shares[known]))
    return filled
