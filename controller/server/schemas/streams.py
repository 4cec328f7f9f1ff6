"""The status of one stream."""

from __future__ import annotations

from dataclasses import dataclass, field

from tidemark.controller.base.answer import Answer, OfStream
from tidemark.controller.server.schemas.bounds import Published, RecommendationAnswer
from tidemark.controller.server.schemas.rollouts import RolloutAnswer
from tidemark.controller.server.schemas.specs import SloAnswer
from tidemark.controller.view.state.answers import Budget, Condition
from tidemark.models.evidence.completeness import EvidenceCounts, LedgerCompleteness
from tidemark.models.live.kept import KeptLive
from tidemark.models.protocol.late_policy import LatePolicy, LateRows
from tidemark.models.protocol.messages import AppendDelay, Applied, Mode
from tidemark.models.recommend.promise import ProvisionalBound, Transition
from tidemark.models.specs.pin import StoredPin


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence(EvidenceCounts):
    """What is known of the stream over the horizon."""

    rows_needed: int | None
    """Minimum number of rows to certify the SLO's target at its confidence: enough independent events, times how many
    rows share their fate; null without an SLO."""
    early_rows: int
    """Rows before the first watermark: admitted under any bound, so they have no need."""
    horizon_ms: int
    """How far back it counts from the newest batch, in milliseconds."""


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Completeness(LedgerCompleteness):
    """What the ledger says of the pairs that arrived over the horizon."""

    min_ppm: int | None
    """Minimum share admitted, in parts per million, rounded down; null without rows."""
    max_ppm: int | None
    """Maximum share admitted, in parts per million, rounded down; null without rows."""
    exact: bool = field()
    """Whether the share is exact: no doubtful pair, no unjudged row, no missing batch."""
    provisional: bool
    """Whether rows can still be admitted to windows (or minutes) that the watermark has not passed."""


class LateStatus(Answer):
    """What becomes of a stream's late rows: by the policy, and in its job."""

    policy: LatePolicy | None
    """What the policy says; null for what the job's call says."""
    in_force: LateRows | None
    """What the job does, as it acknowledged it; null when that is not known."""
    choices: list[LateRows]
    """What the job's call can do; a policy can change it to one of these but revise. Empty when not known."""
    text: str
    """The same in words."""


class Notified(Answer):
    """Where a stream's alerts go, by its labels and the controller's destinations."""

    labels: dict[str, str]
    """Labels of the stream by name, which its policy has."""
    destinations: list[str]
    """Names of the destinations that take some of its alerts, or all."""
    unrouted: list[str]
    """Names of its alerts that no destination takes."""


class StreamStatus(OfStream):
    """All that is known of one stream."""

    summary: str
    """What holds now and what it waits for, in one sentence, made anew for each answer."""
    mode: Mode
    """Its mode."""
    registered_us: int | None
    """When its first report came, in microseconds since the epoch; null while it is only expected."""
    slo: SloAnswer | None
    """Its SLO; null when none is set."""
    recommended: RecommendationAnswer | None
    """The newest recommendation; null before the first."""
    provisional_bound: ProvisionalBound | None
    """Where the recommended bound will lie, as an estimate, for a side of a join that of all its sides; null without an
    SLO or rows, and once there is enough evidence to act on."""
    transition: Transition | None
    """What a change from the bound in use to the recommended one will do; null without a recommended bound."""
    published: Published
    """What is published to the job."""
    applied: Applied | None
    """What the job last acknowledged; null before the first acknowledgement."""
    links_to_spark_ui: bool
    """Whether the page may link to `applied.spark_ui`: its host is one of TIDEMARK_LINK_HOSTS."""
    in_use_bound_ms: int | None
    """The bound in the plan of the newest batch, in milliseconds; null before the first report."""
    effective_bound_ms: int | None
    """How far the watermark really trails the maximum event time, in milliseconds; null when unknown."""
    windows_per_row: int | None
    """Maximum number of windows that a row is in; above 1 for sliding windows, where completeness, evidence and budget
    count (row, window) pairs; null before the first report."""
    pin: StoredPin | None
    """The kill switch that holds the stream; null for none."""
    frozen_until_us: int | None
    """When the freeze window of the policy ends that holds now, in microseconds since the epoch: until then nothing is
    narrowed; null when none holds, and in mode Off."""
    live: KeptLive | None
    """What the fast policy did; null unless the newest batch ran in Live."""
    append_delay: AppendDelay | None
    """How late rows were appended to the source; null when the job names no column for it."""
    late: LateStatus
    """What becomes of late rows."""
    evidence: Evidence
    """What the recommendation rests on."""
    coverage: list[QueryCoverage]
    """By query, which batches were reported."""
    completeness: Completeness
    """What the ledger says."""
    budget: Budget | None
    """How many rows may still be lost over the SLO's window; null without an SLO or without reports."""
    rollout: RolloutAnswer | None
    """The newest rollout; null before the first."""
    notified: Notified | None
    """Whom the controller notifies of the stream's alerts; null where it notifies nobody, such as beside Prometheus."""
    conditions: list[Condition]
    """What somebody should know, the worst first."""
