"""What the rows of joined streams need, against the bases of all sides at once.

A query has one watermark, by the policy ``min`` the minimum over its inputs of base minus bound. So a row of any side
is late iff its key is at or below that minimum: it is admitted iff at least one side's bound reaches the row's need
against that side's base. Needs against one base do not show that, since the distance between the sides changes; so rows
are counted by all their needs together. The least of them is the need against the base of the group, the minimum of the
sides' bases: what one bound, common to all sides, would have to be.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from tidemark.models.base.granules import SPARK_TICK_US
from tidemark.models.base.operators import Int64s
from tidemark.models.evidence.key_counts import key_counts
from tidemark.models.evidence.misdated import Clocks, separate_misdated
from tidemark.models.evidence.needs import needs_us
from tidemark.models.evidence.sketch import Sketch
from tidemark.models.protocol.messages import Report


class JointNeeds:
    """Counts of rows by side and by needs against each side's base; immutable.

    Args:
        sides: names of the sides.
        needs_ms: needs in whole milliseconds, shape (cells, sides).
        rows: how many rows of each side have them, shape (cells, sides).
    """

    __slots__ = ("needs_ms", "rows", "sides")

    def __init__(self, sides: Sequence[str], needs_ms: Int64s, rows: Int64s) -> None:
        self.sides = tuple(sides)
        self.needs_ms = needs_ms
        """Needs in milliseconds, at most the sketch's relative accuracy too large, shape (cells, sides)."""
        self.rows = rows
        """Rows of each side with these needs, shape (cells, sides)."""

    @classmethod
    def nothing(cls, sides: Sequence[str]) -> JointNeeds:
        """Return the counts of no rows."""
        none = np.empty((0, len(sides)), np.int64)
        return cls(sides, none, none)

    @classmethod
    def counted(cls, sides: Sequence[str], side: Int64s, needs_us: Int64s, counts: Int64s) -> JointNeeds:
        """Return the counts of rows.

        Args:
            sides: names of the sides.
            side: position in ``sides`` of each row's own, shape (n,).
            needs_us: its need against each side's base, in microseconds, shape (n, sides).
            counts: how many rows it stands for, shape (n,).
        """
        rows = np.zeros((len(side), len(sides)), np.int64)
        rows[np.arange(len(side)), side] = counts
        return cls(sides, *_added_up(_upper_edges_ms(needs_us), rows))

    @classmethod
    def of_batch(
        cls, reports: Sequence[Report], bases_ms: Sequence[int | None], clocks: Sequence[Clocks] = ()
    ) -> JointNeeds:
        """Return the needs of the rows of one batch of a query.

        Without the base of every side the watermark has not begun, and no bound could make a row late: then there are
        none. Rows whose needs are not known, and misdated ones, are left out.

        Raises:
            ValueError: when the reports are of different batches.
        """
        if len({(report.query_id, report.batch_id) for report in reports}) != 1:
            raise ValueError("the sides' reports must be of one batch of one query")
        sides = [report.stream for report in reports]
        parts = [cls.nothing(sides)]
        for number, report in enumerate(reports):
            known_ms = [base_ms for base_ms in bases_ms if base_ms is not None]
            if report.contradiction is None and len(known_ms) == len(bases_ms):
                separated = separate_misdated(
                    report, known_ms[number], clocks=clocks[number] if clocks else None
                )
                pairs = key_counts(report, None if separated is None else separated[0])
                against = [
                    needs_us(pairs.first_us, base_ms * SPARK_TICK_US, SPARK_TICK_US) for base_ms in known_ms
                ]
                own = np.full(len(pairs.counts), number, np.int64)
                parts.append(cls.counted(sides, own, np.column_stack(against), pairs.counts))
        return cls.merged(parts)

    @classmethod
    def merged(cls, many: Iterable[JointNeeds]) -> JointNeeds:
        """Return the counts of all of ``many``, at least one, which have the same sides.

        Raises:
            ValueError: when they have not.
        """
        together = cls.concatenated(many)
        return cls(together.sides, *_added_up(together.needs_ms, together.rows))

    @classmethod
    def concatenated(cls, many: Iterable[JointNeeds]) -> JointNeeds:
        """Return the same counts at less cost, in which several cells may have the same needs.

        Raises:
            ValueError: when they have different sides.
        """
        parts = list(many)
        if len({part.sides for part in parts}) != 1:
            raise ValueError("needs of different sides cannot merge")
        needs_ms, rows = (
            np.concatenate(columns) for columns in zip(*((p.needs_ms, p.rows) for p in parts), strict=True)
        )
        return cls(parts[0].sides, needs_ms, rows)

    @property
    def rows_by_side(self) -> Int64s:
        """Rows of each side, shape (sides,)."""
        total: Int64s = self.rows.sum(axis=0)
        return total

    def admitted(self, bounds_ms: Sequence[int]) -> Int64s:
        """Return how many rows of each side these bounds of the sides certainly admit, shape (sides,)."""
        enough = (self.needs_ms <= np.asarray(bounds_ms, np.int64)).any(axis=1)
        admitted: Int64s = self.rows[enough].sum(axis=0)
        return admitted

    def late(self, side: int, bounds_ms: Sequence[int]) -> int:
        """Return how many rows of one side these bounds of the sides do not certainly admit."""
        enough = (self.needs_ms <= np.asarray(bounds_ms, np.int64)).any(axis=1)
        return int(self.rows[~enough, side].sum())

    def watermark_lag_ms(self, bounds_ms: Sequence[int]) -> float:
        """Return how far the watermark would trail the base of the group, in milliseconds, in the mean over rows.

        The state follows it. 0 without rows.
        """
        ahead_ms = self.needs_ms - self.needs_ms.min(axis=1, keepdims=True)
        lag_ms = (np.asarray(bounds_ms, np.int64) - ahead_ms).max(axis=1)
        weights = self.rows.sum(axis=1)
        return float(np.average(lag_ms, weights=weights)) if len(weights) else 0.0


def _upper_edges_ms(needs_us: Int64s) -> Int64s:
    """Return the upper edges of the sketch's buckets that needs fall into, so that there are not too many cells."""
    different, where = np.unique(needs_us, return_inverse=True)
    buckets, of_different = np.unique(Sketch().buckets_of(different), return_inverse=True)
    edges_us = Sketch.of_counts(buckets.astype(np.int32), np.ones(len(buckets))).upper_edges
    edges_ms = np.ceil(edges_us / SPARK_TICK_US).astype(np.int64)
    rounded: Int64s = edges_ms[of_different[where]].reshape(needs_us.shape)
    return rounded


def _added_up(needs_ms: Int64s, rows: Int64s) -> tuple[Int64s, Int64s]:
    different, where = np.unique(needs_ms, axis=0, return_inverse=True)
    summed = np.zeros((len(different), rows.shape[1]), np.int64)
    np.add.at(summed, where.ravel(), rows)
    return different, summed
