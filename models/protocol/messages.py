"""The wire types: what a job sends to the controller and what it receives.

They are plain frozen dataclasses so that a Spark driver needs no validation library; the controller validates the
same classes strictly and generates its OpenAPI document from them. Times are integer microseconds or milliseconds with
the unit in the name; there is no float.

A driver and its controller may be of different releases. Readers ignore what they do not know, so a field that is added
has a default, which says nothing; what an older reader would get wrong without it needs a new version of the schema.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, is_dataclass, replace
from functools import cache
from typing import Annotated, Any, ClassVar, Final, Literal, cast, get_args

from annotated_types import Ge, Gt, Le, Lt, MaxLen, MinLen

from tidemark.models.base.operators import Closed, Operator
from tidemark.models.base.ranges import (
    MAX_COUNT,
    MAX_ROWS,
    MAX_TIME_US,
    WIRE,
    Count,
    DurationMs,
    TimeMs,
    TimeUs,
)
from tidemark.models.base.read_json import read_object
from tidemark.models.protocol.datasets import NO_DATASETS, Datasets
from tidemark.models.protocol.downstream import Downstream
from tidemark.models.protocol.granule_counts import GranuleCounts
from tidemark.models.protocol.late_policy import DROPPED, LateTreatment

REPORT_SCHEMA: Final = 1
"""The version of ``Report``. A controller rejects a version it does not know instead of misreading it."""

MAX_TEXT: Final = 2_000
"""How many characters a text of an acknowledgement may have."""

LOSES_NONE: Final = "Spark drops no row by this stream's event time"
"""How ``Report.contradiction`` begins where no row is judged because none can be late."""

Name = Annotated[str, MinLen(1), MaxLen(200)]
_Identifier = Annotated[str, MinLen(1), MaxLen(64)]
Mode = Literal["Off", "OnRestart", "Restart", "Live"]
OutputMode = Literal["append", "update", "complete"]
BoundSource = Literal["controller", "disk", "job"]
Pin = Literal["Off", "Ceiling"]
"""What a pin holds a job to: its own bound (Off), or in Live the ceiling alone."""
LatencyUnknown = Literal["NoWindows", "WindowsOpen"]
"""Why a mean wall latency is unknown. NoWindows: there is no window to measure it on; WindowsOpen: too many windows are
still open, so that only a minimum is known."""
RunEnd = Literal["Once", "AvailableNow", "AtBound", "Closed"]
"""How a run ends by itself. Once: after one batch; AvailableNow: when all that its sources had is read; AtBound: then a
closing step has moved the watermark to the bound behind the newest rows; Closed: then one has moved it by the clock."""
PartitionState = Literal["Active", "Idle", "Behind", "Gone"]
"""State of a partition. Idle: it used to report and is silent; Behind: its rows trail by more than the bound, or the
source has rows of it that are not read; Gone: no row of it within the horizon; Active: none of these."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendDelay:
    """How long after their event times the rows of a batch were appended to the source, by the source's timestamps."""

    __pydantic_config__: ClassVar[dict[str, Any]] = WIRE

    rows: Annotated[int, Gt(0), Le(MAX_ROWS)]
    """Rows that have both an event time and a timestamp of the source."""
    min_us: TimeUs
    """Minimum difference, timestamp minus event time, in microseconds; negative for a future-dated event."""
    mean_us: TimeUs
    """Mean difference in microseconds, rounded down."""
    max_us: TimeUs
    """Maximum difference in microseconds."""
    by_broker: bool
    """Whether every timestamp is the broker's (Kafka's LogAppendTime), not the producer's (CreateTime)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveState:
    """What the fast policy in the driver did, as of the end of the batch."""

    __pydantic_config__: ClassVar[dict[str, Any]] = WIRE

    ceiling_ms: DurationMs
    """The static bound that the job falls back to, in milliseconds."""
    control_ms: TimeMs | None
    """The newest watermark that Live required, in milliseconds; null before the first."""
    reason: str
    """Why this watermark, in one sentence."""
    failure: str | None = None
    """What keeps Live from deciding as it should, and what holds instead; null while nothing does."""
    behind: Annotated[tuple[Annotated[str, MaxLen(200)], ...], MaxLen(100_000)] = ()
    """Partitions with a backlog: rows in the source that the query has not read yet."""
    idle: Annotated[tuple[Annotated[str, MaxLen(200)], ...], MaxLen(100_000)] = ()
    """Partitions that are idle, without a backlog, and do not hold the watermark back."""
    ceiling_used_ppm: Count = 0
    """Distance of the watermark from the stream's base as a share of the ceiling, in parts per million."""
    last_contact_us: TimeUs | None = None
    """Wall time of the controller's last answer, in microseconds since the epoch; null before the first."""
    pin: Pin | None = None
    """What a pin holds the job to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What one micro-batch of one stream read: the unit of evidence, idempotent by (query id, batch id)."""

    __pydantic_config__: ClassVar[dict[str, Any]] = WIRE

    schema_version: Literal[1]
    """Version of this schema."""
    job: Name
    """Name of the job, as in ``spark.tidemark.job``."""
    stream: Name
    """Name of the event-time input within the job."""
    query_id: _Identifier
    """Spark's persistent id of the query; it survives restarts from the same checkpoint."""
    run_id: _Identifier
    """Spark's id of this run of the query."""
    batch_id: Count
    """Spark's batch id, which counts no-data batches too."""
    started_us: TimeUs
    """Wall time at which the batch was triggered, in microseconds since the epoch."""
    duration_ms: DurationMs
    """How long the batch took, in milliseconds."""
    operator: Operator
    """The stateful operator; it determines what the watermark is compared with."""
    output_mode: OutputMode
    """Spark's output mode."""
    bound_ms: DurationMs
    """The lateness bound in milliseconds: Spark's delayThreshold in the plan of this run, or that of first versions."""
    generation: Count | None
    """Generation of the bound that was applied; null when the bound is the job's own."""
    late_watermark_ms: TimeMs | None
    """The watermark the late filter used in this batch, W(n-1), in milliseconds; null when it is unknown."""
    watermark_ms: TimeMs
    """The watermark in force in this batch, W(n), in milliseconds: it evicts state, or puts out first versions."""
    late_base_ms: TimeMs | None
    """Maximum event time of this run's batches that the late filter's watermark covers, floored to milliseconds."""
    granule_us: Annotated[int, Ge(1_000), Le(MAX_TIME_US)]
    """Width of an event-time granule in microseconds."""
    closed: Closed
    """Which edge belongs to a granule: left is [i*g, (i+1)*g), right is (i*g, (i+1)*g]."""
    rows: Annotated[int, Ge(0), Le(MAX_ROWS)]
    """Rows that reached the tap in this batch, counted by Spark."""
    null_rows: Annotated[int, Ge(0), Le(MAX_ROWS)]
    """Rows without an event time among them; they are never late."""
    min_event_time_us: TimeUs | None
    """Minimum event time of the batch in microseconds, to the granule, without future-dated rows; null without any."""
    max_event_time_us: TimeUs | None
    """Maximum event time of the batch in microseconds, to the granule if rows were future-dated; null without any."""
    state_rows: Count
    """Rows in the query's state stores after the batch."""
    state_bytes: Count
    """Memory of the query's state stores after the batch, in bytes."""
    dropped_by_spark: Count
    """Spark's numRowsDroppedByWatermark, which counts partial aggregates, not rows; for comparison only."""
    counts: GranuleCounts
    """Counts by partition and granule. Empty when they could not be counted exactly (rows still gives their number)."""
    dropped_reports: Count = 0
    """Reports that this driver has dropped so far: its queue was full, or they were rejected."""
    append_delay: AppendDelay | None = None
    """How late rows were appended to the source; null when the job names no column for it."""
    live: LiveState | None = None
    """What the fast policy did; null unless the job runs in Live."""
    contradiction: Annotated[str, MaxLen(1_000)] | None = None
    """Why no row is judged: the plan contradicts the call, or shows no operator; null when rows are judged."""
    reread: bool = False
    """Whether the first report was lost and the job read the batch again: its state is not known then, and reads 0."""
    final_watermark_ms: TimeMs | None = None
    """With ``late=revise(...)`` the watermark at or below which Spark dropped rows, W(n-1) of the plan, in
    milliseconds: late rows above it corrected a window, and ``late_watermark_ms`` is of first versions; else null."""
    drops_late: bool = True
    """Whether Spark drops late rows: in complete mode an aggregate by windows drops none, and one by sessions does."""
    sent_us: TimeUs | None = None
    """Wall time of the driver as it sent this, in microseconds since the epoch, by which its clock is compared with the
    controller's; null when it is not known. Another one at each try: what is compared and stored of a report is
    without."""

    def __post_init__(self) -> None:
        """Reject what cannot be judged: the ledger is exact only for what passes here."""
        if self.closed != self.operator.closed or not self.operator.granule_fits(self.granule_us):
            raise ValueError(
                f"granule_us {self.granule_us}, closed {self.closed!r}: granules of a {self.operator} are closed on "
                f"the {self.operator.closed} and, for windows, divide size, slide and start"
            )
        if self.uncounted_rows < 0:
            raise ValueError(
                f"rows {self.rows}: partitions count {self.counted_rows} rows, and {self.null_rows} have no event time"
            )

    @property
    def counted_rows(self) -> int:
        """Rows in ``counts``."""
        return sum(self.counts.rows)

    @property
    def uncounted_rows(self) -> int:
        """Rows with an event time that are in no granule's count: the top-k overflowed, so their fate is unknown."""
        return self.rows - self.null_rows - self.counted_rows


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    """What a run of a job applied."""

    __pydantic_config__: ClassVar[dict[str, Any]] = WIRE

    query_id: _Identifier
    """Spark's persistent id of the query."""
    run_id: _Identifier
    """Spark's id of the run that applied the bound."""
    bound_ms: DurationMs
    """The bound in the plan, in milliseconds."""
    generation: Count | None
    """Generation of the bound; null when it is the job's own."""
    source: BoundSource
    """Where the bound came from: the controller, the last good one on disk, or the job's own default."""
    applied_us: TimeUs
    """Wall time at which the run first used the bound, in microseconds since the epoch."""
    ceiling_ms: DurationMs | None = None
    """The ceiling in the plan, in milliseconds; null when the job cannot run in Live."""
    run_end: RunEnd | None = None
    """How the run ends by itself; null when it does not, or when that is not known."""
    spark_ui: Annotated[str, MaxLen(MAX_TEXT)] | None = None
    """Address of the run's page in Spark's UI, by http or https; null without one."""
    called: bool = True
    """Whether the job calls ``adaptive_watermark``; false for one that nobody edited."""
    conf_left_out: Annotated[str, MaxLen(MAX_TEXT)] | None = None
    """What of the job's conf is left out because it does not fit the stream, and why; null for nothing."""

    def __post_init__(self) -> None:
        """Reject what a page must not link to."""
        if self.spark_ui is not None and not self.spark_ui.startswith(("http://", "https://")):
            raise ValueError("spark_ui begins neither with http:// nor with https://")


@dataclass(frozen=True, slots=True, kw_only=True)
class Acknowledgement(Applied):
    """What a run of a job actually applied, and what follows from it."""

    mode: Mode
    """The mode the job believes it is in."""
    downstream: Downstream | None = None
    """What the bound decides behind the stream's own operator; null when nothing, or when it is not known."""
    late: LateTreatment = DROPPED
    """What becomes of late rows."""
    reads: Name | None = None
    """Source and event-time column of the stream, where nobody named it; null where somebody did."""
    datasets: Datasets = NO_DATASETS
    """What is read into the stream, and what its query writes to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Envelope:
    """The target and the limits that the controller sets for the fast policy of a live job."""

    __pydantic_config__: ClassVar[dict[str, Any]] = WIRE

    target_ppm: Annotated[int, Gt(0), Lt(1_000_000)] | None = None
    """Share of (row, window) pairs to be admitted, in parts per million; null: each partition follows the bound."""
    latency_cap_ms: Count | None = None
    """Maximum time that a window may wait for its rows, in milliseconds; null for no cap."""
    min_bound_ms: DurationMs | None = None
    """The watermark stays at least this far behind every active partition, in milliseconds; null for no limit."""
    max_bound_ms: DurationMs | None = None
    """The watermark stays at most this far behind every active partition, in milliseconds; null: the ceiling."""


@dataclass(frozen=True, slots=True)
class PublishedAnswer:
    """What is published to a job, and why."""

    __pydantic_config__: ClassVar[dict[str, Any]] = WIRE

    mode: Mode
    """The stream's mode; in Off there is never a bound."""
    bound_ms: DurationMs | None
    """The bound to apply in milliseconds; null when the job is to keep its own."""
    reason: str
    """Why this bound, or why none, in one sentence."""
    envelope: Envelope | None = None
    """In Live: target and limits of the job's fast policy; null in every other mode."""
    pin: Pin | None = None
    """What a pin holds the job to; null for none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundAnswer(PublishedAnswer):
    """The bound that a job is to use, or the reason why there is none."""

    job: Name
    """Name of the job."""
    stream: Name
    """Name of the stream."""
    generation: Count
    """Increases with each change of this answer; 0 before the first."""


def read_report(value: object) -> Report:
    """Return the report in a decoded JSON ``value``, as ``to_json_object`` made it.

    Raises:
        ValueError: when this release cannot read it.
    """
    if not isinstance(value, dict) or value.get("schema_version") != REPORT_SCHEMA:
        raise ValueError("a report of another version")
    return read_object(Report, value)


READ_AS: Final[Mapping[str, str | None]] = {
    "mode": "Off",
    "source": "job",
    "pin": "Ceiling",
    "in_force": None,
    "run_end": None,
}
"""By field, as what a reader takes a value that only a later release knows: what moves no bound and claims nothing."""


def read_bound_answer(value: object) -> BoundAnswer:
    """Return the answer in a decoded JSON ``value`` from the wire or from disk, which may be anything.

    With a mode that only a later release knows the job keeps its own bound, as in Off; a pin that only that one knows
    holds it to its ceiling. The reason says so.

    Raises:
        ValueError: when this release cannot act on it.
    """
    answer = read_object(BoundAnswer, value)
    envelope = answer.envelope
    limits = [answer.bound_ms, *(asdict(envelope).values() if envelope else ())]
    numbers = [answer.generation, *(number for number in limits if number is not None)]
    usable = all(type(number) is int and 0 <= number <= MAX_COUNT for number in numbers)
    # Nobody has checked them.
    mode, pin = cast("object", answer.mode), cast("object", answer.pin)
    if not usable or not isinstance(mode, str) or not isinstance(pin, str | None):
        raise ValueError(f"not a usable bound: {value}")
    notes = []
    if mode not in get_args(Mode):
        notes.append(f"mode {mode!r} is of a later release: the job keeps its own bound")
        answer = replace(answer, mode="Off", bound_ms=None, envelope=None)
    if pin not in {None, *get_args(Pin)}:
        notes.append(f"pin {pin!r} is of a later release: the job is held to its ceiling, or its own bound")
        answer = replace(answer, pin="Ceiling")
    return replace(answer, reason="; ".join(notes)) if notes else answer


def to_json_object(value: Report | Acknowledgement | BoundAnswer) -> dict[str, Any]:
    """Return ``value`` as the object that goes over the wire."""
    plain: dict[str, Any] = _plain(value)
    return plain


def _plain(value: Any) -> Any:
    # As ``dataclasses.asdict``, which copies each of a report's thousands of numbers.
    kind = type(value)
    if kind is int or kind is str or value is None:
        return value
    if kind is tuple:
        return tuple(map(_plain, value)) if value and is_dataclass(value[0]) else value
    if is_dataclass(kind):
        return {name: _plain(getattr(value, name)) for name in _names(kind)}
    return value


@cache
def _names(kind: type[Any]) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind))


@dataclass(frozen=True, slots=True)
class AppliedState:
    """What a job last reported that it applies; each field is None when it reported nothing of the kind."""

    generation: int | None = None
    """Generation that it acknowledged last; None also when it applies its own bound."""
    bound_ms: int | None = None
    """The bound that it acknowledged."""
    mode: Mode | None = None
    """The mode in which it did."""
    last_contact_us: int | None = None
    """When its live policy last received an answer of the controller, in microseconds."""


def has_applied(
    applied: AppliedState, *, generation: int, mode: Mode, bound_ms: int | None, published_us: int
) -> bool:
    """Return whether a job applies what is published: ``generation``, with this mode and bound (None: its own)."""
    if mode == "Live":
        # A live run acknowledges once, and applies every later answer as soon as it receives it.
        return (applied.last_contact_us is not None and applied.last_contact_us >= published_us) or (
            applied.generation == generation and applied.mode == "Live"
        )
    # Whatever its generation: who has the bound need not do anything, and a restored store may give a number out again.
    return bound_ms is None or (applied.generation is not None and applied.bound_ms == bound_ms)
