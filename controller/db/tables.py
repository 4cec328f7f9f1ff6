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
    text,
)
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

__all__ = [
    "AcknowledgementRow",
    "Base",
    "EventRow",
    "FailedBoundRow",
    "LeaseRow",
    "LeaseTermRow",
    "LedgerKeyRow",
    "LedgerRow",
    "LiveRow",
    "NeedBlockRow",
    "NeedSketchRow",
    "NeedSlotRow",
    "OverviewRow",
    "PartitionRow",
    "PartitionSumsRow",
    "PinRow",
    "PolicyRow",
    "PredictionRow",
    "PublishedRow",
    "QueryRow",
    "RecentBoundRow",
    "RecommendationRow",
    "ReplicaRow",
    "ReportBodyRow",
    "ReportHourRow",
    "ReportRow",
    "RolloutRow",
    "RollupRow",
    "SeriesRow",
    "SloRow",
    "StreamRow",
    "TokenRow",
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
SlotWidth = Annotated[int, mapped_column(BigInteger, default=60_000_000, server_default="60000000")]
"""Width of a slot in microseconds: a minute, an hour or a day."""
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
    late_min: Mapped[Counter]
    late_max: Mapped[Counter]
    unjudged_rows: Mapped[Counter]


class QueryRow(Base):
    """One Spark query that reported on a stream, by its persistent id."""

    __tablename__ = "queries"

    stream_id: Mapped[OfStream]
    query_id: Mapped[KeyIdentifier]
    first_batch: Mapped[Whole]
    last_batch: Mapped[Whole]
    reports: Mapped[Counter]
    gone_batch: Mapped[Whole | None]
    """Greatest id of the batches whose reports are aged out; null while all are there."""
    gone_max_event_time_us: Mapped[Whole | None]
    """Greatest event time of those batches."""


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
        # Whatever was stored after a certain report is asked for all the time.
        Index(None, "stream_id", "id"),
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
    dropped_reports: Mapped[Whole]
    first_key_us: Mapped[Whole | None]
    """Least key of its judged pairs; null without any."""
    pairs: Mapped[Whole]
    late_min: Mapped[Whole]
    late_max: Mapped[Whole]
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
    contradiction: Mapped[Long | None]
    """How the query's plan contradicts the declared operator; null when it does not."""


class LedgerKeyRow(Base):
    """What was admitted and what was late, by key, over all partitions and batches."""

    __tablename__ = "ledger_keys"

    stream_id: Mapped[OfStream]
    key_us: Mapped[KeyNumber]
    """The window's end; for row-level and session keys the end of the minute (..., end] that holds them."""
    rows: Mapped[Whole]
    late_min: Mapped[Whole]
    late_max: Mapped[Whole]


class LedgerRow(Base):
    """What was admitted and what was late, by key and partition, over the batches that are counted by partition."""

    __tablename__ = "ledger"

    stream_id: Mapped[OfStream]
    key_us: Mapped[KeyNumber]
    """As in ``LedgerKeyRow``."""
    partition: Mapped[KeyName]
    rows: Mapped[Whole]
    late_min: Mapped[Whole]
    late_max: Mapped[Whole]


class NeedSlotRow(Base):
    """The needs of all partitions of a stream in one minute, hour or day of batches, as one sketch."""

    __tablename__ = "need_slots"

    stream_id: Mapped[OfStream]
    slot_us: Mapped[KeyNumber]
    version: Mapped[Whole]
    """Grows with each change, so that readers can keep what they have read."""
    sketch: Mapped[Blob]
    width_us: Mapped[SlotWidth]


class NeedSketchRow(Base):
    """The needs of one partition in one minute, hour or day of batches."""

    __tablename__ = "need_sketches"

    stream_id: Mapped[OfStream]
    slot_us: Mapped[KeyNumber]
    partition: Mapped[KeyName]
    sketch: Mapped[Blob]
    width_us: Mapped[SlotWidth]


class PartitionSumsRow(Base):
    """The needs of all partitions of a stream over its horizon, up to the reports that are counted in them."""

    __tablename__ = "partition_sums"

    stream_id: Mapped[OfStream]
    from_us: Mapped[Whole]
    """Where it begins: every slot of ``NeedSketchRow`` from here on is in it, and no other."""
    needs: Mapped[Blob]
    """``models.partition_needs``."""


class NeedBlockRow(Base):
    """What the partitions of a stream needed in ten minutes, an hour or a day that is over."""

    __tablename__ = "need_blocks"

    stream_id: Mapped[OfStream]
    width_us: Mapped[KeyNumber]
    slot_us: Mapped[KeyNumber]
    share_ppm: Mapped[Whole]
    """The share of pairs that ``cells`` are about: the target at the time when it was made."""
    cells: Mapped[Long]
    """As JSON: [[partition, ...], [need in milliseconds, ...], [pairs, ...]]."""
    needs: Mapped[Blob | None]
    """The needs themselves (``models.partition_needs``), from which a day is made; null but for an hour."""


class SeriesRow(Base):
    """What the reports of a stream add up to in one minute or hour of batches."""

    __tablename__ = "series"

    stream_id: Mapped[OfStream]
    width_us: Mapped[KeyNumber]
    slot_us: Mapped[KeyNumber]
    batches: Mapped[Whole]
    rows: Mapped[Whole]
    pairs: Mapped[Whole]
    late_min: Mapped[Whole]
    late_max: Mapped[Whole]
    unjudged_rows: Mapped[Whole]
    future_rows: Mapped[Whole]
    keys_per_row: Mapped[Whole]
    """The most keys that one row can have."""
    newest_us: Mapped[Whole]
    """Trigger time of the newest batch, which the rest is about."""
    bound_ms: Mapped[Whole]
    effective_bound_ms: Mapped[Whole | None]
    state_rows: Mapped[Whole]


class ReportHourRow(Base):
    """What the reports of one query in one hour add up to, for spans that are rolled up."""

    __tablename__ = "report_hours"

    stream_id: Mapped[OfStream]
    slot_us: Mapped[KeyNumber]
    query_id: Mapped[KeyIdentifier]
    batches: Mapped[Whole]
    batch_ranges: Mapped[Long]
    """Ids of the batches as JSON: [[first, last], ...], ascending and apart."""
    from_us: Mapped[Whole]
    """Trigger time of the first batch."""
    to_us: Mapped[Whole]
    """Trigger time of the newest batch."""
    keys_per_row: Mapped[Whole]
    rows: Mapped[Whole]
    uncounted_rows: Mapped[Whole]
    pairs: Mapped[Whole]
    late_min: Mapped[Whole]
    late_max: Mapped[Whole]
    unjudged_rows: Mapped[Whole]
    need_pairs: Mapped[Whole]
    need_unknown_rows: Mapped[Whole]
    early_rows: Mapped[Whole]
    future_rows: Mapped[Whole]


class RollupRow(Base):
    """How far a stream's data are rolled up and aged out; without a row, nothing is."""

    __tablename__ = "rollups"

    stream_id: Mapped[OfStream]
    hours_until_us: Mapped[Counter]
    """What was seen before is kept by the hour."""
    days_until_us: Mapped[Counter]
    """What was seen before is kept by the day."""
    split_report_id: Mapped[Counter]
    """Reports up to this one are counted by partition, and in the series (``waiting``)."""
    ledger_report_id: Mapped[Counter]
    """Reports up to this one were counted in the ledger's partitions by an earlier release, as they came."""
    needs_from_us: Mapped[Counter]
    """Needs and hourly sums of what was seen before are gone."""
    reports_from_us: Mapped[Counter]
    """Reports of batches that started before are gone, and no more of them are taken."""
    bodies_from_us: Mapped[Counter]
    """Bodies of reports of batches that were seen before are gone."""
    ledger_from_us: Mapped[Whole | None]
    """Keys below are gone from the ledger; null while all are there."""
    tens_until_us: Mapped[Counter]
    """Blocks of ten minutes are made of what was seen before."""
    hour_blocks_until_us: Mapped[Counter]
    """Blocks of an hour are made of what was seen before."""
    day_blocks_until_us: Mapped[Counter]
    """Blocks of a day are made of what was seen before."""


class ReplicaRow(Base):
    """A process that may decide, and its sign of life."""

    __tablename__ = "replicas"

    holder: Mapped[KeyIdentifier]
    beats: Mapped[Counter]
    """Grows while the process lives. Others watch it change; no clock is compared with another."""


class LeaseRow(Base):
    """Who decides the streams of one shard: those whose id leaves its number when divided by the number of shards."""

    __tablename__ = "leases"

    shard: Mapped[KeyNumber]
    holder: Mapped[Identifier | None]
    """The process that decides; null when it was given back."""
    fencing: Mapped[Counter]
    """Grows with each new holder; a decision is written only under the number that its maker holds."""


class LeaseTermRow(Base):
    """Who held a shard under which number, for audit."""

    __tablename__ = "lease_terms"

    shard: Mapped[KeyNumber]
    fencing: Mapped[KeyNumber]
    holder: Mapped[Identifier]
    taken_us: Mapped[Whole]


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
    state: Mapped[Word | None]
    """Active, Idle, Behind or Gone when the stream was looked at last; null before that."""
    skewed: Mapped[bool] = mapped_column(server_default=text("false"))
    """Whether it was skewed then."""
    skewed_us: Mapped[Whole | None]
    """Since when it is skewed; null unless it is."""
    pairs: Mapped[Whole | None]
    """(Row, key) pairs of it with a known need over the horizon then; null before that."""
    need_ms: Mapped[Whole | None]
    """The bound that admitted the target's share of them."""
    without_bound_ms: Mapped[Whole | None]
    """The bound that the other partitions needed."""
    costs_ms: Mapped[Whole | None]
    """By how much the stream's bound would have fallen without it."""


class OverviewRow(Base):
    """What a list of streams shows of one, as of when it was looked at last. Nulls are unknown."""

    __tablename__ = "overviews"

    stream_id: Mapped[OfStream]
    seen_us: Mapped[Whole]
    """When it was looked at."""
    report_id: Mapped[Whole]
    """The newest report then; 0 without any."""
    last_batch_us: Mapped[Whole | None]
    in_use_bound_ms: Mapped[Whole | None]
    effective_bound_ms: Mapped[Whole | None]
    bound_ms: Mapped[Whole | None]
    """The bound that all partitions needed together, against which each partition's cost is counted."""
    needs_from_us: Mapped[Whole | None]
    """Where the horizon of these needs begins."""
    needs_share_ppm: Mapped[Whole | None]
    """The share of pairs that they are about."""
    now_from_us: Mapped[Whole | None]
    """From when on the newest batches count as now."""
    now_min_ppm: Mapped[Whole | None]
    now_max_ppm: Mapped[Whole | None]
    window_min_ppm: Mapped[Whole | None]
    """Completeness over the SLO's window, at the least."""
    window_max_ppm: Mapped[Whole | None]
    provisional: Mapped[bool]
    """Whether rows could still be admitted to windows that the watermark had not passed."""
    remaining_ppm: Mapped[Whole | None]
    """What was left of the budget."""
    conditions: Mapped[Long]
    """What held, the worst first, as JSON: [[type, detail], ...]."""
    worst: Mapped[Kind | None]
    """Type of the first of them; null without any."""
    partitions: Mapped[Whole]
    """Partitions that had a row within the horizon."""
    idle: Mapped[Whole]
    behind: Mapped[Whole]
    skewed: Mapped[Whole]
    future: Mapped[Whole]
    """Partitions with rows dated ahead of the clock within the horizon."""
    skewed_partition: Mapped[Name | None]
    """The skewed one that costs most; null without any."""
    skewed_without_ms: Mapped[Whole | None]
    skewed_costs_ms: Mapped[Whole | None]


class SloRow(Base):
    """The SLO of a stream."""

    __tablename__ = "slos"

    stream_id: Mapped[OfStream]
    generation: Mapped[Whole]
    target_ppm: Mapped[Whole]
    """As in the specification, for queries."""
    updated_us: Mapped[Whole]
    specification: Mapped[Long]
    """The SLO as JSON, with its ``schema_version``."""


class PolicyRow(Base):
    """The policy of a stream."""

    __tablename__ = "policies"

    stream_id: Mapped[OfStream]
    generation: Mapped[Whole]
    mode: Mapped[Word]
    """As in the specification, for queries."""
    updated_us: Mapped[Whole]
    paused: Mapped[bool] = mapped_column(default=False, server_default=text("false"))
    """As in the specification, for queries."""
    paused_why: Mapped[Long | None]
    """Why it was paused by itself; null when the policy was set so."""
    specification: Mapped[Long]
    """The policy as JSON, with its ``schema_version``."""


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
    """The reasons chain as JSON, as ``tidemark.controller.decide.stored_steps`` has it."""
    conflict: Mapped[bool]
    """Whether the bound that completeness asks for is above a cap."""
    newest_report_id: Mapped[Whole]
    slo_generation: Mapped[Whole]
    policy_generation: Mapped[Whole]
    transition: Mapped[Long | None]
    """What it would do against the bound in use, as JSON; null without a bound, or when an earlier release wrote it."""
    fencing: Mapped[Whole | None]
    """The number of the lease that it was decided under; null when an earlier release wrote it."""


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
    cause: Mapped[Word] = mapped_column(default="Request", server_default="Request")
    """Rollout: a rollout was published; Rollback: one was undone; Pin: a kill switch; Request: a write did it."""
    rollout_id: Mapped[Whole | None]
    """The rollout that was published or undone; null for none."""


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
    min_ppm: Mapped[Whole | None]
    max_ppm: Mapped[Whole | None]
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
    judged_late_min: Mapped[Counter]
    judged_late_max: Mapped[Counter]
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
    reason_class: Mapped[Kind | None]
    """What the reason is an instance of; null when only the same words are the same reason."""
    count: Mapped[Whole] = mapped_column(default=1, server_default="1")
    """How often it came about in a row."""
    last_us: Mapped[Whole | None]
    """When it came about last; null when it was once."""
    by: Mapped[Name | None]
    """Who did it; null when the controller did, or when nobody had to say who they are."""
    rollout_id: Mapped[Whole | None]
    """The rollout that it belongs to; null for none."""
    rows: Mapped[Whole | None]
    """(Row, key) pairs that it rests on; null without any."""
    report_id: Mapped[Whole | None]
    """The newest report that it rests on; null without any."""


class RolloutRow(Base):
    """One change of what a job is told, from the recommendation to its end, by ``tidemark.models.rollout``."""

    __tablename__ = "rollouts"
    __table_args__ = (Index(None, "stream_id", "id"), Index(None, "state", "id"))

    id: Mapped[Id]
    stream_id: Mapped[Stream]
    state: Mapped[Word]
    reason: Mapped[Long]
    """Why it is in this state, or what it waits for."""
    held_by: Mapped[Kind | None]
    """The gate that holds it; null when none does."""
    cause: Mapped[Word]
    direction: Mapped[Word]
    first: Mapped[bool]
    """Whether the job was told no bound before it."""
    mode: Mapped[Word]
    from_bound_ms: Mapped[Whole | None]
    to_bound_ms: Mapped[Whole | None]
    from_envelope: Mapped[Long | None]
    to_envelope: Mapped[Long | None]
    in_use_bound_ms: Mapped[Whole | None]
    """The bound in the plan of the newest batch when it was proposed."""
    generation: Mapped[Whole | None]
    """Generation that tells it; null before it is published."""
    slo_generation: Mapped[Whole]
    policy_generation: Mapped[Whole]
    report_id: Mapped[Whole]
    """The newest report that it rests on."""
    rows: Mapped[Whole]
    """(Row, key) pairs that it rests on."""
    late: Mapped[Whole]
    """How many of them would have been late."""
    min_ppm: Mapped[Whole | None]
    max_ppm: Mapped[Whole | None]
    latency_wall_us: Mapped[Whole | None]
    state_rows: Mapped[Whole | None]
    created_us: Mapped[Whole]
    changed_us: Mapped[Whole]
    """When its state changed last."""
    approved_us: Mapped[Whole | None]
    approved_by: Mapped[Name | None]
    approval_reason: Mapped[Long | None]
    published_us: Mapped[Whole | None]
    acknowledged_us: Mapped[Whole | None]
    effective_us: Mapped[Whole | None]
    judged_rows: Mapped[Counter]
    judged_late_min: Mapped[Counter]
    judged_late_max: Mapped[Counter]
    needed_rows: Mapped[Counter]
    """(Row, key) pairs that must have been at risk under it before it is verified."""
    ended_us: Mapped[Whole | None]
    effective_watermark_ms: Mapped[Whole | None]
    """The watermark of the first batch that it was in effect in; null before it."""
    at_risk_from_ms: Mapped[Whole | None]
    """Rows that are judged by a greater watermark are at risk: whole windows have opened and closed under it."""
    counted_report_id: Mapped[Counter]
    """Reports up to this one are counted below."""
    at_risk_rows: Mapped[Counter]
    """(Row, key) pairs that were at risk under it."""
    at_risk_late_min: Mapped[Counter]
    at_risk_late_max: Mapped[Counter]
    event_ms: Mapped[Counter]
    """Event time by which the watermark has moved since it took effect."""
    needed_event_ms: Mapped[Counter]
    """How much that must be before it is verified; 0 before it is in effect."""
    missed_us: Mapped[Whole | None]
    """When it was seen to miss its target after it was verified; null when it was not, or keeps it again."""


class FailedBoundRow(Base):
    """A bound that was rolled back or turned down, and until when it, and what is worse, is not rolled again."""

    __tablename__ = "failed_bounds"
    __table_args__ = (Index(None, "stream_id", "id"),)

    id: Mapped[Id]
    stream_id: Mapped[Stream]
    rollout_id: Mapped[Whole]
    direction: Mapped[Word]
    """Narrow: what is as narrow or narrower is held; Widen: what is as wide or wider."""
    bound_ms: Mapped[Whole | None]
    envelope: Mapped[Long | None]
    """The envelope that failed, as JSON; null when the bound did."""
    kind: Mapped[Kind]
    why: Mapped[Long]
    failed_us: Mapped[Whole]
    until_us: Mapped[Whole]
    slo_generation: Mapped[Whole]
    policy_generation: Mapped[Whole]


class TokenRow(Base):
    """A bearer token; what it is, is not here, only its digest."""

    __tablename__ = "tokens"
    __table_args__ = (UniqueConstraint("name", "slot"), UniqueConstraint("digest"))

    id: Mapped[Id]
    name: Mapped[Identifier]
    slot: Mapped[Whole | None]
    """1 or 2 while it may be used: so there are two of a name at most, whoever else makes one; null afterwards."""
    role: Mapped[Word]
    jobs: Mapped[Long]
    """Patterns on job names as a JSON array."""
    digest: Mapped[Identifier]
    """SHA-256 of its text in hex."""
    created_us: Mapped[Whole]
    created_by: Mapped[Name]
    expires_us: Mapped[Whole | None]
    """When it ends by itself; null for never."""
    last_used_us: Mapped[Whole | None]
    """When it was used, as far as that is known: up to an hour may be missing."""
    revoked_us: Mapped[Whole | None]
    revoked_by: Mapped[Name | None]
