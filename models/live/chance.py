"""Unevenness: how much more counts vary than those of independent rows, as variance over mean.

Rows that come in packs, such as what a device sends at once, make counts vary more, and so does traffic that changes.
Until counts have shown how uneven they are, they are assumed to be quite uneven: else a young stream takes its usual
gaps for missing rows.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tidemark.models.live.ages import Float64s
from tidemark.models.live.defaults import (
    SILENT_ROWS,
    UNEVENNESS_CEILING,
    UNEVENNESS_PRIOR,
)
from tidemark.models.live.learned import Arrays, checked


class Unevenness:
    """The unevenness of several series of counts, in columns.

    Args:
        half_life: half-life of the estimate, in counts of a column.
        prior: counts that what is assumed at first is worth.
    """

    def __init__(self, half_life: float, prior: float) -> None:
        self._decay = 0.5 ** (1 / half_life)
        self._prior = prior
        self._deviation = np.empty(0)
        """Squared deviations over what was expected, summed, shape (columns,)."""
        self._counts = np.empty(0)
        self.ratio: Float64s = np.empty(0)
        """Variance over mean, at least 1, shape (columns,)."""
        self.widen(1)

    def widen(self, columns: int) -> None:
        """Add columns of which nothing is known, up to ``columns``."""
        new = columns - len(self._counts)
        self._deviation = np.append(self._deviation, np.full(new, UNEVENNESS_PRIOR * self._prior))
        self._counts = np.append(self._counts, np.full(new, self._prior))
        self._update()

    def add(self, counts: NDArray[np.int64], expected: Float64s, heard: NDArray[np.bool_]) -> None:
        """Learn from counts, shape (counts, columns), and what was expected of each column that is ``heard``."""
        squared = (counts - expected) ** 2 / np.maximum(expected, 1)
        decay = self._decay ** (len(counts) * heard)
        capped = np.minimum(squared, UNEVENNESS_CEILING).sum(axis=0)
        self._deviation = self._deviation * decay + capped * heard
        self._counts = self._counts * decay + len(counts) * heard
        self._update()

    def learned(self) -> Arrays:
        """Return the sums."""
        return {"deviation": self._deviation, "counts": self._counts}

    def resume(self, learned: Arrays) -> None:
        """Go on with sums."""
        columns = len(checked(learned, {"deviation": (None,)})["deviation"])
        checked(learned, {"counts": (columns,)})
        if not (learned["counts"] > 0).all():
            raise ValueError("unevenness: every column needs counts above 0")
        self._deviation, self._counts = learned["deviation"].copy(), learned["counts"].copy()
        self._update()

    def _update(self) -> None:
        self.ratio = np.maximum(self._deviation / self._counts, 1)


_LITTLE = 0.01
"""A partition that should have sent fewer rows shows nothing: it has just sent some, or has long stopped."""


def silent_partitions(unsent: Float64s, silence: Float64s) -> NDArray[np.intp]:
    """Return the partitions that are silent for longer than chance explains, ascending.

    They are those that are so alone, and those whose silence together is the least likely if that is no chance.

    Args:
        unsent: independent rows that each should have sent in its silence, shape (partitions,).
        silence: how long each has been silent, shape (partitions,).
    """
    # Those that are silent together are no more unlikely than all rows that are unsent.
    if unsent.sum() <= SILENT_ROWS:
        return np.empty(0, np.intp)
    silent = unsent > SILENT_ROWS
    (expecting,) = (unsent > _LITTLE).nonzero()
    longest_first = expecting[(-silence[expecting]).argsort(kind="stable")]
    shortest = silence[longest_first]
    count = np.arange(1, len(longest_first) + 1)
    sending = len(silence) - np.count_nonzero(silence) + len(longest_first)
    choices = np.log((sending - count + 1) / count).cumsum()
    evidence = shortest * (unsent[longest_first] / shortest).cumsum() - choices
    most = int(evidence.argmax())
    if evidence[most] > SILENT_ROWS:
        silent[longest_first[: most + 1]] = True
    return silent.nonzero()[0]
