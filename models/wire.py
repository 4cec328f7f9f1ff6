"""The wire types: what a job says to the controller and what it hears back.

They are plain frozen dataclasses so that a Spark driver needs no validation library; the controller validates the
same classes strictly (unknown fields are refused) and generates its OpenAPI document from them. Times are integer
microseconds or milliseconds with the unit in the name; there is no float.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields, is_dataclass
from functools import cache
from operator import lt
from typing import Annotated, Any, ClassVar, Literal, get_args

from annotated_types import Ge, Gt, Le, Lt, MaxLen, MinLen

from tidemark.models.operators import Closed, Operator

__all__ = [
    "REPORT_SCHEMA",
    "STRICT",
    "Acknowledgement",
    "AppendDelay",
    "BoundAnswer",
    "BoundSource",
    "ChangeKind",
    "Envelope",
    "LatencyUnknown",
    "LiveState",
    "Mode",
    "Name",
    "OutputMode",
    "PartitionCounts",
    "PartitionState",
    "Pin",
    "Report",
    "ScopeKind",
    "read_bound_answer",
    "to_json_object",
]

REPORT_SCHEMA = 1
"""The version of ``Report``. A controller refuses a version it does not know instead of reading it wrongly."""

# pydantic reads this attribute from plain dataclasses; it is data, so the driver needs no pydantic.
STRICT: dict[str, Any] = {"extra": "forbid", "strict": True, "use_attribute_docstrings": True}
"""How the controller validates these classes: no unknown field, no conversion, attribute docstrings as descriptions."""

Name = Annotated[str, MinLen(1), MaxLen(200)]
Identifier = Annotated[str, MinLen(1), MaxLen(64)]
Count = Annotated[int, Ge(0), Le(2**63 - 1)]
Time = Annotated[int, Ge(-(2**63)), Le(2**63 - 1)]
Mode = Literal["Off", "OnRestart", "Restart", "Live"]
OutputMode = Literal["append", "update", "complete"]
BoundSource = Literal["controller", "disk", "job"]
Pin = Literal["Off", "Ceiling"]
"""What a kill switch holds a job to: its own bound (Off), or in Live the ceiling alone."""
ScopeKind = Literal["fleet", "job", "stream"]
"""What a kill switch is set on."""
ChangeKind = Literal["widen", "narrow", "same"]
"""Which way a change of the bound goes."""
LatencyUnknown = Literal["NoWindows", "WindowsOpen"]
"""Why a mean wall latency is unknown. NoWindows: there is no window to measure it on; WindowsOpen: too many windows are
still open, so that only a minimum is known."""
PartitionState = Literal["Active", "Idle", "Behind", "Gone"]
"""State of a partition. Idle: it used to report and is silent; Behind: its rows trail by more than the bound, or the
source has rows of it that are not read; Gone: no row of it within the horizon; Active: none of these."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionCounts:
    """One partition's rows in one batch, counted by event-time granule (its cohorts)."""

    __pydantic_config__: ClassVar[dict[str, Any]] = STRICT

    partition: Annotated[str, MaxLen(200)]
    """Name of the partition: the Kafka partition's number, or the value of the column the job named."""
    granules: Annotated[tuple[Time, ...], MaxLen(100_000)]
    """Indexes of the event-time granules that rows fell into, ascending and distinct."""
    counts: Annotated[tuple[Annotated[int, Gt(0)], ...], MaxLen(100_000)]
    """Rows in each of ``granules``, in the same order."""
    future_rows: Count = 0
    """Rows among them that were dated ahead of the clock and set back to it before the watermark could see them."""

    def __post_init__(self) -> None:
        """Refuse lists that do not pair up."""
        if len(self.granules) != len(self.counts):
            raise ValueError(
                f"partition {self.partition!r}: {len(self.granules)} granules but {len(self.counts)} counts"
            )
        if not all(map(lt, self.granules, self.granules[1:])):
            raise ValueError(f"partition {self.partition!r}: granules must be ascending and distinct")

    @property
    def rows(self) -> int:
        """Rows of the partition in the batch."""
        return sum(self.counts)


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendDelay:
    """How long after their event times the rows of a batch were appended to the source, by the source's timestamps."""

    __pydantic_config__: ClassVar[dict[str, Any]] = STRICT

    rows: Annotated[int, Gt(0)]
    """Rows that have both an event time and a timestamp of the source."""
    min_us: Time
    """Least difference, timestamp minus event time, in microseconds; negative where the event is dated ahead."""
    mean_us: Time
    """Mean difference in microseconds, rounded down."""
    max_us: Time
    """Greatest difference in microseconds."""
    by_broker: bool
    """Whether every timestamp is the broker's (Kafka's LogAppendTime), not the producer's (CreateTime)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveState:
    """What the fast policy in the driver did, as of the end of the batch."""

    __pydantic_config__: ClassVar[dict[str, Any]] = STRICT

    ceiling_ms: Count
    """The static bound that the job falls back to, in milliseconds."""
    control_ms: Time | None
    """The watermark that the control stream offered last, in milliseconds; null before the first."""
    reason: str
    """Why this one, in one sentence."""
    behind: Annotated[tuple[Annotated[str, MaxLen(200)], ...], MaxLen(100_000)] = ()
    """Partitions with a backlog: rows that the source has and the query has not read yet."""
    idle: Annotated[tuple[Annotated[str, MaxLen(200)], ...], MaxLen(100_000)] = ()
    """Partitions that are idle, without a backlog, and hold nothing back."""
    ceiling_used_ppm: Count = 0
    """Distance of the watermark from the stream's base as a share of the ceiling, in parts per million."""
    last_contact_us: Time | None = None
    """Wall time of the controller's last word, in microseconds since the epoch; null when it has never been heard."""
    pin: Pin | None = None
    """What a kill switch holds the job to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What one micro-batch of one stream saw: the unit of evidence, idempotent by (query id, batch id)."""

    __pydantic_config__: ClassVar[dict[str, Any]] = STRICT

    schema_version: Literal[1]
    """Version of this schema."""
    job: Name
    """Name of the job, as in ``spark.tidemark.job``."""
    stream: Name
    """Name of the event-time input within the job."""
    query_id: Identifier
    """Spark's persistent id of the query; it survives restarts from the same checkpoint."""
    run_id: Identifier
    """Spark's id of this run of the query."""
    batch_id: Count
    """Spark's batch id, which counts no-data batches too."""
    started_us: Time
    """Wall time at which the batch was triggered, in microseconds since the epoch."""
    duration_ms: Count
    """How long the batch took, in milliseconds."""
    operator: Operator
    """The stateful operator that the bound serves; it decides what the watermark is compared with."""
    output_mode: OutputMode
    """Spark's output mode. In complete mode nothing is ever late."""
    bound_ms: Annotated[int, Ge(0)]
    """The lateness bound in the plan of this run (Spark's delayThreshold), in milliseconds."""
    generation: Count | None
    """Generation of the bound that was applied; null when the bound is the job's own."""
    late_watermark_ms: Time | None
    """The watermark the late filter used in this batch, W(n-1), in milliseconds; null when it could not be learned."""
    watermark_ms: Time
    """The watermark in force in this batch, W(n), in milliseconds: what it evicts by."""
    late_base_ms: Time | None
    """Greatest event time of this run's batches whose watermark the late filter could know, floored to milliseconds."""
    granule_us: Annotated[int, Ge(1_000)]
    """Width of an event-time granule in microseconds."""
    closed: Closed
    """Which edge belongs to a granule: left is [i*g, (i+1)*g), right is (i*g, (i+1)*g]."""
    rows: Count
    """Rows that reached the tap in this batch, counted by Spark."""
    null_rows: Count
    """Rows without an event time among them; a watermark never calls them late."""
    min_event_time_us: Time | None
    """Least event time of the batch in microseconds, to the granule, rows dated ahead apart; null without any"""
    max_event_time_us: Time | None
    """Greatest event time of the batch in microseconds, to the granule if rows were dated ahead; null without any."""
    partitions: Annotated[tuple[PartitionCounts, ...], MaxLen(100_000)]
    """Counts by partition and granule. Empty when they could not be counted exactly (then rows says how many)."""
    state_rows: Count
    """Rows in the query's state stores after the batch."""
    state_bytes: Count
    """Memory of the query's state stores after the batch, in bytes."""
    dropped_by_spark: Count
    """Spark's numRowsDroppedByWatermark, which counts partial aggregates and not rows; kept to be compared."""
    dropped_reports: Count = 0
    """Reports this driver has dropped so far because the controller could not be reached."""
    append_delay: AppendDelay | None = None
    """How late rows were appended to the source; null when the job names no column for it."""
    live: LiveState | None = None
    """What the fast policy did; null unless the job runs in Live."""
    contradiction: Annotated[str, MaxLen(1_000)] | None = None
    """How the query's plan contradicts the declared operator; null when nothing of the kind is known."""

    def __post_init__(self) -> None:
        """Refuse what cannot be judged: the ledger's exactness rests on it."""
        names = [part.partition for part in self.partitions]
        if len(set(names)) != len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise ValueError(f"partitions: {twice!r} is given more than once")
        if self.closed != self.operator.closed or not self.operator.granule_fits(self.granule_us):
            raise ValueError(
                f"granule_us {self.granule_us}, closed {self.closed!r}: granules of a {self.operator} are closed on "
                f"the {self.operator.closed} and, for windows, divide size, slide and start"
            )
        if self.uncounted_rows < 0:
            raise ValueError(
                f"rows {self.rows}: partitions count {self.counted_rows} rows, beside {self.null_rows} without a time"
            )

    @property
    def counted_rows(self) -> int:
        """Rows in ``partitions``."""
        return sum(part.rows for part in self.partitions)

    @property
    def uncounted_rows(self) -> int:
        """Rows with an event time that no granule's count holds: the top-k overflowed, so their fate is unknown."""
        return self.rows - self.null_rows - self.counted_rows


@dataclass(frozen=True, slots=True, kw_only=True)
class Acknowledgement:
    """What a run of a job really applied."""

    __pydantic_config__: ClassVar[dict[str, Any]] = STRICT

    query_id: Identifier
    """Spark's persistent id of the query."""
    run_id: Identifier
    """Spark's id of the run that applied the bound."""
    bound_ms: Annotated[int, Ge(0)]
    """The bound in the plan, in milliseconds."""
    generation: Count | None
    """Generation of the bound; null when it is the job's own."""
    source: BoundSource
    """Where the bound came from: the controller, the last good one on disk, or the job's own default."""
    mode: Mode
    """The mode the job believes it is in."""
    applied_us: Time
    """Wall time at which the run first used the bound, in microseconds since the epoch."""
    ceiling_ms: Count | None = None
    """The ceiling in the plan, in milliseconds; null when the job cannot run in Live."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Envelope:
    """What the controller asks of, and allows, the fast policy of a live job."""

    __pydantic_config__: ClassVar[dict[str, Any]] = STRICT

    target_ppm: Annotated[int, Gt(0), Lt(1_000_000)] | None = None
    """Share of (row, window) pairs to be admitted, in parts per million; null: each partition keeps to the bound."""
    latency_cap_ms: Count | None = None
    """Longest that a window may wait for its rows, in milliseconds; null for no cap."""
    min_bound_ms: Count | None = None
    """The watermark stays at least this far behind every active partition, in milliseconds; null for no limit."""
    max_bound_ms: Count | None = None
    """The watermark stays at most this far behind every active partition, in milliseconds; null: the ceiling."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundAnswer:
    """The bound a job is to use, or the reason why there is none."""

    __pydantic_config__: ClassVar[dict[str, Any]] = STRICT

    job: Name
    """Name of the job."""
    stream: Name
    """Name of the stream."""
    mode: Mode
    """The stream's mode; in Off there is never a bound."""
    generation: Count
    """Grows with each change of what this answer says; 0 before the first."""
    bound_ms: Annotated[int, Ge(0)] | None
    """The bound to apply in milliseconds; null when the job is to keep its own."""
    reason: str
    """Why this bound, or why none, in one sentence."""
    envelope: Envelope | None = None
    """In Live: what the job's fast policy is to do; null in every other mode."""
    pin: Pin | None = None
    """What a kill switch holds the job to; null for none."""


_MOST = 2**53
"""Greatest bound in milliseconds (and generation) that is believed; Spark's interval could not hold much more."""


def read_bound_answer(value: object) -> BoundAnswer:
    """Return the answer in a decoded JSON ``value``, from the wire or from disk, where anything may stand.

    Raises:
        ValueError: when it is no answer that this release can act on.
    """
    if not isinstance(value, dict):
        raise ValueError(f"a bound is an object, not {type(value).__name__}")  # noqa: TRY004 - it is JSON, not a call
    found = value.get("envelope")
    try:
        envelope = None if found is None else Envelope(**found)
        answer = BoundAnswer(**{**value, "envelope": envelope})
    except TypeError as error:
        raise ValueError(f"a bound of another version: {error}") from None
    given = [answer.bound_ms, *(asdict(envelope).values() if envelope else ())]
    numbers = [answer.generation, *(number for number in given if number is not None)]
    usable = all(type(number) is int and 0 <= number <= _MOST for number in numbers)
    if not usable or answer.mode not in get_args(Mode) or answer.pin not in {None, *get_args(Pin)}:
        raise ValueError(f"not a usable bound: {value}")
    return answer


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
