"""What is stored of windows: the rows of each by their age when they were read."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from tidemark.models.base.operators import Int64s
from tidemark.models.completeness.ages import SLOTS


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
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

    @classmethod
    def of(
        cls,
        ends_us: Int64s,
        slots: Int64s,
        rows: Int64s,
        *,
        until_us: int,
        span_us: int,
        step_us: int,
        base_us: int,
        gap_us: int,
        earlier: Int64s | None = None,
    ) -> WindowArrivals | None:
        """Return the windows from the first with rows to the one that ends at ``until_us``; None without any.

        Args:
            ends_us: end of the window of each count, shape (counts,).
            slots: slot of age of each.
            rows: rows of each.
            until_us: end of the last window, which need not have rows.
            span_us: as above, like all that follow.
        """
        inside = ends_us <= until_us
        if not inside.any():
            return None
        first_us = int(ends_us[inside].min())
        table = np.zeros(((until_us - first_us) // step_us + 1, SLOTS), np.int64)
        np.add.at(table, ((ends_us[inside] - first_us) // step_us, slots[inside]), rows[inside])
        return cls(
            span_us=span_us,
            step_us=step_us,
            first_end_us=first_us,
            base_us=base_us,
            gap_us=gap_us,
            rows=table,
            earlier=np.empty(0, np.int64) if earlier is None else earlier,
        )

    def __len__(self) -> int:
        """Return the number of windows."""
        return len(self.rows)

    def place_of(self, end_us: int) -> int | None:
        """Return the place of the window that ends at a time; None when there is none."""
        place, rest = divmod(end_us - self.first_end_us, self.step_us)
        return int(place) if not rest and 0 <= place < len(self) else None

    def age_us(self, place: int) -> int:
        """Return how long ago a window ended by the base, in microseconds; negative while it is filling."""
        return self.base_us - self.first_end_us - place * self.step_us
