"""Slots of a chart: how wide they are, so that no more slots cover a span of time than there is room for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tidemark.models.need_slots import DAY_US, HOUR_US, SLOT_US, Levels, edge_us

SERIES_WIDTHS_US = (
    *(minutes * SLOT_US for minutes in (1, 2, 5, 10, 15, 30)),
    *(hours * HOUR_US for hours in (1, 2, 3, 6, 12)),
    *(days * DAY_US for days in (1, 2, 7, 28)),
)
"""Widths that match a clock or a calendar, ascending, in microseconds."""


@dataclass(frozen=True, slots=True)
class Slots:
    """Slots of one width that cover a span."""

    width_us: int
    """Their width, in microseconds."""
    from_us: int
    """Start of the first, in microseconds."""
    until_us: int
    """End of the last, in microseconds."""

    @property
    def starts_us(self) -> range:
        """Their starts."""
        return range(self.from_us, self.until_us, self.width_us)


def slots_of(
    from_us: int,
    until_us: int,
    max_slots: int,
    levels: Levels,
    widths_us: Sequence[int] = SERIES_WIDTHS_US,
) -> Slots:
    """Return the narrowest slots that cover a span and are not narrower than the stored ones.

    When even the widest are more than ``max_slots``, the oldest are left out.

    Args:
        from_us: start of the span.
        until_us: its end, after its start.
        max_slots: how many slots there may be.
        levels: how far the stored slots have been rolled up.
        widths_us: the widths to choose from, ascending.
    """
    stored_us = levels.width_us(from_us)
    fitting = [
        width_us
        for width_us in widths_us
        if width_us >= stored_us and -(-until_us // width_us) - from_us // width_us <= max_slots
    ]
    width_us = fitting[0] if fitting else widths_us[-1]
    end_us = -(-until_us // width_us) * width_us
    return Slots(width_us, max(edge_us(from_us, width_us), end_us - max_slots * width_us), end_us)
