"""What is known of a stream: needs, batches, completeness, budget."""

from __future__ import annotations

from tidemark.controller.api.schemas.answer import Answer
from tidemark.models.specs.slo import Objective


class Evidence(Answer):
    """What is known of the stream over the horizon."""

    rows: int
    """(Row, key) pairs with a known need."""
    rows_needed: int | None
    """Minimum number of them to certify the SLO's target at its confidence; null without an SLO."""
    unknown_rows: int
    """Rows that arrived but whose need is not known."""
    early_rows: int
    """Rows before the first watermark: admitted under any bound, so they have no need."""
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
    """Minimum batch id."""
    last: int
    """Maximum batch id."""


class QueryCoverage(Answer):
    """Which batches of one query were reported over the horizon."""

    query_id: str
    """Spark's persistent id of the query."""
    first: int
    """Minimum batch id reported."""
    last: int
    """Maximum batch id reported."""
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
    corrected_min: int
    """Late pairs that counted in a later version of their window for sure (late=revise); the others were dropped."""
    corrected_max: int
    """Late pairs that may have."""
    unjudged_rows: int
    """Rows that arrived and of which it is unknown whether they were late."""
    missing_batches: int
    """Batches never reported: how many rows they held is unknown."""
    min_ppm: int | None
    """Minimum share admitted, in parts per million, rounded down; null without rows."""
    max_ppm: int | None
    """Maximum share admitted, in parts per million, rounded down; null without rows."""
    exact: bool
    """Whether the share is exact: no doubtful pair, no unjudged row, no missing batch."""
    provisional: bool
    """Whether rows can still be admitted to windows (or minutes) that the watermark has not passed."""


class Budget(Answer):
    """How much may be lost over the SLO's window, and how much is."""

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
    """How many may have been, unjudged ones among them."""
    min_ppm: int | None
    """Minimum share that was good, in parts per million, rounded down; null when nothing counts."""
    max_ppm: int | None
    """Maximum share that was good; null when nothing counts."""
    allowed: int
    """How many may be bad of what is counted."""
    remaining_ppm: int | None
    """Minimum share of that which is left, in parts per million; negative when overdrawn, null when that is 0."""
    missing_batches: int
    """Batches never reported: how many rows they held is unknown."""
    provisional: bool
    """Whether rows can still come for windows (or minutes) that the watermark has not passed."""
