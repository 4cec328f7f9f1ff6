"""Coverage: which batches of a query were reported, and which are missing for good.

A killed driver can lose a report, so a gap in batch ids means that completeness is *unknown* there, never 100 %.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

Range = tuple[int, int]
"""Ids of batches from the first to the last, both included."""


@dataclass(frozen=True, slots=True)
class Coverage:
    """The batches of one query between the first and the last that were reported."""

    first: int
    """Lowest batch id reported. Earlier batches were not observed and are no gap."""
    last: int
    """Highest batch id reported."""
    missing: tuple[tuple[int, int], ...]
    """Ranges of batch ids, both ends included, that were never reported."""

    @property
    def missing_batches(self) -> int:
        """Number of batches in the gaps."""
        return sum(last - first + 1 for first, last in self.missing)


def coverage_of(ranges: Iterable[Range]) -> Coverage | None:
    """Return the coverage of batches given as ranges, in any order, possibly overlapping; None without any."""
    merged = merge_ranges(ranges)
    if not merged:
        return None
    gaps = tuple((left[1] + 1, right[0] - 1) for left, right in pairwise(merged))
    return Coverage(merged[0][0], merged[-1][1], gaps)


def merge_ranges(ranges: Iterable[Range]) -> list[Range]:
    """Return the same batches as the fewest ranges, ascending."""
    merged: list[Range] = []
    for first, last in sorted(ranges):
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = merged[-1][0], max(merged[-1][1], last)
        else:
            merged.append((first, last))
    return merged
