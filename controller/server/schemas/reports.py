"""Stored reports."""

from __future__ import annotations

from tidemark.controller.base.answer import Answer, Page
from tidemark.controller.server.schemas.streams import MissingRange
from tidemark.models.protocol.late_policy import LatePolicy


class ReportSummary(Answer):
    """What is known of one reported batch. Late rows are judged by Spark's own rule."""

    query_id: str
    """Spark's persistent id of the query."""
    run_id: str
    """Spark's id of the run."""
    batch_id: int
    """Spark's batch id."""
    received_us: int
    """When its report came, in microseconds since the epoch."""
    started_us: int
    """When the batch was triggered by the driver's clock, in microseconds since the epoch."""
    duration_ms: int
    """How long the batch took, in milliseconds."""
    operator: str
    """Kind of the stateful operator."""
    output_mode: str
    """Spark's output mode."""
    bound_ms: int
    """The bound in the plan, in milliseconds."""
    generation: int | None
    """Generation of that bound; null when it was the job's own."""
    late_watermark_ms: int | None
    """The watermark against which rows were late, in milliseconds since the epoch; null when unknown."""
    watermark_ms: int
    """The watermark in force in the batch, in milliseconds since the epoch."""
    max_event_time_us: int | None
    """Maximum event time of the batch, in microseconds since the epoch; null without any."""
    rows: int
    """Rows that reached the tap."""
    null_rows: int
    """Rows without an event time among them."""
    future_rows: int
    """Future-dated rows among them."""
    pairs: int
    """(Row, key) pairs that were judged."""
    late_min: int
    """Pairs that were late for sure."""
    late_max: int
    """Pairs that may have been late."""
    corrected_min: int
    """Late pairs that counted in a later version of their window for sure; the others were dropped."""
    corrected_max: int
    """Late pairs that may have."""
    unjudged_rows: int
    """Rows of which it is unknown whether they were late."""
    early_rows: int
    """Rows before the first watermark, admitted under any bound."""
    state_rows: int
    """Rows of state after the batch."""
    state_bytes: int
    """Memory of the state after the batch, in bytes."""
    dropped_by_spark: int
    """What Spark says it dropped: not a count of rows for every operator."""
    dropped_reports: int
    """Reports that the driver had dropped by then, in this run."""


class ReportPage(Page):
    """A page of reports, those of the newest batches first."""

    reports: list[ReportSummary]
    """The reports."""


class MissingBatches(Answer):
    """Batches of one query that were never reported."""

    query_id: str
    """Spark's persistent id of the query."""
    missing: list[MissingRange]
    """Where they are, ascending; the newest 100 ranges."""
    late: LatePolicy | None
    """What the stream's policy says of late rows; null for what the job's call says."""
