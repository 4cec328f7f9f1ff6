"""Streams: their queries, reports and partitions, and what lists show of them."""

from __future__ import annotations

from sqlalchemy import Index, UniqueConstraint, select, text
from sqlalchemy.orm import Mapped, column_property, mapped_column

from tidemark.controller.base.db.tables.columns import (
    AsJson,
    Base,
    Blob,
    Counter,
    Id,
    Identifier,
    KeyIdentifier,
    KeyName,
    KeyNumber,
    Long,
    Name,
    OfReport,
    RowOfStream,
    Stream,
    Whole,
    Word,
)
from tidemark.models.base.operators import Operator
from tidemark.models.completeness.outcome import NewestWindows
from tidemark.models.evidence.losses import LostSummary
from tidemark.models.evidence.partition_counts import PartitionsInState, SkewCost
from tidemark.models.live.kept import KeptLive
from tidemark.models.protocol.datasets import Datasets
from tidemark.models.protocol.downstream import Downstream
from tidemark.models.protocol.late_policy import LateTreatment
from tidemark.models.protocol.messages import AppendDelay
from tidemark.models.recommend.promise import ProvisionalBound
from tidemark.models.recommend.savings import Savings


class StreamRow(Base):
    """One event-time input of one job, and its totals since it was first seen."""

    __tablename__ = "streams"
    __table_args__ = (UniqueConstraint("job", "stream"),)

    id: Mapped[Id]
    job: Mapped[Name]
    stream: Mapped[Name]
    registered_us: Mapped[Whole | None]
    """When its first report was received; null before (an SLO, a policy or an acknowledgement may come first)."""
    reports: Mapped[Counter]
    duplicates: Mapped[Counter]
    pairs: Mapped[Counter]
    """(Row, key) pairs that were judged."""
    late_min: Mapped[Counter]
    late_max: Mapped[Counter]
    corrected_min: Mapped[Counter]
    """Late pairs that certainly counted in a later version of their window."""
    corrected_max: Mapped[Counter]
    unjudged_rows: Mapped[Counter]
    deleted_future_rows: Mapped[Counter]
    """Future-dated rows of partitions that are aged out."""
    deleted_misdated_rows: Mapped[Counter]
    """Rows whose event time no delay explains (``models.misdated``), of partitions that are aged out."""
    deleted_missing_batches: Mapped[Counter]
    """Batches that were never reported, of queries that are aged out."""
    slo_generation: Mapped[Counter]
    """Generation of the SLO that was deleted last, from which the next one goes on; 0 without any."""
    policy_generation: Mapped[Counter]
    """Generation of the policy that was deleted last, from which the next one goes on; 0 without any."""
    downstream: Mapped[Downstream | None] = mapped_column(AsJson(Downstream, kept=4_096))
    """What its bound decides behind its own operator, by the acknowledgement applied last; null when nothing, or when
    it is not known."""
    late: Mapped[LateTreatment | None] = mapped_column(AsJson(LateTreatment, kept=256))
    """What its job does with late rows, by the same acknowledgement; null before it."""
    datasets: Mapped[Datasets | None] = mapped_column(AsJson(Datasets))
    """What its query reads and writes, by the same acknowledgement; null before it."""
    deleted_us: Mapped[Whole | None]
    """When it was deleted; null unless it was. Its row stays as long as its event, so that its id is not used again."""
    deleted_name: Mapped[Name | None]
    """Its name before it was deleted; ``stream`` is a name that no stream can have since then."""

    @property
    def shown_name(self) -> str:
        """Its name, as people know it."""
        return self.deleted_name or self.stream


KNOWN = StreamRow.deleted_us.is_(None)
"""Condition that picks the streams that are not deleted."""


class QueryRow(RowOfStream):
    """One Spark query that reported on a stream, by its persistent id."""

    __tablename__ = "queries"

    query_id: Mapped[KeyIdentifier]
    first_batch: Mapped[Whole]
    last_batch: Mapped[Whole]
    reports: Mapped[Counter]
    deleted_batch: Mapped[Whole | None]
    """Highest id of the batches whose reports are aged out; null while none is."""
    deleted_max_event_time_us: Mapped[Whole | None]
    """Maximum event time of those batches."""
    early_us: Mapped[Whole | None]
    """Maximum event time of its rows that were dated ahead by a wrong clock; null without any."""
    lead_us: Mapped[Whole | None]
    """How far all its batches so far were dated ahead, on purpose; null before its first row."""


class OperatorRow(RowOfStream):
    """An operator that a query of a stream had: most streams have one for ever, so that reports only name it."""

    __tablename__ = "operators"

    number: Mapped[KeyNumber]
    """Of the stream's operators, in the order in which they were first reported."""
    operator: Mapped[Operator] = mapped_column(AsJson(Operator, kept=4_096))


class ReportRow(Base):
    """The facts of one batch, once per (stream, query, batch)."""

    __tablename__ = "reports"
    __table_args__ = (
        UniqueConstraint("stream_id", "query_id", "batch_id"),
        Index(None, "stream_id", "seen_us"),
        # The base of a batch is a maximum over all earlier batches: this index has it on top.
        Index(None, "stream_id", "query_id", "max_event_time_us", "batch_id"),
        # Every decision sums up the rows under one published bound.
        Index(None, "stream_id", "generation", "seen_us"),
        # Reports after a given report are read often.
        Index(None, "stream_id", "id"),
    )

    id: Mapped[Id]
    stream_id: Mapped[Stream] = mapped_column()
    query_id: Mapped[Identifier]
    run_id: Mapped[Identifier]
    batch_id: Mapped[Whole]
    received_us: Mapped[Whole]
    seen_us: Mapped[Whole]
    """The batch's trigger time by the controller's clock, but not after its report was received."""
    started_us: Mapped[Whole]
    """The same; the report as sent has the driver's own time."""
    duration_ms: Mapped[Whole]
    operator_number: Mapped[Whole] = mapped_column()
    operator: Mapped[Operator] = column_property(
        select(OperatorRow.operator)
        .where(OperatorRow.stream_id == stream_id, OperatorRow.number == operator_number)
        .scalar_subquery()
    )
    """That of its number (``OperatorRow``)."""
    keys_per_row: Mapped[Whole]
    """Maximum number of keys of one row: above 1 for sliding windows."""
    output_mode: Mapped[Word]
    bound_ms: Mapped[Whole]
    generation: Mapped[Whole | None]
    late_watermark_ms: Mapped[Whole | None]
    watermark_ms: Mapped[Whole]
    late_base_ms: Mapped[Whole | None]
    """As reported; null when it is of a clock that was ahead."""
    max_event_time_us: Mapped[Whole | None]
    """Of rows whose clocks can be right: what Spark's own base follows besides stands in ``rows_ahead_us``."""
    latest_us: Mapped[Whole]
    """The latest event time that a clock which is right can have given (``models.evidence.misdated.Clocks``)."""
    driver_ahead_us: Mapped[Whole | None]
    """How far the driver's clock was ahead of the controller's; 0 while they agreed, null when not known."""
    rows_ahead_us: Mapped[Whole | None]
    """How far the newest of the rows of wrong clocks was dated ahead; null without any."""
    rows: Mapped[Whole]
    null_rows: Mapped[Whole]
    uncounted_rows: Mapped[Whole]
    state_rows: Mapped[Whole]
    state_bytes: Mapped[Whole]
    dropped_by_spark: Mapped[Whole]
    dropped_reports: Mapped[Whole]
    first_key_us: Mapped[Whole | None]
    """Lowest key of its judged pairs; null without any."""
    pairs: Mapped[Whole]
    late_min: Mapped[Whole]
    late_max: Mapped[Whole]
    corrected_min: Mapped[Counter]
    """Late pairs that certainly counted in a later version of their window."""
    corrected_max: Mapped[Counter]
    unjudged_rows: Mapped[Whole]
    need_base_ms: Mapped[Whole | None]
    """The base its needs were counted against, of the whole query; null when none is known."""
    need_pairs: Mapped[Whole]
    need_unknown_rows: Mapped[Whole]
    early_rows: Mapped[Whole]
    """Rows that came before the first watermark: admitted under any bound, so without a need."""
    future_rows: Mapped[Counter]
    """Future-dated rows."""
    misdated_rows: Mapped[Counter]
    """Rows whose event time no delay explains (``models.misdated``): they have no need."""
    misdated_late: Mapped[Counter]
    """(Row, key) pairs of them that were certainly late, and those that a watermark of wrong clocks dropped."""
    misdated_pairs: Mapped[Counter]
    """(Row, key) pairs of both: no bound admits them or drops them, so none is judged by them."""
    excessive_rows: Mapped[Counter]
    """All rows of a batch that has far more than the stream's rate explains (``models.set_aside``)."""
    replayed_rows: Mapped[Counter]
    """All rows of a batch that was read out of the order of event time."""
    fingerprint: Mapped[Identifier]


BY_BOUND = (
    (ReportRow.pairs - ReportRow.misdated_pairs).label("pairs"),
    (ReportRow.late_min - ReportRow.misdated_late).label("late_min"),
    (ReportRow.late_max - ReportRow.misdated_late).label("late_max"),
)
"""The pairs, and the late ones of them, that a bound is judged by: without those that no bound admits or drops."""


class ReportBodyRow(Base):
    """The report as it was sent, for audit and to count its needs again; apart, so that scans of facts stay short."""

    __tablename__ = "report_bodies"

    report_id: Mapped[OfReport]
    body: Mapped[Blob]
    """Its JSON, compressed with zlib."""
    needs: Mapped[Blob | None]
    """The needs of its rows as one sketch, against ``ReportRow.need_base_ms``; null without any."""


class LiveRow(RowOfStream):
    """What the newest report said beyond its counts; one row a stream, because it holds lists of names."""

    __tablename__ = "live_states"

    report_id: Mapped[Whole]
    """The report that said it. When it is not the newest report, the newest one said nothing of the kind."""
    live: Mapped[KeptLive | None] = mapped_column(AsJson(KeptLive))
    """What the fast policy did; null unless the job ran in Live."""
    append_delay: Mapped[AppendDelay | None] = mapped_column(AsJson(AppendDelay))
    """How late rows were appended to the source; null when the job names no column for it."""
    contradiction: Mapped[Long | None]
    """Why no row is judged; null when they are."""


class PartitionRow(RowOfStream):
    """A partition of a stream since it was first seen."""

    __tablename__ = "partitions"

    partition: Mapped[KeyName]
    rows: Mapped[Whole]
    last_event_time_us: Mapped[Whole]
    """Maximum event time, to the granule."""
    last_seen_us: Mapped[Whole]
    """Trigger time of the newest batch that held a row of it."""
    first_seen_us: Mapped[Whole]
    """Trigger time of the first batch that ``batches`` counts."""
    batches: Mapped[Whole]
    """Batches that held a row of it since then."""
    behind_us: Mapped[Whole | None]
    """How far its maximum event time was behind the stream's in that newest batch; null when all of
    its rows there were misdated. Unlike the distance now, it does not grow while the partition is idle."""
    future_rows: Mapped[Counter]
    """Its future-dated rows."""
    last_future_us: Mapped[Whole | None]
    """Trigger time of the newest batch that held such a row; null without any."""
    misdated_rows: Mapped[Counter]
    """Its rows whose event time no delay explains."""
    last_misdated_us: Mapped[Whole | None]
    """Trigger time of the newest batch that held such a row; null without any."""
    misdated_event_us: Mapped[Whole | None]
    """The newest event time of such a row in that batch, to the granule."""
    state: Mapped[Word | None]
    """Active, Idle, Behind or Gone at the newest snapshot of the stream; null before the first."""
    skewed: Mapped[bool] = mapped_column(server_default=text("false"))
    """Whether it was skewed then."""
    skewed_us: Mapped[Whole | None]
    """Since when it has been skewed; null unless it is."""
    pairs: Mapped[Whole | None]
    """Its (row, key) pairs with a known need over the horizon then; null before the first snapshot."""
    need_ms: Mapped[Whole | None]
    """The bound that admitted the target's share of them."""
    without_bound_ms: Mapped[Whole | None]
    """The bound that the other partitions needed."""
    costs_ms: Mapped[Whole | None]
    """By how much the stream's bound would have fallen without it."""


class OverviewRow(RowOfStream):
    """What a list of streams shows of one, as of its newest snapshot. Nulls are unknown."""

    __tablename__ = "overviews"

    seen_us: Mapped[Whole]
    """When the snapshot was taken."""
    report_id: Mapped[Whole]
    """The newest report then; 0 without any."""
    batch_gap_us: Mapped[Whole | None]
    """Typical time between two batches: with it, whoever reads knows when the stream has fallen silent."""
    effective_bound_ms: Mapped[Whole | None]
    bound_ms: Mapped[Whole | None]
    """The bound that all partitions together needed; each partition's cost is counted against it."""
    now_min_ppm: Mapped[Whole | None]
    now_max_ppm: Mapped[Whole | None]
    window_min_ppm: Mapped[Whole | None]
    """Lower end of the completeness over the SLO's window."""
    window_max_ppm: Mapped[Whole | None]
    provisional: Mapped[bool]
    """Whether rows could still be admitted to windows that the watermark had not passed."""
    remaining_ppm: Mapped[Whole | None]
    """What was left of the budget."""
    budget_course: Mapped[Long | None]
    """How it went over the SLO's window, as JSON (``BudgetCourse``); null without an SLO."""
    conditions: Mapped[Long]
    """Types of the conditions, the worst first, as JSON."""
    partitions: Mapped[PartitionsInState] = mapped_column(AsJson(PartitionsInState))
    most_skewed: Mapped[SkewCost | None] = mapped_column(AsJson(SkewCost))
    """The skewed one that costs most; null without any."""
    lost: Mapped[LostSummary | None] = mapped_column(AsJson(LostSummary))
    """What the values of its dimension lost; null without a dimension."""
    provisional_bound: Mapped[ProvisionalBound | None] = mapped_column(AsJson(ProvisionalBound))
    """Where its recommended bound would lie; null once that may be acted on."""
    windows: Mapped[NewestWindows | None] = mapped_column(AsJson(NewestWindows, kept=4_096))
    """Its newest settled and closed windows; null before the first report."""
    savings: Mapped[Savings | None] = mapped_column(AsJson(Savings), deferred=True)
    """What it would save under its recommended bound."""
