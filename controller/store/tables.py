"""The tables. Times are integer microseconds (``_us``) or milliseconds (``_ms``); a null is unknown, never 0."""

from __future__ import annotations

from typing import Annotated

from sqlalchemy import (
    BigInteger,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Text,
    UniqueConstraint,
)
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

__all__ = [
    "AcknowledgementRow",
    "Base",
    "EventRow",
    "LedgerRow",
    "LiveRow",
    "NeedSketchRow",
    "NeedSlotRow",
    "PartitionRow",
    "PinRow",
    "PolicyRow",
    "PredictionRow",
    "PublishedRow",
    "QueryRow",
    "RecentBoundRow",
    "RecommendationRow",
    "ReportBodyRow",
    "ReportRow",
    "SloRow",
    "StreamRow",
]

# Names for every constraint, so that a later migration can name what it changes, on both databases.
NAMING_CONVENTION = {
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "ck": "ck_%(table_name)s_%(constraint_name)s",
    "fk": "fk_%(table_name)s_%(column_0_N_name)s_%(referred_table_name)s",
    "pk": "pk_%(table_name)s",
}

# SQLite counts up by itself only in a column of its own type INTEGER, which has 64 bits there.
BigId = BigInteger().with_variant(Integer, "sqlite")

Whole = Annotated[int, mapped_column(BigInteger)]
Counter = Annotated[int, mapped_column(BigInteger, default=0, server_default="0")]
Name = Annotated[str, mapped_column(String(200))]
Identifier = Annotated[str, mapped_column(String(64))]
Word = Annotated[str, mapped_column(String(20))]
Id = Annotated[int, mapped_column(BigId, primary_key=True, autoincrement=True)]
OfStream = Annotated[int, mapped_column(ForeignKey("streams.id"), primary_key=True)]
Stream = Annotated[int, mapped_column(ForeignKey("streams.id"))]
OfReport = Annotated[int, mapped_column(ForeignKey("reports.id"), primary_key=True)]
KeyNumber = Annotated[int, mapped_column(BigInteger, primary_key=True, autoincrement=False)]
KeyName = Annotated[str, mapped_column(String(200), primary_key=True)]
KeyIdentifier = Annotated[str, mapped_column(String(64), primary_key=True)]
Kind = Annotated[str, mapped_column(String(40))]
Long = Annotated[str, mapped_column(Text)]
Blob = Annotated[bytes, mapped_column(LargeBinary)]


class Base(DeclarativeBase):
    """Base of all tables."""

    metadata = MetaData(naming_convention=NAMING_CONVENTION)


class StreamRow(Base):
    """One event-time input of one job, and its totals since it was first seen."""

    __tablename__ = "streams"
    __table_args__ = (UniqueConstraint("job", "stream"),)

    id: Mapped[Id]
    job: Mapped[Name]
    stream: Mapped[Name]
    created_us: Mapped[Whole]
    registered_us: Mapped[Whole | None]
    """When its first report came; null while it is only expected (an SLO, a policy or an acknowledgement is there)."""
    reports: Mapped[Counter]
    duplicates: Mapped[Counter]
    pairs: Mapped[Counter]
    """(Row, key) pairs that were judged."""
    late_least: Mapped[Counter]
    late_most: Mapped[Counter]
    unjudged_rows: Mapped[Counter]


class QueryRow(Base):
    """One Spark query that reported on a stream, by its persistent id."""

    __tablename__ = "queries"

    stream_id: Mapped[OfStream]
    query_id: Mapped[KeyIdentifier]
    first_batch: Mapped[Whole]
    last_batch: Mapped[Whole]
    reports: Mapped[Counter]


class ReportRow(Base):
    """The facts of one batch, once per (stream, query, batch)."""

    __tablename__ = "reports"
    __table_args__ = (
        UniqueConstraint("stream_id", "query_id", "batch_id"),
        Index(None, "stream_id", "seen_us"),
        # The base of a batch is a maximum over all batches before it: found at the top of this index.
        Index(None, "stream_id", "query_id", "max_event_time_us", "batch_id"),
        # What became of the rows under one published bound is summed up at every decision.
        Index(None, "stream_id", "generation", "seen_us"),
    )

    id: Mapped[Id]
    stream_id: Mapped[Stream]
    query_id: Mapped[Identifier]
    run_id: Mapped[Identifier]
    batch_id: Mapped[Whole]
    received_us: Mapped[Whole]
    seen_us: Mapped[Whole]
    """The batch's trigger time, but not after its report was received: a driver's clock may be wrong."""
    started_us: Mapped[Whole]
    duration_ms: Mapped[Whole]
    operator: Mapped[Word]
    keys_per_row: Mapped[Whole]
    """The most keys that one row can have: more than 1 for sliding windows."""
    output_mode: Mapped[Word]
    bound_ms: Mapped[Whole]
    generation: Mapped[Whole | None]
    late_watermark_ms: Mapped[Whole | None]
    watermark_ms: Mapped[Whole]
    late_base_ms: Mapped[Whole | None]
    max_event_time_us: Mapped[Whole | None]
    rows: Mapped[Whole]
    null_rows: Mapped[Whole]
    uncounted_rows: Mapped[Whole]
    state_rows: Mapped[Whole]
    state_bytes: Mapped[Whole]
    dropped_by_spark: Mapped[Whole]
    given_up_reports: Mapped[Whole]
    first_key_us: Mapped[Whole | None]
    """Least key of its judged pairs; null without any."""
    pairs: Mapped[Whole]
    late_least: Mapped[Whole]
    late_most: Mapped[Whole]
    unjudged_rows: Mapped[Whole]
    need_base_ms: Mapped[Whole | None]
    """The base its needs were counted against, of the whole query; null when none is known."""
    need_pairs: Mapped[Whole]
    need_unknown_rows: Mapped[Whole]
    early_rows: Mapped[Whole]
    """Rows that met a filter which knew nothing yet: admitted under any bound, so without a need."""
    future_rows: Mapped[Counter]
    """Rows that were dated ahead of the clock."""
    fingerprint: Mapped[Identifier]


class ReportBodyRow(Base):
    """The report as it was, for audit and for counting its needs again; apart, so that scans of facts stay short."""

    __tablename__ = "report_bodies"

    report_id: Mapped[OfReport]
    body: Mapped[Blob]
    """Canonical JSON, compressed with zlib."""


class LiveRow(Base):
    """What the newest report said beyond its counts; apart and once a stream, because it holds lists of names."""

    __tablename__ = "live_states"

    stream_id: Mapped[OfStream]
    report_id: Mapped[Whole]
    """The report that said it; another one is the newest when that said nothing of the kind."""
    live: Mapped[Long | None]
    """What the fast policy did, as JSON; null unless the job ran in Live."""
    append_delay: Mapped[Long | None]
    """How late rows were appended to the source, as JSON; null when the job names no column for it."""


class LedgerRow(Base):
    """What was admitted and what was late, by key and partition, over all batches."""

    __tablename__ = "ledger"

    stream_id: Mapped[OfStream]
    key_us: Mapped[KeyNumber]
    """The window's end; for row-level and session keys the end of the minute (..., end] that holds them."""
    partition: Mapped[KeyName]
    rows: Mapped[Whole]
    late_least: Mapped[Whole]
    late_most: Mapped[Whole]


class NeedSlotRow(Base):
    """The needs of all partitions of a stream in one minute of batches, as one sketch."""

    __tablename__ = "need_slots"

    stream_id: Mapped[OfStream]
    slot_us: Mapped[KeyNumber]
    version: Mapped[Whole]
    """Grows with each change, so that readers can keep what they have read."""
    sketch: Mapped[Blob]


class NeedSketchRow(Base):
    """The needs of one partition in one minute of batches."""

    __tablename__ = "need_sketches"

    stream_id: Mapped[OfStream]
    slot_us: Mapped[KeyNumber]
    partition: Mapped[KeyName]
    sketch: Mapped[Blob]


class PartitionRow(Base):
    """A partition of a stream since it was first seen."""

    __tablename__ = "partitions"

    stream_id: Mapped[OfStream]
    partition: Mapped[KeyName]
    rows: Mapped[Whole]
    last_event_time_us: Mapped[Whole]
    """Greatest event time, to the granule."""
    last_seen_us: Mapped[Whole]
    """Trigger time of the newest batch that held a row of it."""
    first_seen_us: Mapped[Whole]
    """Trigger time of the first batch that held a row of it, as far as ``batches`` counts."""
    batches: Mapped[Whole]
    """Batches that held a row of it since then."""
    behind_us: Mapped[Whole | None]
    """How far its greatest event time was behind the stream's in that newest batch; null when an earlier release wrote
    it. Unlike the distance now, it does not grow while the partition is idle."""
    future_rows: Mapped[Counter]
    """Rows of it that were dated ahead of the clock."""
    last_future_us: Mapped[Whole | None]
    """Trigger time of the newest batch that held such a row; null without any."""


class SloRow(Base):
    """The SLO of a stream."""

    __tablename__ = "slos"

    stream_id: Mapped[OfStream]
    generation: Mapped[Whole]
    target_ppm: Mapped[Whole]
    latency_cap_ms: Mapped[Whole | None]
    yields: Mapped[Word | None]
    confidence_ppm: Mapped[Whole]
    horizon_ms: Mapped[Whole]
    updated_us: Mapped[Whole]


class PolicyRow(Base):
    """The policy of a stream."""

    __tablename__ = "policies"

    stream_id: Mapped[OfStream]
    generation: Mapped[Whole]
    mode: Mapped[Word]
    least_bound_ms: Mapped[Whole]
    greatest_bound_ms: Mapped[Whole | None]
    updated_us: Mapped[Whole]


class PinRow(Base):
    """A kill switch: what a stream, a job or the whole fleet is held to."""

    __tablename__ = "pins"

    job: Mapped[KeyName]
    """Name of the job; empty for the whole fleet, since no part of a key can be null."""
    stream: Mapped[KeyName]
    """Name of the stream; empty for all streams of the job."""
    held_to: Mapped[Word]
    reason: Mapped[Long]
    since_us: Mapped[Whole]


class AcknowledgementRow(Base):
    """What a run of a job said it applied."""

    __tablename__ = "acknowledgements"
    __table_args__ = (UniqueConstraint("stream_id", "fingerprint"), Index(None, "stream_id", "applied_us"))

    id: Mapped[Id]
    stream_id: Mapped[Stream]
    query_id: Mapped[Identifier]
    run_id: Mapped[Identifier]
    bound_ms: Mapped[Whole]
    generation: Mapped[Whole | None]
    source: Mapped[Word]
    mode: Mapped[Word]
    applied_us: Mapped[Whole]
    ceiling_ms: Mapped[Whole | None]
    """The ceiling in the plan; null when the run cannot be steered live."""
    received_us: Mapped[Whole]
    fingerprint: Mapped[Identifier]


class RecommendationRow(Base):
    """The newest recommendation for a stream."""

    __tablename__ = "recommendations"

    stream_id: Mapped[OfStream]
    decided_us: Mapped[Whole]
    bound_ms: Mapped[Whole | None]
    steps: Mapped[Long]
    """The reasons chain as JSON: [[name, bound_ms, reason], ...]."""
    conflict: Mapped[bool]
    """Whether completeness and the latency cap could not both be met."""
    newest_report_id: Mapped[Whole]
    slo_generation: Mapped[Whole]
    policy_generation: Mapped[Whole]
    transition: Mapped[Long | None]
    """What it would do against the bound in use, as JSON; null without a bound, or when an earlier release wrote it."""


class RecentBoundRow(Base):
    """What the rows asked for at a recent decision: a narrower bound is held back by it."""

    __tablename__ = "recent_bounds"

    stream_id: Mapped[OfStream]
    at_us: Mapped[KeyNumber]
    """Trigger time of the newest batch that the decision rested on."""
    slo_generation: Mapped[Whole]
    bound_ms: Mapped[Whole]


class PublishedRow(Base):
    """What a job asking for its bound was told, one row a generation."""

    __tablename__ = "published_bounds"

    stream_id: Mapped[OfStream]
    generation: Mapped[KeyNumber]
    mode: Mapped[Word]
    bound_ms: Mapped[Whole | None]
    reason: Mapped[Long]
    published_us: Mapped[Whole]
    envelope: Mapped[Long | None]
    """What the fast policy is to do, as JSON; null outside Live."""
    pin: Mapped[Word | None]
    """What a kill switch held the job to; null for none."""


class PredictionRow(Base):
    """What was predicted of a published bound, and how it came out. Nulls are unknown."""

    __tablename__ = "predictions"

    stream_id: Mapped[OfStream]
    generation: Mapped[KeyNumber]
    """Generation under which the bound was published."""
    bound_ms: Mapped[Whole]
    from_bound_ms: Mapped[Whole]
    """The bound in use when it was made."""
    made_us: Mapped[Whole]
    rows: Mapped[Whole]
    """(Row, key) pairs that the prediction rests on."""
    late: Mapped[Whole]
    """How many of them would have been late."""
    least_ppm: Mapped[Whole | None]
    most_ppm: Mapped[Whole | None]
    latency_base_us: Mapped[Whole | None]
    latency_wall_us: Mapped[Whole | None]
    stands_still_us: Mapped[Whole | None]
    effective_us: Mapped[Whole | None]
    windows_closing: Mapped[Whole | None]
    rows_closing: Mapped[Whole | None]
    state_rows: Mapped[Whole | None]
    state_bytes: Mapped[Whole | None]
    text: Mapped[Long]
    became_effective_us: Mapped[Whole | None]
    """Trigger time of the first batch whose watermark moved on under the bound."""
    judged_rows: Mapped[Counter]
    """(Row, key) pairs that met the bound in effect and were judged."""
    judged_late_least: Mapped[Counter]
    judged_late_most: Mapped[Counter]
    scored_us: Mapped[Whole | None]
    """When it was scored last; null while too few rows have been judged."""
    realised_ppm: Mapped[Whole | None]
    """Share of the judged pairs that were admitted."""
    error_ppm: Mapped[Whole | None]
    """The realised share minus the predicted one."""


class EventRow(Base):
    """One change and why it came about."""

    __tablename__ = "events"
    __table_args__ = (Index(None, "stream_id", "id"),)

    id: Mapped[Id]
    stream_id: Mapped[Stream]
    at_us: Mapped[Whole]
    kind: Mapped[Kind]
    reason: Mapped[Long]
    before: Mapped[Long | None]
    after: Mapped[Long | None]
