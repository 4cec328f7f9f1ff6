"""A report's counts as flat arrays over all its partitions: a few numpy calls per report, not per partition."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tidemark.models.operators import Int64s
from tidemark.models.wire import Report


@dataclass(frozen=True, slots=True)
class ReportCells:
    """The counted granules of all partitions, partition after partition. Arrays are int64, shape (cells,)."""

    partitions: tuple[str, ...]
    """Names of the report's partitions."""
    granules: Int64s
    """Indices of granules."""
    counts: Int64s
    """Rows in each."""
    parts: Int64s
    """Position of each one's partition in ``partitions``."""
    uncounted_rows: int
    """Rows of the report with an event time that are not in ``counts``."""


def cells_of(report: Report) -> ReportCells:
    """Return the counts of ``report``."""
    given = report.counts
    sizes = np.array(given.sizes, np.int64)
    steps = np.array(given.granules, np.int64)
    counts = np.array(given.rows, np.int64)
    # Sums may wrap around; their differences are right again.
    sums = np.cumsum(steps)
    starts = (np.cumsum(sizes) - sizes)[sizes > 0]
    before = np.repeat(sums[starts] - steps[starts], sizes[sizes > 0])
    return ReportCells(
        given.partitions,
        sums - before,
        counts,
        np.repeat(np.arange(len(sizes), dtype=np.int64), sizes),
        report.rows - report.null_rows - int(counts.sum()),
    )
