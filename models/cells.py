"""A report's counts as flat arrays over all its partitions: some numpy calls a report instead of some a partition."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain

import numpy as np

from tidemark.models.operators import Int64s
from tidemark.models.wire import Report

__all__ = ["Cells", "cells_of"]


@dataclass(frozen=True, slots=True)
class Cells:
    """The counted granules of all partitions, partition after partition. Arrays are int64, shape (cells,)."""

    granules: Int64s
    """Indices of granules."""
    counts: Int64s
    """Rows in each."""
    parts: Int64s
    """Position of each one's partition in the report."""

    def by_part(self, row: Int64s, size: int) -> tuple[Int64s, Iterator[slice]]:
        """Return an order that puts (row, key) pairs partition by partition, and each one's slice in it.

        Args:
            row: the cell of each pair, as ``Operator.keys`` gives it.
            size: number of partitions.
        """
        order = np.argsort(self.parts[row], kind="stable")
        edges = np.searchsorted(self.parts[row][order], np.arange(size + 1)).tolist()
        return order, (slice(edges[part], edges[part + 1]) for part in range(size))


def cells_of(report: Report) -> Cells:
    """Return the counts of ``report``."""
    sizes = [len(part.granules) for part in report.partitions]
    total = sum(sizes)
    return Cells(
        np.fromiter(chain.from_iterable(part.granules for part in report.partitions), np.int64, total),
        np.fromiter(chain.from_iterable(part.counts for part in report.partitions), np.int64, total),
        np.repeat(np.arange(len(sizes), dtype=np.int64), sizes),
    )
