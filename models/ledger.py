"""The ledger: which rows Spark admitted and which it dropped as late, from counts and Spark's own rule.

Spark drops a row of batch n iff ``key_us <= 1000 * W(n-1)``, with W(n-1) the watermark of the batch before it in the
offset log, no-data batches included and across restarts (Spark 4.2, measured; ``late_watermark_ms`` of a report). In
complete mode it drops nothing. The ledger, not a model, says whether an SLO was met, so it reports as unknown what it
does not know: rows that could not be counted by granule, batches never reported, the rows of a granule that the
watermark cuts (an interval), and every row of a query whose plan contradicts the declared operator.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from tidemark.models.cells import ReportCells, cells_of
from tidemark.models.granules import SPARK_TICK_US, granule_first_us, granule_last_us
from tidemark.models.operators import Int64s
from tidemark.models.wire import Report


@dataclass(frozen=True, slots=True)
class Tally:
    """Counts of (row, key) pairs that share a partition and a key."""

    rows: int = 0
    """Pairs that arrived."""
    late_min: int = 0
    """Pairs that were certainly late."""
    late_max: int = 0
    """Pairs that may have been late: more than ``late_min`` only where the watermark cut a granule."""

    def __add__(self, other: Tally) -> Tally:
        """Add two tallies."""
        return Tally(self.rows + other.rows, self.late_min + other.late_min, self.late_max + other.late_max)


@dataclass(frozen=True, slots=True)
class Judgement:
    """The fate of the rows of one or more reports.

    Arrays are int64, shape (cells,); a cell is a partition and a key, and several cells may share both.
    """

    partitions: tuple[str, ...]
    """Names of partitions."""
    parts: Int64s
    """Position of each cell's partition in ``partitions``."""
    keys_us: Int64s
    """Key of each in microseconds: for windows the window's end, else the latest key of the granule."""
    counts: Int64s
    """(Row, key) pairs of each, shape (3, cells): that arrived, that were certainly late, that may have been late."""
    unjudged_rows: int
    """Rows whose fate is unknown: not counted by granule, or judged by an unknown watermark."""

    @property
    def total(self) -> Tally:
        """The sum of all."""
        return Tally(*self.counts.sum(axis=1).tolist())

    @property
    def first_key_us(self) -> int | None:
        """Lowest key in microseconds; None without any."""
        return int(self.keys_us.min()) if len(self.keys_us) else None

    @property
    def tallies(self) -> dict[tuple[str, int], Tally]:
        """Sums by (partition, key in microseconds), in the order of the partitions and keys."""
        summed = self.in_order(np.lexsort((self.keys_us, self.parts))).runs()
        cells = zip(summed.parts.tolist(), summed.keys_us.tolist(), summed.counts.T.tolist(), strict=True)
        return {(self.partitions[part], key_us): Tally(*counts) for part, key_us, counts in cells}

    @property
    def by_key(self) -> dict[int, Tally]:
        """Sums over all partitions by key in microseconds, ascending."""
        together = replace(self, parts=np.zeros_like(self.parts))
        summed = together.in_order(np.argsort(self.keys_us, kind="stable")).runs()
        cells = zip(summed.keys_us.tolist(), summed.counts.T.tolist(), strict=True)
        return {key_us: Tally(*counts) for key_us, counts in cells}

    def in_order(self, order: Int64s) -> Judgement:
        """Return the cells in another order, or some of them."""
        return replace(
            self, parts=self.parts[order], keys_us=self.keys_us[order], counts=self.counts[:, order]
        )

    def runs(self) -> Judgement:
        """Return the cells with neighbours of one partition and key added up."""
        if not len(self.parts):
            return self
        changed = (np.diff(self.parts) != 0) | (np.diff(self.keys_us) != 0)
        starts = np.flatnonzero(np.r_[True, changed])
        counts = np.add.reduceat(self.counts, starts, axis=1)
        return replace(self, parts=self.parts[starts], keys_us=self.keys_us[starts], counts=counts)


def joined(many: Sequence[Judgement]) -> Judgement:
    """Return several judgements, at least one, as one."""
    names = {name: None for each in many for name in each.partitions}
    number = {name: index for index, name in enumerate(names)}
    parts = [np.array([number[name] for name in each.partitions], np.int64)[each.parts] for each in many]
    return Judgement(
        tuple(names),
        np.concatenate(parts),
        np.concatenate([each.keys_us for each in many]),
        np.concatenate([each.counts for each in many], axis=1),
        sum(each.unjudged_rows for each in many),
    )


def judge(report: Report, cells: ReportCells | None = None) -> Judgement:
    """Return what Spark did with the rows of ``report``; ``cells`` are its counts if the caller has them."""
    complete_mode = report.output_mode == "complete"
    cells = cells_of(report) if cells is None else cells
    unknown = report.late_watermark_ms is None and not complete_mode
    if unknown or report.contradiction is not None:
        nothing = np.empty(0, np.int64)
        unjudged = report.rows - report.null_rows
        return Judgement(cells.partitions, nothing, nothing, np.empty((3, 0), np.int64), unjudged)
    row, last_key = report.operator.keys(granule_last_us(cells.granules, report.granule_us, report.closed))
    pairs = cells.counts[row]
    late_min = late_max = np.zeros_like(pairs)
    if not complete_mode:
        _, first_key = report.operator.keys(
            granule_first_us(cells.granules, report.granule_us, report.closed)
        )
        late_us = (report.late_watermark_ms or 0) * SPARK_TICK_US
        late_min, late_max = pairs * (last_key <= late_us), pairs * (first_key <= late_us)
    # Granules ascend, so those of one key are mostly neighbours.
    counts = np.stack([pairs, late_min, late_max])
    return Judgement(cells.partitions, cells.parts[row], last_key, counts, cells.uncounted_rows).runs()


@dataclass(frozen=True, slots=True)
class LedgerCompleteness:
    """The share of pairs that were admitted, as far as it is known."""

    rows: int
    """Pairs that arrived and were judged."""
    late_min: int
    """Pairs that were certainly late."""
    late_max: int
    """Pairs that may have been late."""
    unjudged_rows: int
    """Rows that arrived but whose fate is unknown."""
    missing_batches: int
    """Batches that were never reported: the number of their rows is unknown."""
    keys_per_row: int = 1
    """Maximum number of keys of a row: an unjudged row may be as many pairs."""

    @property
    def lower(self) -> float | None:
        """Lower bound of the share: all uncertain and unjudged rows were late. None without rows."""
        every = self.rows + self.unjudged_rows * self.keys_per_row
        return (self.rows - self.late_max) / every if every else None

    @property
    def upper(self) -> float | None:
        """Upper bound of the share: all uncertain and unjudged rows were admitted. None without rows."""
        every = self.rows + self.unjudged_rows * self.keys_per_row
        return (every - self.late_min) / every if every else None

    @property
    def exact(self) -> bool:
        """Whether the share is known exactly: nothing uncertain, nothing unjudged, no batch missing."""
        return self.late_min == self.late_max and not self.unjudged_rows and not self.missing_batches
