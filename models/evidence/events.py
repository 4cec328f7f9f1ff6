"""Events: how many rows share their fate, from how unevenly late rows come.

Rows that wait together, in a pack, an upload or a stall, are late together: they are one event, and thousands of them
prove no more than one row does. If late rows came one by one, their number in a batch would vary like a binomial one.
How many times as much it varies is how many rows an event has (the *design effect* of a cluster sample: L. Kish,
"Survey Sampling", Wiley 1965). It is taken over the batches, and over longer slots of time, since a stall spans many
batches; the greater counts. What is seen of it is uncertain too, so the upper end of a one-sided interval is taken.

It is not known at the bound that is sought, where few rows are late, so it is taken from smaller bounds as well: the
greatest at any bound where the late rows are between a quarter and twenty times the budget.

No batch proves more than its share of the time does. Where a few batches, of a load or a replay, hold nearly all
rows, all rows count for as many events fewer as there are batches besides these (Kish's other design effect, of unequal
weights), and a bound is taken from batches that count alike, too (``Overdispersion.crowding``).

Counts are kept for ``BOUNDS`` bounds only, and add up over batches: how many rows need more than each, the square of
that number in a batch, and its share of the batch's rows.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tidemark.models.base.target import PPM
from tidemark.models.evidence.sketch import Sketch

BOUNDS = 64
"""Bounds above 0 at which rows are counted: enough for a need of a week."""

_APART = 32
"""Buckets of the sketch from one bound to the next: each is 1.38 times as wide as the one before."""

_FROM_SHARE, _TO_SHARE = 0.1, 10.0
"""Shares of late rows, in budgets, from which the size of an event is taken.

Chosen: the bound that is sought has about one budget of them. Where ten times as many are late, the first events are
seen ten times as soon: without the doubt below, packs of 20 rows failed at some look on 5 % of the days, and with four
budgets on 12 %. Twenty gain little more, and in windows more late rows come together. Where a tenth are late, the rare
and large ones are alone: with a quarter, stalls that had brought few rows so far hid among single rows, and five hours
of one an hour failed on 7 of 100 days in place of 3.
"""

_DOUBT = 1.645
"""Standard deviations by which an event may be larger than what was seen of it: 19 of 20 are below, by the normal law.

Chosen: as the usual confidence. With one, stalls of ten minutes every hour fail on 5 of 100 days after ten hours, with
this on 3; packs of 100 rows are then certified within a day on every second day, and with this on every tenth.
"""

_LEAST_APART = 0.2
"""Part of the variance between slots that is left when one slot has nearly all rows; with less it says nothing."""

_CROWDED = 10.0
"""How many batches there are for each that holds rows where these count for too much.

Chosen: days and nights come to 2, and half of all rows in one batch of 20 to 5. With less, mere swings would count.
"""

_Float64s = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class LateBatches:
    """How many rows of some batches need more than each bound; adds up over batches.

    The first column is all rows; the others are those above 1 ms and above each wider bound.
    """

    late: _Float64s
    """Number of such rows, shape (1 + BOUNDS,)."""
    squares: _Float64s
    """Sum over the batches of the square of their number, shape (1 + BOUNDS,)."""
    shares: _Float64s
    """Sum over the batches of their share of a batch's rows, shape (1 + BOUNDS,); the first is how many batches."""

    @classmethod
    def of_batch(cls, buckets: NDArray[np.int32], weights: NDArray[np.float64 | np.int64]) -> LateBatches:
        """Return the counts of one batch, from those of its needs by bucket of ``Sketch``, in any order."""
        column = np.clip(-(-buckets // _APART), 0, BOUNDS)
        late = np.bincount(column, weights, minlength=1 + BOUNDS)[::-1].cumsum()[::-1].astype(np.float64)
        return cls(late, late * late, late / max(late[0], 1))

    @classmethod
    def from_bytes(cls, data: bytes) -> LateBatches:
        """Return what ``to_bytes`` wrote."""
        counts = np.zeros((3, 1 + BOUNDS))
        counts[:, : len(data) // 24] = np.frombuffer(data, "<f8").reshape(3, -1)
        return cls(*counts)

    def to_bytes(self) -> bytes:
        """Return the counts as bytes, without the bounds that no row needs more than."""
        used = int(np.count_nonzero(self.late))
        return np.stack([self.late, self.squares, self.shares])[:, :used].astype("<f8").tobytes()

    def __add__(self, other: LateBatches) -> LateBatches:
        return LateBatches(self.late + other.late, self.squares + other.squares, self.shares + other.shares)

    def __sub__(self, other: LateBatches) -> LateBatches:
        return LateBatches(self.late - other.late, self.squares - other.squares, self.shares - other.shares)


NO_BATCHES = LateBatches(*np.zeros((3, 1 + BOUNDS)))
"""The counts of no batch."""


@dataclass(frozen=True, slots=True)
class Overdispersion:
    """How unevenly late rows come over a span of time."""

    slots: _Float64s
    """Late rows of each slot, as in ``LateBatches``, shape (slots, 1 + BOUNDS)."""
    squares: _Float64s
    """Sum over the batches of the square of their number, shape (1 + BOUNDS,)."""
    shares: _Float64s
    """Sum over the batches of their share of a batch's rows, shape (1 + BOUNDS,)."""

    @classmethod
    def of(cls, slots: Iterable[LateBatches]) -> Overdispersion:
        """Return it for slots of time of any widths."""
        every = [NO_BATCHES, *slots]
        total = sum(every, NO_BATCHES)
        return cls(np.stack([slot.late for slot in every]), total.squares, total.shares)

    @property
    def crowding(self) -> float:
        """How many batches there are for each that holds rows; 1 while they are not far fewer."""
        rows = float(self.slots[:, 0].sum())
        crowding = float(self.shares[0] * self.squares[0]) / rows**2 if rows else 1.0
        return crowding if crowding > _CROWDED else 1.0

    def bound_alike_us(self, target_ppm: int) -> float | None:
        """Return the least bound that reaches a target if each batch counts alike, infinite for more than a week.

        None unless few batches hold nearly all rows.
        """
        if self.crowding == 1:
            return None
        enough = self.shares[1:] * PPM <= self.shares[0] * (PPM - target_ppm)
        bucket = np.array([_APART * int(enough.argmax())], np.int32)
        return float(Sketch.of_counts(bucket, np.ones(1)).upper_edges[0]) if enough.any() else np.inf

    def events(self, target_ppm: int) -> float:
        """Return how many independent events the rows amount to where about as many are late as the target allows."""
        return float(self.slots[:, 0].sum()) / self.rows_per_event(target_ppm)

    def rows_per_event(self, target_ppm: int) -> float:
        """Return how many rows share their fate where about as many are late as the target allows, at least 1."""
        total, all_rows = self.slots.sum(axis=0), self.slots[:, :1]
        bounds = _telling(total, target_ppm)
        if not len(bounds):
            return self.crowding
        rows, late = total[0], total[bounds]
        share = late / rows
        apart = max(1 - float((all_rows**2).sum()) / rows**2, _LEAST_APART)
        # Beside the squares of their numbers if they came as evenly as all rows do.
        of_batches = self.squares[bounds] - share**2 * self.squares[0]
        of_slots = ((self.slots[:, bounds] - share * all_rows) ** 2).sum(axis=0) / apart
        size = np.maximum(np.maximum(of_batches, of_slots) / (late * (1 - share)), 1)
        return float(_with_doubt(late, size).max()) * self.crowding


def _telling(total: _Float64s, target_ppm: int) -> NDArray[np.intp]:
    """Return the bounds whose late rows tell of the target: as columns, of the totals of ``LateBatches``."""
    rows, late = total[0], total[1:]
    budget = rows * (PPM - target_ppm) / PPM
    enough = late >= _FROM_SHARE * budget
    telling = enough & (late <= _TO_SHARE * budget)
    # Where their number jumps, the last bound before it tells.
    telling[max(np.count_nonzero(enough) - 1, 0)] = True
    return np.flatnonzero(telling & (late > 0) & (late < rows)) + 1


def _with_doubt(late: _Float64s, size: _Float64s) -> _Float64s:
    """Return how many rows an event has at most, by what was seen: there may be more beside its first one."""
    rows: _Float64s = 1 + (size - 1) * (1 + _DOUBT * np.sqrt(2 * size / late))
    return rows
