"""The ledger: which rows Spark admitted and which it dropped as late, from counts and Spark's own rule.

Spark drops a row of batch n iff ``key_us <= 1000 * W(n-1)``, with W(n-1) the watermark of the batch before it in the
offset log, no-data batches included and across restarts (Spark 4.2, measured; ``late_watermark_ms`` of a report).
In complete mode it drops nothing. The ledger, not a model, says whether an SLO was met, so what it does not know it
calls unknown: rows that could not be counted by granule, batches never reported, and the rows of a granule that
the watermark cuts (an interval).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from tidemark.models.cells import cells_of
from tidemark.models.coverage import Coverage, coverage_of
from tidemark.models.granules import SPARK_TICK_US, granule_first_us, granule_last_us
from tidemark.models.operators import Int64s
from tidemark.models.wire import Report

__all__ = ["Completeness", "Judgement", "Ledger", "Tally", "judge"]


@dataclass(frozen=True, slots=True)
class Tally:
    """Counts of (row, key) pairs that share a partition and a key."""

    rows: int = 0
    """Pairs that arrived."""
    late_least: int = 0
    """Pairs that were late for sure."""
    late_most: int = 0
    """Pairs that may have been late: more than ``late_least`` only where the watermark cut a granule."""

    def __add__(self, other: Tally) -> Tally:
        """Add two tallies."""
        return Tally(
            self.rows + other.rows, self.late_least + other.late_least, self.late_most + other.late_most
        )


@dataclass(frozen=True, slots=True)
class Judgement:
    """What became of one report's rows."""

    tallies: dict[tuple[str, int], Tally]
    """By (partition, key in microseconds): for windows the window's end, else the latest key of the granule."""
    unjudged_rows: int
    """Rows whose fate is unknown: not counted by granule, or the watermark they met is not known."""


def judge(report: Report) -> Judgement:
    """Return what Spark did with the rows of ``report``."""
    complete_mode = report.output_mode == "complete"
    if report.late_watermark_ms is None and not complete_mode:
        return Judgement({}, report.rows - report.null_rows)
    late_us = None if complete_mode else (report.late_watermark_ms or 0) * SPARK_TICK_US
    cells = cells_of(report)
    row, last_key = report.operator.keys(granule_last_us(cells.granules, report.granule_us, report.closed))
    _, first_key = report.operator.keys(granule_first_us(cells.granules, report.granule_us, report.closed))
    pairs = cells.counts[row]
    late_least = pairs * (last_key <= late_us) if late_us is not None else np.zeros_like(pairs)
    late_most = pairs * (first_key <= late_us) if late_us is not None else late_least
    tallies = {
        (report.partitions[part].partition, key): tally
        for part, key, tally in _sums(cells.parts[row], last_key, (pairs, late_least, late_most))
    }
    return Judgement(tallies, report.uncounted_rows)


def _sums(part: Int64s, key: Int64s, counts: tuple[Int64s, ...]) -> Iterable[tuple[int, int, Tally]]:
    """Return the sums of ``counts`` by (part, key), in that order."""
    if not len(key):
        return []
    order = np.lexsort((key, part))
    part, key = part[order], key[order]
    starts = np.flatnonzero(np.r_[True, (np.diff(part) != 0) | (np.diff(key) != 0)])
    sums = [np.add.reduceat(values[order], starts).tolist() for values in counts]
    return zip(part[starts].tolist(), key[starts].tolist(), map(Tally, *sums), strict=True)


@dataclass(frozen=True, slots=True)
class Completeness:
    """The share of pairs that were admitted, as far as it is known."""

    rows: int
    """Pairs that arrived and were judged."""
    late_least: int
    """Pairs late for sure."""
    late_most: int
    """Pairs that may have been late."""
    unjudged_rows: int
    """Rows that arrived but whose fate is unknown."""
    missing_batches: int
    """Batches that were never reported: nobody knows how many rows they held."""
    keys_per_row: int = 1
    """The most keys a row can have, so that an unjudged row may stand for as many pairs."""

    @property
    def least(self) -> float | None:
        """Lower bound of the share: every doubtful and unjudged row was late. None without rows."""
        every = self.rows + self.unjudged_rows * self.keys_per_row
        return (self.rows - self.late_most) / every if every else None

    @property
    def most(self) -> float | None:
        """Upper bound of the share: every doubtful and unjudged row was admitted. None without rows."""
        every = self.rows + self.unjudged_rows * self.keys_per_row
        return (every - self.late_least) / every if every else None

    @property
    def exact(self) -> bool:
        """Whether the share is known exactly: nothing doubtful, nothing unjudged, no batch missing."""
        return self.late_least == self.late_most and not self.unjudged_rows and not self.missing_batches


class Ledger:
    """The judgements of many reports, each counted once."""

    def __init__(self) -> None:
        self.tallies: dict[tuple[str, int], Tally] = {}
        """By (partition, key in microseconds)."""
        self.unjudged_rows = 0
        """Rows whose fate is unknown."""
        self._batches: dict[str, set[int]] = {}
        self._keys_per_row = 1

    def add(self, report: Report) -> bool:
        """Count ``report``; return False, and change nothing, when its (query id, batch id) was counted before."""
        seen = self._batches.setdefault(report.query_id, set())
        if report.batch_id in seen:
            return False
        seen.add(report.batch_id)
        judgement = judge(report)
        for cell, tally in judgement.tallies.items():
            self.tallies[cell] = self.tallies.get(cell, Tally()) + tally
        self.unjudged_rows += judgement.unjudged_rows
        self._keys_per_row = max(self._keys_per_row, report.operator.most_keys)
        return True

    def by_key(self) -> dict[int, Tally]:
        """Return the tallies over all partitions by key (for windows: by window end), in microseconds."""
        result: dict[int, Tally] = {}
        for (_, key), tally in sorted(self.tallies.items(), key=lambda item: item[0][1]):
            result[key] = result.get(key, Tally()) + tally
        return result

    def coverage(self) -> dict[str, Coverage]:
        """Return by query id which batches are known and which are missing."""
        found = {query: coverage_of(batches) for query, batches in self._batches.items()}
        return {query: coverage for query, coverage in found.items() if coverage is not None}

    def completeness(self) -> Completeness:
        """Return the completeness over everything counted."""
        total = sum(self.tallies.values(), Tally())
        missing = sum(coverage.missing_batches for coverage in self.coverage().values())
        return Completeness(
            total.rows, total.late_least, total.late_most, self.unjudged_rows, missing, self._keys_per_row
        )
