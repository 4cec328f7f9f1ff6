"""Coverage: which batches of a query are known, and which are missing for good.

A killed driver can lose a report, so a gap in batch ids means that completeness is *unknown* there, never 100 %.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

__all__ = ["Coverage", "coverage_of"]


@dataclass(frozen=True, slots=True)
class Coverage:
    """The batches of one query between the first and the last that were reported."""

    first: int
    """Least batch id reported. What came before was not watched and is no gap."""
    last: int
    """Greatest batch id reported."""
    missing: tuple[tuple[int, int], ...]
    """Ranges of batch ids, both ends included, that were never reported."""

    @property
    def missing_batches(self) -> int:
        """Number of batches in the gaps."""
        return sum(last - first + 1 for first, last in self.missing)

    @property
    def complete(self) -> bool:
        """Whether no batch is missing."""
        return not self.missing


def coverage_of(batch_ids: Iterable[int]) -> Coverage | None:
    """Return the coverage of a query's reported ``batch_ids``, in any order; None when there is none."""
    ids = sorted(set(batch_ids))
    if not ids:
        return None
    gaps = tuple((left + 1, right - 1) for left, right in pairwise(ids) if right - left > 1)
    return Coverage(ids[0], ids[-1], gaps)
