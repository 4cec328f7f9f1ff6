"""Ranges of windows, such as the days that minutes fill: the intervals of their windows do not add up."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tidemark.models.completeness.ages import SLOTS, edges_us, slot_of
from tidemark.models.completeness.arrivals import WindowArrivals
from tidemark.models.completeness.history import LAGS


def range_of(arrivals: WindowArrivals, end_us: int, windows: int, rows: int) -> WindowArrivals:
    """Return ranges as windows of their own: those of its windows that can still grow, and as many before each window.

    Args:
        arrivals: the stream's windows.
        end_us: end of the range.
        windows: how many windows it has.
        rows: rows that all of them have.
    """
    step_us, edges = arrivals.step_us, edges_us(arrivals.span_us)
    age_us = arrivals.base_us - end_us
    young = -(-(arrivals.complete_us - age_us) // step_us) + LAGS
    growing = min(max(young, 1), windows, len(arrivals) + 1)
    count = len(arrivals) - growing + 1
    so_far, came = np.pad(arrivals.so_far, ((0, 0), (1, 0))), np.zeros((count, SLOTS + 1))
    for back in range(growing if count else 0):
        # A window that ended so much before the range is as much older; the rows of a slot came evenly.
        slots = np.interp(edges_us(growing * step_us) + back * step_us, edges, np.arange(SLOTS + 1))
        low, part = slots.astype(int), slots % 1
        its = so_far[growing - 1 - back : len(so_far) - back]
        came += its[:, low] * (1 - part) + its[:, np.minimum(low + 1, SLOTS)] * part
    here = slot_of(age_us + step_us * np.arange(growing), arrivals.span_us)
    unsure = arrivals.rows.mean(axis=0)[here][np.diff(edges)[here] > arrivals.gap_us].sum() / 2
    totals = np.concatenate([arrivals.earlier, arrivals.so_far[:, -1]])
    sums = np.convolve(totals, np.ones(growing, np.int64), "valid") if count else totals
    table = np.rint(came).astype(np.int64)
    found = replace(
        arrivals,
        span_us=growing * step_us,
        first_end_us=arrivals.first_end_us + (growing - 1) * step_us,
        rows=table[:, 1:] - table[:, :-1],
        earlier=sums[: len(sums) - count],
        unsure=float(unsure),
    )
    place = found.place_of(end_us)
    return found if place is None else replace(found, whole=max(rows - int(found.so_far[place, -1]), 0))
