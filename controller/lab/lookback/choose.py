"""Which past periods a batch run must read again so that late rows are counted: the mathematics, without any input.

Event time is cut into periods of one length, in UTC. Run ``r`` starts a while after period ``r - 1`` has ended, sees
what is loaded by then, reads some periods whole, and replaces what earlier runs made of them. A row of period ``e``
that run ``r`` is the first to see *needs* the period ``r - e`` before the run's own: 0 is the one in which the run
starts, 1 the one that has just ended. A look-back of ``k`` keeps the rows that need ``k`` at most, and so in the end
does any set of periods that reaches as far.

Not every period tells. Of those before the first load nobody knows when they were loaded, as when a table began with a
copy of its history; of the newest ones, rows are still to come.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tidemark.models.base.confidence import interval_ppm
from tidemark.models.base.operators import Int64s
from tidemark.models.base.target import PPM
from tidemark.models.evidence.events import Overdispersion

_NEED_BITS = 20
_MOST_NEED = 2**_NEED_BITS - 1
"""A need beyond it counts as this: two years of minutes."""
_MOST_CELLS = 2_000_000
"""Pairs of a run and a need that are counted; they take 16 bytes each, and some times as many while they are added."""
_AGES = 16
"""Look-backs at which it is counted how unevenly late rows come; each takes a number for each run."""
_UNSETTLED = 0.1
"""Part of the budget that may still be missing of a period that counts.

Chosen: waiting for the last row would leave out half of a table for one straggler.
"""


class Cells:
    """Rows by the run that sees them first and what they need, added up in parts of any size."""

    def __init__(self, every_us: int, at_us: int) -> None:
        self._every_us, self._at_us = every_us, at_us
        self._parts = [(np.empty(0, np.int64), np.empty(0, np.int64))]
        self._added = self._merged = 0

    def add(self, event_us: Int64s, loaded_us: Int64s) -> None:
        """Add rows by their times in microseconds, shape (rows,); ValueError for more cells than there is room for."""
        run = -((self._at_us - loaded_us) // self._every_us)
        need = np.clip(run - event_us // self._every_us, 0, _MOST_NEED)
        self._parts.append(np.unique((run << _NEED_BITS) + need, return_counts=True))
        self._added += len(self._parts[-1][0])
        # In bulk, as each merge sorts all of them.
        if self._added > max(self._merged, _MOST_CELLS // 4):
            self.counts()
            if self._merged > _MOST_CELLS:
                raise ValueError(
                    f"more than {_MOST_CELLS:,} pairs of a run and a period: a longer --every has fewer"
                )

    def counts(self) -> tuple[Int64s, Int64s, Int64s]:
        """Return runs, needs and numbers of rows, each of shape (cells,), by run and need."""
        keys, rows = (np.concatenate(arrays) for arrays in zip(*self._parts, strict=True))
        keys, which = np.unique(keys, return_inverse=True)
        rows = np.bincount(which, rows, minlength=len(keys)).astype(np.int64)
        self._parts, self._added, self._merged = [(keys, rows)], 0, len(keys)
        return keys >> _NEED_BITS, keys & _MOST_NEED, rows


@dataclass(frozen=True)
class LoadHistory:
    """The periods of a table that tell how late rows are loaded; arrays have shape (cells,)."""

    run: Int64s
    """Number of the run that sees the rows first, in periods since the epoch."""
    need: Int64s
    """What the rows need."""
    rows: Int64s
    """Number of rows."""
    first: int
    """The first period that counts, in periods since the epoch."""
    end: int
    """The one after the last, or before the first where none counts."""
    reach: int
    """The greatest look-back that they can be judged by."""
    before: int = 0
    """Rows left out because their period is before the first load."""
    newest: int = 0
    """Rows left out because more are to come of their period."""

    @classmethod
    def of(cls, cells: Cells, target_ppm: int) -> LoadHistory:
        """Return the periods that tell, for a target in parts per million; ``cells`` has at least one row."""
        run, need, rows = cells.counts()
        # The newest run was still to come when the table was read.
        first, newest_run = int(run[0]), int(run[-1]) - 1
        recorded = run - need >= first
        missing = np.bincount(need[recorded], rows[recorded], minlength=1)[::-1].cumsum()[::-1]
        settled = np.append(missing[1:], 0) * PPM <= _UNSETTLED * missing[0] * (PPM - target_ppm)
        reach = max(min(int(np.argmax(settled)), (newest_run - first + 1) // 2), 1)
        end = newest_run - reach + 1
        telling = recorded & (run - need < end)
        before, newest = (int(rows[out].sum()) for out in (~recorded, recorded & ~telling))
        return cls(run[telling], need[telling], rows[telling], first, end, reach, before, newest)

    @cached_property
    def total(self) -> int:
        """Number of rows that count."""
        return int(self.rows.sum())

    @cached_property
    def within(self) -> Int64s:
        """Rows that need each look-back at most, from 0 up to ``reach``, shape (reach + 1,)."""
        counts = np.bincount(np.minimum(self.need, self.reach + 1), self.rows, minlength=self.reach + 2)
        return counts[:-1].cumsum().astype(np.int64)

    def between(self, first: int, end: int) -> LoadHistory:
        """Return its periods from ``first`` to before ``end``."""
        inside = (self.run - self.need >= first) & (self.run - self.need < end)
        return LoadHistory(self.run[inside], self.need[inside], self.rows[inside], first, end, self.reach)

    def rows_per_event(self, target_ppm: int) -> float:
        """Return how many rows share their fate, of a run or of a period, whichever is more."""
        ages = np.unique(np.geomspace(1, self.reach + 1, _AGES).astype(np.int64)) - 1
        sizes = []
        # The last runs see only late rows of these periods, and the first ones lack them: so they count together.
        for group in ((self.run - self.first) % (self.end - self.first), self.run - self.need):
            _, which = np.unique(group, return_inverse=True)
            late = np.zeros((int(which.max()) + 1, len(ages) + 1))
            np.add.at(late, (which, np.searchsorted(ages, self.need)), self.rows)
            late = late[:, ::-1].cumsum(axis=1)[:, ::-1]
            together = Overdispersion(late, (late**2).sum(axis=0), (late / late[:, :1]).sum(axis=0))
            sizes.append(together.rows_per_event(target_ppm))
        return max(sizes)


@dataclass(frozen=True, slots=True)
class Reading:
    """Periods that each run reads, and what that keeps and costs; shares are in parts per million."""

    periods: tuple[int, ...]
    """Which, counted back from the run's own, ascending."""
    kept_ppm: int
    """Share of the rows that it keeps in the end."""
    min_ppm: int | None
    """Lower end of the interval of that share for periods to come; never null where there are rows."""
    max_ppm: int | None
    """Upper end of it."""
    meanwhile_ppm: int
    """The least share of the rows loaded so far that there is of a period of any age, in the mean over such periods."""
    rows_a_run: int
    """Mean number of rows that a run reads."""
    reads_a_row: float
    """How often each row is read, in the mean."""


def reading(
    history: LoadHistory, periods: Sequence[int], rows_per_event: float, confidence: float
) -> Reading:
    """Return what reading some periods keeps and costs; each end of the interval is right with ``confidence``."""
    total, within, chosen = history.total, history.within, list(periods)
    late, read = total - int(within[chosen[-1]]), int(within[chosen].sum())
    loaded = [*within[np.array(chosen[1:], np.int64) - 1].tolist(), total]
    shares = [int(had) * PPM // most for had, most in zip(within[chosen], loaded, strict=True) if most]
    ends = interval_ppm(late, late, total, round(PPM * (2 * confidence - 1)), rows_per_event)
    of_run = round(read / (history.end - history.first))
    return Reading(tuple(chosen), (total - late) * PPM // total, *ends, min(shares), of_run, read / total)


def smallest(history: LoadHistory, needed: int | None) -> int | None:
    """Return the smallest look-back that keeps so many rows; None when there is none, or for None."""
    found = history.reach + 1 if needed is None else int(np.searchsorted(history.within, needed))
    return found if found <= history.reach else None


def cheapest(history: LoadHistory, target_ppm: int, look_back: int) -> list[int]:
    """Return the periods that cost least rows with the target kept at every age, the last being ``look_back``.

    So what there is of a period after any run has at least the target of the rows loaded so far, in the mean over
    periods of its age. From the last reading back, the one before it is the earliest that is enough until then: no set
    has fewer readings, nor any of them earlier, and later ones read more rows.
    """
    # By age, the first reading whose rows are still enough.
    enough = np.searchsorted(history.within, [-(-int(rows) * target_ppm // PPM) for rows in history.within])
    found = [look_back]
    while found[-1]:
        found.append(int(enough[found[-1] - 1]))
    return found[::-1]
