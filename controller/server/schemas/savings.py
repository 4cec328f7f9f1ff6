"""What the fleet would save under its recommended bounds."""

from __future__ import annotations

from tidemark.controller.base.answer import Answer, OfStream, Page
from tidemark.models.recommend.savings import Figures, Savings, Total


class SavingsOfStream(OfStream):
    """What a stream would save, as of its newest snapshot."""

    savings: Savings
    """What it costs under both bounds, and how far the recommended one is on its way."""
    saved: Figures | None
    """The difference: below 0 is what the recommended bound costs. Null when there is none."""
    updated_us: int | None
    """When the snapshot was taken, in microseconds since the epoch; null before the first."""


class SavingsTotals(Answer):
    """All streams in reach, taken together."""

    streams: int
    """How many streams are known."""
    losing: int
    """How many of them certainly lose more rows than they may."""
    without_recommendation: int
    """How many of them have no recommended bound."""
    waiting_ms: Total
    """Waiting for results in a day, in milliseconds."""
    late_rows: Total
    """(Row, window) pairs that come too late in a day."""
    state_rows: Total
    """Rows of state."""
    state_bytes: Total
    """Memory of the state, in bytes."""


class SavingsPage(Page):
    """A page of what the fleet would save: streams that lose rows first, then those that save most."""

    streams: list[SavingsOfStream]
    """The streams."""
    totals: SavingsTotals
    """All streams in reach, on this page or not."""
