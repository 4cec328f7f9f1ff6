"""What is known of a stream: needs, batches, completeness, budget."""

from __future__ import annotations

from tidemark.controller.api.schemas.answer import Answer
from tidemark.models.slo import Objective

__all__ = ["Budget", "Completeness", "Evidence", "MissingRange", "QueryCoverage"]


class Evidence(Answer):
    """What is known of the stream over the horizon."""

    rows: int
    """(Row, key) pairs with a known need."""
    rows_needed: int | None
    """How many it takes at the least to certify the SLO's target at its confidence; null without an SLO."""
    unknown_rows: int
    """Rows that arrived but whose need is not known."""
    early_rows: int
    """Rows that met a filter which knew nothing yet: admitted under any bound, so they have no need to count."""
    batches: int
    """Batches reported."""
    missing_batches: int
    """Batches never reported."""
    partitions: int
    """Partitions seen."""
    horizon_ms: int
    """How far back it counts from the newest batch, in milliseconds."""
    from_us: int | None
    """Trigger time of the first batch counted, in microseconds since the epoch."""
    to_us: int | None
    """Trigger time of the newest batch, in microseconds since the epoch."""


class MissingRange(Answer):
    """Batches that were never reported, both ends included."""

    first: int
    """Least batch id."""
    last: int
    """Greatest batch id."""


class QueryCoverage(Answer):
    """Which batches of one query were reported over the horizon."""

    query_id: str
    """Spark's persistent id of the query."""
    first: int
    """Least batch id reported."""
    last: int
    """Greatest batch id reported."""
    missing_batches: int
    """Batches between them that were never reported: completeness is unknown there."""
    missing: list[MissingRange]
    """Where they are, the newest 100 ranges."""


class Completeness(Answer):
    """What the ledger says of the pairs that arrived over the horizon."""

    rows: int
    """(Row, key) pairs that were judged."""
    late_min: int
    """Pairs that were late for sure."""
    late_max: int
    """Pairs that may have been late."""
    unjudged_rows: int
    """Rows that arrived but whose fate is unknown."""
    missing_batches: int
    """Batches never reported: nobody knows how many rows they held."""
    min_ppm: int | None
    """Share admitted at the least, in parts per million, rounded down; null without rows."""
    max_ppm: int | None
    """Share admitted at the most, in parts per million, rounded down; null without rows."""
    exact: bool
    """Whether the share is known exactly: nothing doubtful, nothing unjudged, no batch missing."""
    provisional: bool
    """Whether rows can still be admitted to windows (or minutes) that the watermark has not passed."""


class Budget(Answer):
    """What the SLO left to lose over its window, and what of it is lost."""

    objective: Objective
    """What counts: rows, or windows that did not reach the target."""
    window_ms: int
    """The SLO's window, in milliseconds, back from the newest batch."""
    from_us: int
    """Trigger time of the first batch that counts, in microseconds since the epoch."""
    counted: int
    """(Row, key) pairs that arrived, or windows that the watermark has passed."""
    bad_min: int
    """How many of them were late, or did not reach the target, for sure."""
    bad_max: int
    """How many may have been, those of unknown fate among them."""
    min_ppm: int | None
    """The share that was good at the least, in parts per million, rounded down; null of nothing."""
    max_ppm: int | None
    """The share that was good at the most; null of nothing."""
    allowed: int
    """How many may be bad of what is counted."""
    remaining_ppm: int | None
    """What is left of that at the least, in parts per million of it; negative when overdrawn, null when nothing is."""
    missing_batches: int
    """Batches never reported: nobody knows how many rows they held."""
    provisional: bool
    """Whether rows can still come for windows (or minutes) that the watermark has not passed."""
