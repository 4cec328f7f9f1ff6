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
ENOUGH = 30
"""Windows before one that are enough to tell of its own age."""
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
    known: NDArray[np.intp]
    """How many of the past windows were past when each was as old, shape (windows,)."""

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
    complete_us = arrivals.complete_us
    if place < ENOUGH:
        # Of so old a window as few others are, no more comes than of younger ones that are complete too.
        age_us = min(age_us, max(complete_us, arrivals.age_us(ENOUGH)))
    mature_us = max(complete_us, age_us + LAGS * arrivals.step_us)
    until = min((arrivals.base_us - mature_us - arrivals.first_end_us) // arrivals.step_us + 1, len(arrivals))
    first = max(until - MAX_WINDOWS, 0)
    if until - first < MIN_WINDOWS:
        return None
    before = max(first - LAGS, 0)
    past = slice(first - before, until - before)
    inside = slice(before, max(until, place + 1))
    final = arrivals.so_far[first:until, -1].astype(np.float64)
    columns, lacked = list[Float64s](), np.zeros(LAGS + 1)
    for q in range(LAGS + 1):
        if q == 1 and (columns[0][past] == final).all():
            # Nothing came after the age: there is nothing to forecast.
            columns += [np.full(len(columns[0]), np.nan)] * LAGS
            break
        then_us = age_us + q * arrivals.step_us
        found, usual = _at_age(arrivals, inside, past, then_us)
        columns.append(found)
        if missing[q]:
            lacked[q] = _believed(arrivals, until, then_us, usual, float(missing[q]))
    places = np.append(np.arange(first, until), place)
    lagged = places[:, None] - before - np.arange(LAGS + 1)
    at_ages = np.where((lagged >= 0)[:, :, None], np.column_stack(columns)[np.maximum(lagged, 0)], np.nan)
    now = np.arange(min(LAGS, place) + 1)
    at_ages[-1, now, now] = arrivals.so_far[place - now, -1] / (1 - lacked[now])
    lag = max(-(-(mature_us - age_us) // arrivals.step_us), 1)
    known = np.append(np.searchsorted(places[:-1], places[:-1] - lag, "right"), until - first)
    return AgeHistory(age_us, mature_us, places, final, at_ages, lag, known)


def _believed(arrivals: WindowArrivals, until: int, age_us: int, usual: float, missing: float) -> float:
    """Return the share that silent partitions lack; 0 where no windows were half as short at the age, ever.

    There, who falls silent has ended.
    """
    here = int(slot_of(np.array([age_us]), arrivals.span_us)[0])
    so_far, final = arrivals.so_far[:until, here], arrivals.so_far[:until, -1]
    short = (final > 0) & (so_far <= usual * final * (1 - missing / 2))
    return missing if np.count_nonzero(short) >= _SHORT_BEFORE else 0.0


def _at_age(arrivals: WindowArrivals, inside: slice, past: slice, age_us: int) -> tuple[Float64s, float]:
    """Return the rows of windows at an age, shape (windows,), and the share of all that past ones have then.

    Args:
        arrivals: the windows.
        inside: which of them.
        past: which of these are past.
        age_us: the age.
    """
    rows, so_far = arrivals.rows[inside], arrivals.so_far[inside]
    edges = edges_us(arrivals.span_us)
    middle = (edges[:-1] + edges[1:]) / 2
    here = int(slot_of(np.array([age_us]), arrivals.span_us)[0])
    total = so_far[:, -1].astype(np.float64)
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
    total, there = so_far[:, -1], rows > 0
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
