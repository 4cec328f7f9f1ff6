"""What is stored of windows: the rows of each by their age when they were read."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from tidemark.models.base.operators import Int64s
from tidemark.models.completeness.ages import edges_us

_COMPLETE = 0.999
"""Share of all rows by whose age a window counts as complete."""


@dataclass(frozen=True, eq=False, kw_only=True)
class WindowArrivals:
    """Windows of one stream in order, as of one batch."""

    span_us: int
    """Length of a window in microseconds."""
    step_us: int
    """Distance from one window's end to the next one's, in microseconds."""
    first_end_us: int
    """End of the first window."""
    base_us: int
    """The stream's base: the newest event time read."""
    gap_us: int
    """By how much the base usually moves from one batch to the next."""
    rows: Int64s
    """Rows of each window in each slot of age, shape (windows, slots)."""
    earlier: Int64s = field(default_factory=lambda: np.empty(0, np.int64))
    """Rows of the windows right before the first, in order, of which only the number is stored."""
    whole: int = 0
    """Rows of the window asked about, a range, that count as they are."""
    unsure: float = 0
    """Rows of a range that may have come on either side of an age."""

    def __len__(self) -> int:
        """Return the number of windows."""
        return len(self.rows)

    @cached_property
    def so_far(self) -> Int64s:
        """Rows of each window up to each slot of age, shape (windows, slots)."""
        return np.cumsum(self.rows, axis=1)

    @cached_property
    def complete_us(self) -> int:
        """The age by which all but a thousandth of the rows have come."""
        came = self.so_far.sum(axis=0)
        slot = int(np.searchsorted(came, _COMPLETE * came[-1]))
        return int(edges_us(self.span_us)[slot + 1])

    def place_of(self, end_us: int) -> int | None:
        """Return the place of the window that ends at a time; None when there is none."""
        place, rest = divmod(end_us - self.first_end_us, self.step_us)
        return int(place) if not rest and 0 <= place < len(self) else None

    def age_us(self, place: int) -> int:
        """Return how long ago a window ended by the base, in microseconds; negative while it is filling."""
        return self.base_us - self.first_end_us - place * self.step_us
