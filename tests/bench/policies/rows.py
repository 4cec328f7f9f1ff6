"""The last rows of a stream in constant memory: a ring of scores that takes counts batch by batch."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tidemark.models.backtest.bounds import KNOWN_ABOVE_US
from tidemark.models.base.operators import Int64s
from tidemark.models.live.policy import Observation

_GOLDEN = (5**0.5 - 1) / 2


@dataclass(frozen=True, slots=True)
class Scores:
    """The scores of one batch: needs that count as at least 0."""

    value_us: Int64s
    """Needs, at least 0, ascending, shape (counts,); never empty."""
    count: Int64s
    """Rows behind each, at least 1, shape (counts,)."""


def scores_of(seen: Observation) -> Scores | None:
    """Return the scores of a batch; None without a row of known need."""
    has_need = (seen.need_us > KNOWN_ABOVE_US) & (seen.count > 0)
    if not has_need.any():
        return None
    value, count = np.maximum(seen.need_us[has_need], 0), seen.count[has_need]
    order = np.argsort(value, kind="stable")
    return Scores(value[order], count[order])


class LastRows:
    """The scores of the last ``size`` rows; a count of c rows enters as c rows.

    Counts do not give the order of rows within a batch, so each batch is written in an order in which every stretch is
    an even sample of it. Otherwise the rest of a half overwritten batch would be its lowest or its highest scores. Of a
    batch larger than the ring an even sample is written.

    Args:
        size: rows remembered, above 0; 8 bytes each.
    """

    __slots__ = ("_filled", "_next", "_ring")

    def __init__(self, size: int) -> None:
        if size <= 0:
            raise ValueError(f"the ring must hold at least 1 row, not {size}")
        self._ring = np.zeros(size, np.int64)
        self._filled = 0
        self._next = 0

    def __len__(self) -> int:
        """Rows in the ring."""
        return self._filled

    def add(self, scores: Scores) -> None:
        """Add the rows of a batch."""
        size = len(self._ring)
        rows = _even_sample(scores, size)[_spread(min(int(scores.count.sum()), size))]
        self._ring[(self._next + np.arange(len(rows))) % size] = rows
        self._next = (self._next + len(rows)) % size
        self._filled = min(self._filled + len(rows), size)

    def at_rank(self, rank: int) -> int:
        """Return the score of rank ``rank``, from 1, the lowest, to ``len``."""
        return int(np.partition(self._ring[: self._filled], rank - 1)[rank - 1])


def _even_sample(scores: Scores, max_rows: int) -> Int64s:
    """Return the scores row by row, ascending; of more than ``max_rows`` rows that many, evenly spaced by rank."""
    rows = int(scores.count.sum())
    sampled = min(rows, max_rows)
    rank = (2 * np.arange(sampled) + 1) * rows // (2 * sampled)
    return scores.value_us[np.searchsorted(np.cumsum(scores.count), rank, side="right")]


def _spread(rows: int) -> Int64s:
    """Return a permutation of which every stretch is spread evenly: the ranks of the golden ratio's multiples."""
    place = np.empty(rows, np.int64)
    place[np.argsort(np.arange(rows) * _GOLDEN % 1)] = np.arange(rows)
    return place
