"""Days of rows that come alone, in packs, in bursts and in stalls, each with its batch and its need.

The kinds differ in what shares its fate, and in how often it comes: what is rarer than the evidence is long, no count
can foresee.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tidemark.models.evidence.events import BOUNDS, Overdispersion
from tidemark.models.evidence.sketch import Sketch

HOUR_S = 3_600
DAY_S = 24 * HOUR_S
BATCH_S = 10
ROWS_A_DAY = DAY_S
"""A row a second."""

Int64s = NDArray[np.int64]
Float64s = NDArray[np.float64]
Rows = tuple[Float64s, Float64s]
"""When rows arrive, in seconds of the day, and what they need, in seconds."""
Kind = Callable[[np.random.Generator], Rows]


def packs(rows: int) -> Kind:
    """Return days on which every row comes in a pack whose rows need the same."""

    def day(dice: np.random.Generator) -> Rows:
        number = dice.poisson(ROWS_A_DAY / rows)
        return np.repeat(dice.random(number) * DAY_S, rows), np.repeat(dice.exponential(5, number), rows)

    return day


def bursts(every_s: float, rows: int) -> Kind:
    """Return days of single rows, among which bursts come late as a whole, of some ``rows`` each."""

    def day(dice: np.random.Generator) -> Rows:
        alone, number = dice.poisson(ROWS_A_DAY), dice.poisson(DAY_S / every_s)
        sizes = dice.geometric(1 / rows, number)
        arrival = np.concatenate([dice.random(alone), np.repeat(dice.random(number), sizes)]) * DAY_S
        need = [dice.exponential(5, alone), np.repeat(30 + dice.exponential(60, number), sizes)]
        return arrival, np.concatenate(need)

    return day


def stalls(every_s: float, length_s: float, partitions: int = 8) -> Kind:
    """Return days on which one partition after another stands still, and then delivers all at once."""

    def day(dice: np.random.Generator) -> Rows:
        rows, number = dice.poisson(ROWS_A_DAY), dice.poisson(DAY_S / every_s)
        event_time, own = dice.random(rows) * DAY_S, dice.integers(partitions, size=rows)
        arrival = event_time + dice.exponential(2, rows)
        starts, lengths = dice.random(number) * DAY_S, dice.exponential(length_s, number)
        for start, length, stands in zip(
            starts, lengths, dice.integers(partitions, size=number), strict=True
        ):
            held = (own == stands) & (arrival >= start) & (arrival < start + length)
            arrival[held] = start + length
        return arrival, arrival - event_time

    return day


KINDS: dict[str, Kind] = {
    "packs of 1": packs(1),
    "packs of 5": packs(5),
    "packs of 20": packs(20),
    "packs of 100": packs(100),
    "bursts": bursts(300, 15),
    "stalls": stalls(120, 20),
}

RARE: dict[str, tuple[int, Kind]] = {
    **{f"a burst every {every} min": (60 * every, bursts(60 * every, 50)) for every in (10, 20, 30, 60)},
    "a stall every half-hour": (1_800, stalls(1_800, 120)),
    "a short stall every hour": (3_600, stalls(3_600, 240)),
    "a stall every hour": (3_600, stalls(3_600, 600)),
}
"""Kinds that the first hour of a day does not show, each after how far its events are apart, in seconds."""


@dataclass(frozen=True, slots=True)
class Look:
    """What is known at one look of a day."""

    at_s: int
    """When, in seconds of the day."""
    rows: int
    late: Int64s
    """Rows that need more than each bound, shape (bounds,)."""
    overdispersion: Overdispersion


def quantiles(kind: Kind, shares: Float64s, days: int = 200) -> Float64s:
    """Return the needs that shares of all rows exceed, from days of their own."""
    dice = np.random.default_rng(1_000)
    needs = np.concatenate([kind(dice)[1] for _ in range(days)])
    found: Float64s = np.quantile(needs, 1 - shares)
    return found


def looks(
    kind: Kind, bounds_s: Float64s, dice: np.random.Generator, first_s: int, every_s: int
) -> Iterator[Look]:
    """Yield the looks of one day: the bounds are ascending; its hours are the slots, the last one as far as it goes."""
    arrival, need = kind(dice)
    order = np.argsort(arrival)
    arrival, need = arrival[order], need[order]
    batches = DAY_S // BATCH_S
    batch = np.minimum(arrival // BATCH_S, batches - 1).astype(np.int64)
    late = _by_batch(batch, np.searchsorted(bounds_s, need, side="left"), len(bounds_s) + 1, batches)[:, 1:]
    column = np.clip(-(-Sketch().buckets_of(need * 1e6).astype(np.int64) // 32), 0, BOUNDS)
    counts = _by_batch(batch, column, 1 + BOUNDS, batches).astype(np.float64)
    late_until, counts_until = _until(late, every_s), _until(counts, every_s)
    squares_until = _until(counts * counts, every_s)
    shares_until = _until(counts / np.maximum(counts[:, :1], 1), every_s)
    for now_s in range(first_s, DAY_S + 1, every_s):
        edges = np.array([*range(0, now_s, HOUR_S), now_s]) // every_s
        at = edges[-1]
        overdispersion = Overdispersion(
            np.diff(counts_until[edges], axis=0), squares_until[at], shares_until[at]
        )
        yield Look(now_s, int(counts_until[at, 0]), late_until[at], overdispersion)


def _until(counts: NDArray[Any], every_s: int) -> NDArray[Any]:
    """Return what batches add up to until the beginning, and until each look, shape (1 + looks, ...)."""
    between = counts.reshape(DAY_S // every_s, every_s // BATCH_S, -1).sum(axis=1)
    return np.vstack([np.zeros_like(between[:1]), between.cumsum(axis=0)])


def _by_batch(batch: Int64s, column: Int64s, columns: int, batches: int) -> Int64s:
    """Return how many rows of each batch have at least each column, shape (batches, columns)."""
    counts = np.bincount(batch * columns + column, minlength=batches * columns).reshape(batches, columns)
    found: Int64s = counts[:, ::-1].cumsum(axis=1)[:, ::-1]
    return found
