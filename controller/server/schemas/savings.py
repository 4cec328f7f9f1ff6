"""What the fleet would save under its recommended bounds."""

from __future__ import annotations

from tidemark.controller.base.answer import Answer, OfStream


class Between(Answer):
    """A number as far as it is known: the same twice when it is exact."""

    min: int | None
    """It is at least this; null when nobody knows."""
    max: int | None
    """It is at most this; null when nobody knows."""


class SavingsFigures(Answer):
    """What a stream costs under a bound, or the difference between two."""

    latency_ms: Between
    """Mean wall time from a window's end to its result, in milliseconds."""
    waiting_ms: Between
    """The same of all results of a day together, in milliseconds: the latency times the windows a day."""
    late_rows: Between
    """(Row, window) pairs that come too late in a day."""
    state_rows: Between
    """Rows of state; both null when the job reports none."""
    state_bytes: Between
    """Memory of the state, in bytes; both null when the job reports none."""


class SavingsOfStream(OfStream):
    """What a stream would save, as of its newest snapshot."""

    loses: bool
    """Whether it certainly loses more rows than its SLO allows, or without an SLO any."""
    provisional: bool
    """Whether nothing is under way to put the recommended bound into force."""
    reason: str
    """How far the recommended bound is on its way into force, or why there is none, as a sentence."""
    awaits_approval: int | None
    """Number of the rollout that waits for an approval; null when none does."""
    unknown: list[str]
    """Why figures are unknown, or no single numbers, as sentences."""
    target_ppm: int | None
    """Share that the SLO wants good, of the rows or of the windows, in parts per million; null without an SLO."""
    completeness_min_ppm: int | None
    """Minimum share that was good over the SLO's window, or without an SLO over the horizon, by the ledger, in parts
    per million; null without rows."""
    completeness_max_ppm: int | None
    """The maximum of the same."""
    bound_ms: int | None
    """The bound in force, in milliseconds; null without a report."""
    recommended_bound_ms: int | None
    """The recommended bound, in milliseconds; null when there is none."""
    windows_a_day: int | None
    """Windows that come out in a day; null for operators without windows."""
    now: SavingsFigures | None
    """Under the bound in force; null without a report."""
    recommended: SavingsFigures | None
    """Under the recommended bound; null when there is none."""
    saved: SavingsFigures | None
    """The difference: below 0 is what the recommended bound costs. Null when there is none."""
    updated_us: int | None
    """When the snapshot was taken, in microseconds since the epoch; null before the first."""


class SavingsTotal(Answer):
    """The sum of one figure over the streams of which anything is known of it under both bounds."""

    streams: int
    """How many these are."""
    now: Between
    """Under the bounds in force."""
    recommended: Between
    """Under the recommended bounds."""
    saved: Between
    """The difference: below 0 is what the recommended bounds cost."""


class SavingsTotals(Answer):
    """All streams in reach, taken together."""

    streams: int
    """How many streams are known."""
    losing: int
    """How many of them certainly lose more rows than they may."""
    without_recommendation: int
    """How many of them have no recommended bound."""
    waiting_ms: SavingsTotal
    """Waiting for results in a day, in milliseconds."""
    late_rows: SavingsTotal
    """(Row, window) pairs that come too late in a day."""
    state_rows: SavingsTotal
    """Rows of state."""
    state_bytes: SavingsTotal
    """Memory of the state, in bytes."""


class SavingsPage(Answer):
    """A page of what the fleet would save: streams that lose rows first, then those that save most."""

    streams: list[SavingsOfStream]
    """The streams."""
    totals: SavingsTotals
    """All streams in reach, on this page or not."""
    next_cursor: str | None
    """Where the next page begins; null on the last."""
