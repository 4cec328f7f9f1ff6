"""What the controller answers: closed objects, whole numbers with their unit in the name, null for the unknown."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict

from tidemark.controller.access.roles import Role
from tidemark.models.progress import PartitionState
from tidemark.models.rollout.facts import Cause, Gate
from tidemark.models.rollout.machine import Act
from tidemark.models.rollout.states import State
from tidemark.models.slo import Approval, Day, Direction, Objective, OnNoData, Yields
from tidemark.models.wire import BoundSource, ChangeKind, Envelope, Mode, Pin, ScopeKind

__all__ = [
    "AcknowledgementFacts",
    "AcknowledgementPage",
    "Answer",
    "AppendDelaySeen",
    "Applied",
    "Approved",
    "BoundPage",
    "Budget",
    "Completeness",
    "Condition",
    "ConditionType",
    "Consequences",
    "Curve",
    "CurveBasis",
    "CurvePoint",
    "Event",
    "EventEvidence",
    "EventPage",
    "Evidence",
    "FleetPage",
    "FleetPartitions",
    "FleetRollout",
    "FleetStream",
    "FleetTotals",
    "Freeze",
    "Health",
    "HealthCheck",
    "Heatmap",
    "HeatmapCell",
    "HeatmapPartition",
    "History",
    "HistoryRollout",
    "HistorySlot",
    "JobCondition",
    "JobPage",
    "JobStatus",
    "JobSummary",
    "Live",
    "MissingRange",
    "ModeCount",
    "Operating",
    "Partition",
    "PartitionPage",
    "PinAnswer",
    "PinInForce",
    "PinPage",
    "PinSummary",
    "PinnedStream",
    "PolicyAnswer",
    "PolicySet",
    "Prediction",
    "PredictionPage",
    "Preview",
    "Problem",
    "ProblemItem",
    "Promise",
    "Proof",
    "Published",
    "PublishedBound",
    "QueryCoverage",
    "Realised",
    "Receipt",
    "Recommended",
    "ReportDetail",
    "ReportFacts",
    "ReportPage",
    "ReportedPartition",
    "Rollout",
    "RolloutDetail",
    "RolloutPage",
    "SkewedPartition",
    "SloAnswer",
    "SloSet",
    "Step",
    "StreamPage",
    "StreamStatus",
    "StreamSummary",
    "TokenAnswer",
    "TokenMade",
    "TokenPage",
    "Transition",
    "WorstCount",
]


class Answer(BaseModel):
    """Base of all answers."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)


class ProblemItem(Answer):
    """One thing that is wrong with a request."""

    pointer: str
    """JSON pointer into the body (empty: the whole body), or the name of a parameter."""
    detail: str
    """What is wrong there."""


class Problem(Answer):
    """A problem document (RFC 9457)."""

    type: str
    """Stable name of the kind of problem, a URI; about:blank when the status says it all."""
    title: str
    """The kind of problem in a few words."""
    status: int
    """HTTP status."""
    detail: str
    """What was wrong this time."""
    instance: str | None = None
    """Path of the request."""
    errors: list[ProblemItem] | None = None
    """What is wrong where; missing when it is not about a part of the request."""
    known_versions: list[int] | None = None
    """Schema versions that this release reads; only where an unknown one is the problem."""


class SloAnswer(Answer):
    """The SLO of a stream as it stands."""

    target: str
    """Share of (row, window) pairs to be admitted, as the shortest decimal string."""
    target_ppm: int
    """The same in parts per million."""
    latency_cap_ms: int | None
    """Greatest mean emit latency allowed, in milliseconds; null for no cap."""
    yields: Yields | None
    """Which constraint gives way when no bound meets all; null: none."""
    confidence_ppm: int
    """Confidence with which the target must be certified, in parts per million."""
    horizon_ms: int
    """How far back evidence counts, in milliseconds."""
    objective: Objective
    """occurrences: the target is a share of all rows; timeslices: a share of the windows must reach it, each."""
    slices_ppm: int
    """Under timeslices: share of the windows that must reach the target, in parts per million."""
    window_ms: int
    """Rolling window over which the budget counts, in milliseconds."""
    state_cap_rows: int | None
    """Most rows of state allowed; null for no cap."""
    worst_window_ppm: int | None
    """Least completeness that every single window must keep, in parts per million; null for no floor."""
    generation: int
    """How often the SLO was changed; also its ETag."""
    updated_us: int | None
    """When it was last changed, in microseconds since the epoch."""


class Freeze(Answer):
    """Minutes of a week, in UTC, in which nothing is narrowed."""

    days: list[Day]
    """Days of the week."""
    from_minute: int
    """First minute of the day, 0 being midnight UTC."""
    to_minute: int
    """Minute of the day at which it ends, itself not in it."""


class PolicyAnswer(Answer):
    """The policy of a stream as it stands."""

    mode: Mode
    """Off watches only; OnRestart gives the job its bound when it next starts; Restart has the runner start it again;
    Live steers it without a restart."""
    least_bound_ms: int
    """The bound is never narrower than this, in milliseconds."""
    greatest_bound_ms: int | None
    """The bound is never wider than this, in milliseconds; null for no limit."""
    directions: list[Direction]
    """Which ways the bound may be changed."""
    margin_ppm: int
    """What is added to the bound that rows ask for, as a share of it, in parts per million."""
    dwell_ms: int
    """Least time between two published narrowings, in milliseconds."""
    most_narrowings_a_day: int | None
    """Most narrowings that are published within any 24 hours; null for no limit."""
    most_narrowing_ppm: int | None
    """Most by which one rollout narrows, as a share of the bound in use, in parts per million; null for no limit."""
    freeze_windows: list[Freeze]
    """When nothing is narrowed, in UTC."""
    paused: bool
    """Whether nothing new is rolled."""
    on_no_data: OnNoData
    """What a job whose reports stopped is told: hold the bound, the greatest bound, or its own."""
    approval: Approval
    """Which rollouts wait for a person: none, those that narrow, or all."""
    generation: int
    """How often the policy was changed, 0 for the default; also its ETag."""
    updated_us: int | None
    """When it was last changed, in microseconds since the epoch; null for the default."""


class Receipt(Answer):
    """What became of a report or an acknowledgement: it is in the store."""

    job: str
    """Name of the job."""
    stream: str
    """Name of the stream."""
    received_us: int
    """When it was first received, in microseconds since the epoch."""
    duplicate: bool
    """Whether it had been received before; then nothing was changed."""


class Step(Answer):
    """One step of the reasons chain."""

    name: str
    """What was done."""
    bound_ms: int | None
    """The bound after the step, in milliseconds; null while there is none."""
    reason: str
    """Why, with the figures."""


class Recommended(Answer):
    """The newest recommendation."""

    bound_ms: int | None
    """The bound in milliseconds; null: keep the one in use."""
    generation: int | None
    """Generation under which jobs are told this bound; null while they are not."""
    decided_us: int
    """When it was made, in microseconds since the epoch."""
    current: bool
    """Whether it rests on the newest report and on the SLO and policy as they stand; if not, the next turn mends it."""
    steps: list[Step]
    """How it came about, first step to last."""


class Expected(Answer):
    """What is expected of a change of the bound; null is unknown."""

    from_bound_ms: int
    """The bound in use before it, in milliseconds."""
    bound_ms: int
    """The bound after it, in milliseconds."""
    stands_still_ms: int | None
    """How long the watermark stands still, in milliseconds; 0 when it moves on at once."""
    effective_us: int | None
    """When the watermark first moves on under the bound if the job restarts at once, in epoch microseconds."""
    windows_closing: int | None
    """Windows that its first move closes at once; null for operators without windows."""
    rows_closing: int | None
    """Rows admitted to them so far."""
    state_rows: int | None
    """Rows of state once it is in effect: an estimate, in proportion to the event time that is open."""
    state_bytes: int | None
    """Memory of the state then, in bytes: the same estimate."""
    rows: int
    """(Row, key) pairs that the completeness rests on."""
    late: int
    """How many of them would have been late."""
    completeness_ppm: int | None
    """Share that will be admitted, in parts per million, rounded down; null without rows."""
    least_ppm: int | None
    """Lower end of its interval at the SLO's confidence, in parts per million; rows are taken to be independent."""
    most_ppm: int | None
    """Upper end of it."""
    latency_base_ms: int | None
    """Mean over windows of the base at emission minus the window's end, in milliseconds."""
    latency_wall_ms: int | None
    """Mean over windows of the wall time of emission minus the window's end, in milliseconds."""
    text: str
    """The same as a sentence."""


class Transition(Expected):
    """What a change of the bound will do, as if the job restarted at the newest batch's end."""

    kind: ChangeKind
    """Whether it widens, narrows or leaves the bound in use."""
    at_us: int
    """From when it is counted: the end of the newest batch, in microseconds since the epoch."""


class Realised(Answer):
    """How a prediction came out, by the ledger."""

    became_effective_us: int | None
    """Trigger time of the first batch whose watermark moved on under the bound; null before it."""
    rows: int
    """(Row, key) pairs that met the bound in effect and were judged."""
    late_least: int
    """Pairs that were late for sure."""
    late_most: int
    """Pairs that may have been late."""
    completeness_ppm: int | None
    """Share that was admitted, in parts per million; null while too few rows have been judged."""
    error_ppm: int | None
    """That minus the share predicted, in parts per million: 10,000 are one point; null while it is not scored."""
    scored_us: int | None
    """When it was scored last, in microseconds since the epoch; null while it is not."""


class Prediction(Expected):
    """What was predicted when a bound was published, and how it came out."""

    generation: int
    """Generation under which the bound was published."""
    made_us: int
    """When it was made, in microseconds since the epoch."""
    realised: Realised
    """How it came out."""


class PredictionPage(Answer):
    """A page of predictions, the newest first."""

    predictions: list[Prediction]
    """The predictions."""
    least_rows: int
    """Pairs that must have been judged under a bound before its prediction is scored."""
    next_cursor: str | None
    """Where the next page begins; null on the last."""


class Published(Answer):
    """What a job that asks for its bound is told."""

    bound_ms: int | None
    """The bound in milliseconds; null: the job keeps its own."""
    generation: int
    """Grows with each change of mode, bound, envelope or pin; 0 before the first."""
    reason: str
    """Why, in one sentence."""
    envelope: Envelope | None
    """In Live: what the job's fast policy is to do; null in every other mode."""
    pin: Pin | None
    """What a kill switch holds the job to; null for none."""


class Applied(Answer):
    """What the job last said it applied."""

    bound_ms: int
    """The bound in the plan, in milliseconds."""
    generation: int | None
    """Generation of the bound; null when it is the job's own."""
    source: BoundSource
    """Where the bound came from."""
    query_id: str
    """Spark's persistent id of the query."""
    run_id: str
    """Spark's id of the run that applied it."""
    applied_us: int
    """When the run first used it, in microseconds since the epoch."""
    ceiling_ms: int | None
    """The ceiling in the plan, in milliseconds; null when the job cannot run in Live."""


class Consequences(Answer):
    """What follows from a write for what the job is told."""

    dry_run: bool
    """Whether the write was only tried: then nothing was changed, and this is what would follow."""
    recommended: Recommended | None
    """The recommendation after it; null while there is none."""
    transition: Transition | None
    """What going from the bound in use to the recommended one will do; null without a recommended bound."""
    published: Published
    """What a job that asks is told after it."""


class SloSet(Consequences, SloAnswer):
    """The SLO as it was set, and what follows."""


class PolicySet(Consequences, PolicyAnswer):
    """The policy as it was set, and what follows."""


class PinInForce(Answer):
    """The kill switch that holds a stream: of those that do, the most specific."""

    to: Pin
    """What the job is held to: its own bound (Off), or its ceiling alone (Ceiling)."""
    scope: ScopeKind
    """Whose pin it is: the stream's own, its job's, or the whole fleet's."""
    reason: str
    """Why it was set."""
    since_us: int
    """When it was set, in microseconds since the epoch."""


class Live(Answer):
    """What the fast policy in the driver did, as of the newest batch."""

    control_ms: int | None
    """The watermark that the control stream offers, in milliseconds since the epoch; null before the first."""
    ceiling_ms: int
    """The static bound that the job falls back to, in milliseconds."""
    ceiling_used_ppm: int
    """Distance of the watermark from the greatest event time as a share of the ceiling, in parts per million: at
    1,000,000 the ceiling holds the watermark and not live control."""
    behind: list[str]
    """Partitions with a backlog, which hold the watermark back; the first 100 by name."""
    behind_partitions: int
    """How many there are."""
    idle: list[str]
    """Partitions that are idle, without a backlog, and hold nothing back; the first 100 by name."""
    idle_partitions: int
    """How many there are."""
    reason: str
    """Why the control stream offers this watermark, in one sentence."""
    heard_us: int | None
    """When the job last heard from the controller, in microseconds since the epoch; null when it never has."""
    pin: Pin | None
    """What the job says that a kill switch holds it to."""


class AppendDelaySeen(Answer):
    """How long after their event times the rows of the newest batch were appended to the source."""

    rows: int
    """Rows that have both an event time and a timestamp of the source."""
    least_ms: int
    """Least difference in milliseconds; negative where the event is dated ahead."""
    mean_ms: int
    """Mean difference in milliseconds."""
    most_ms: int
    """Greatest difference in milliseconds."""
    by_broker: bool
    """Whether every timestamp is the broker's, not the producer's."""


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
    late_least: int
    """Pairs that were late for sure."""
    late_most: int
    """Pairs that may have been late."""
    unjudged_rows: int
    """Rows that arrived but whose fate is unknown."""
    missing_batches: int
    """Batches never reported: nobody knows how many rows they held."""
    least_ppm: int | None
    """Share admitted at the least, in parts per million, rounded down; null without rows."""
    most_ppm: int | None
    """Share admitted at the most, in parts per million, rounded down; null without rows."""
    exact: bool
    """Whether the share is known exactly: nothing doubtful, nothing unjudged, no batch missing."""
    provisional: bool
    """Whether rows can still be admitted to windows (or minutes) that the watermark has not passed."""


class Approved(Answer):
    """That a person approved a rollout."""

    at_us: int
    """When, in microseconds since the epoch."""
    by: str | None
    """Who; null when nobody had to say who they are."""
    reason: str
    """Why."""


class Promise(Answer):
    """What was predicted of a rollout when it was proposed. Nulls are unknown."""

    rows: int
    """(Row, key) pairs that it rests on."""
    late: int
    """How many of them would have been late."""
    least_ppm: int | None
    """Lower end of the interval of the completeness, in parts per million."""
    most_ppm: int | None
    """Upper end of it."""
    latency_wall_ms: int | None
    """Mean wall latency of windows, in milliseconds."""
    state_rows: int | None
    """Rows of state once it is in effect, an estimate."""


class Proof(Answer):
    """What the ledger says of a rollout in effect."""

    rows: int
    """(Row, key) pairs that met it in effect and were judged."""
    needed_rows: int
    """How many it takes to verify it."""
    late_least: int
    """Pairs that were late for sure."""
    late_most: int
    """Pairs that may have been late."""


class Rollout(Answer):
    """One change of what a job is told, from the recommendation to its end."""

    id: int
    """Its number; later ones have greater numbers."""
    job: str
    """Name of the job."""
    stream: str
    """Name of the stream."""
    state: State
    """Where it is."""
    reason: str
    """Why it is there, or what it waits for."""
    held_by: Gate | None
    """The gate that holds it; null when none does."""
    cause: Cause
    """What wants it: rows (Decision), the policy for the time without data (NoData), or a write in Live (Operator)."""
    direction: Direction
    """Which way it changes the bound, or in Live the envelope."""
    first: bool
    """Whether the job was told no bound before it."""
    mode: Mode
    """Mode of the stream."""
    from_bound_ms: int | None
    """The bound told before it, in milliseconds, to which it goes back; null: the job kept its own."""
    to_bound_ms: int | None
    """The bound that it tells, in milliseconds; null: the job keeps its own."""
    from_envelope: Envelope | None
    """In Live: the envelope told before it; null in every other mode."""
    to_envelope: Envelope | None
    """In Live: the envelope that it tells; null in every other mode."""
    in_use_bound_ms: int | None
    """The bound in the plan of the newest batch when it was proposed, in milliseconds; null when it is not known."""
    generation: int | None
    """Generation that tells it; null before it is published."""
    newest_report: int | None
    """Number of the newest report that it rests on; null without any."""
    predicted: Promise
    """What was predicted of it."""
    judged: Proof
    """What came of it."""
    approved: Approved | None
    """Who approved it; null when nobody has."""
    created_us: int
    """When it was proposed, in microseconds since the epoch."""
    changed_us: int
    """When its state changed last, in microseconds since the epoch."""
    published_us: int | None
    """When jobs were told, in microseconds since the epoch; null before it."""
    acknowledged_us: int | None
    """When the job was first known to have it, in microseconds since the epoch; null before it."""
    effective_us: int | None
    """Trigger time of the first batch whose watermark followed it, in microseconds since the epoch; null before it."""
    ended_us: int | None
    """When it was verified or ended otherwise, in microseconds since the epoch; null while it is open."""
    may: list[Act]
    """What a person may do with it now."""


class RolloutPage(Answer):
    """A page of rollouts, the newest first."""

    rollouts: list[Rollout]
    """The rollouts."""
    next_cursor: str | None
    """Where the next page begins; null on the last."""


class EventEvidence(Answer):
    """What a change rests on. Nulls: nothing of the kind."""

    rows: int | None
    """(Row, key) pairs."""
    newest_report: int | None
    """Number of the newest report."""
    rollout: int | None
    """Number of the rollout that it belongs to."""


class Event(Answer):
    """One change and why it came about."""

    id: int
    """Its number; later ones have greater numbers."""
    job: str
    """Name of the job."""
    stream: str
    """Name of the stream."""
    at_us: int
    """When it came about first, in microseconds since the epoch."""
    last_us: int
    """When it came about last, in microseconds since the epoch."""
    count: int
    """How often it came about in a row."""
    kind: str
    """What happened."""
    reason: str
    """Why."""
    by: str | None
    """Who did it; null when the controller did, or when nobody had to say who they are."""
    before: str | None
    """The value before, as JSON text in the words of the release that wrote it; null for none."""
    after: str | None
    """The value after, in the same way; null for none."""
    evidence: EventEvidence
    """What it rests on."""


class EventPage(Answer):
    """A page of events, the newest first."""

    events: list[Event]
    """The events."""
    next_cursor: str | None
    """Where the next page begins; null on the last."""


class RolloutDetail(Rollout):
    """A rollout and how it came to where it is."""

    history: list[Event]
    """Its changes, the first one first; at most 100."""


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
    bad_least: int
    """How many of them were late, or did not reach the target, for sure."""
    bad_most: int
    """How many may have been, those of unknown fate among them."""
    least_ppm: int | None
    """The share that was good at the least, in parts per million, rounded down; null of nothing."""
    most_ppm: int | None
    """The share that was good at the most; null of nothing."""
    allowed: int
    """How many may be bad of what is counted."""
    remaining_ppm: int | None
    """What is left of that at the least, in parts per million of it; negative when overdrawn, null when nothing is."""
    missing_batches: int
    """Batches never reported: nobody knows how many rows they held."""
    provisional: bool
    """Whether rows can still come for windows (or minutes) that the watermark has not passed."""


ConditionType = Literal[
    "NoReportYet",
    "NoRecentReport",
    "PartitionsSilent",
    "NoSlo",
    "NotEnoughEvidence",
    "CoverageGap",
    "RowsNotCounted",
    "NeedsUnknown",
    "ConstraintsConflict",
    "BoundNotAcknowledged",
    "Rolling",
    "RolloutHeld",
    "RolledBack",
    "Paused",
    "Pinned",
    "LiveWithoutCeiling",
    "SkewBeyondCeiling",
    "CeilingNear",
    "FutureRows",
    "PartitionSkewed",
]


class Condition(Answer):
    """Something about the stream that somebody should know; it is there only while it holds."""

    type: ConditionType
    """Which."""
    detail: str
    """The figures, as a sentence."""


class PinnedStream(Answer):
    """What a pin does to one stream."""

    job: str
    """Name of the job."""
    stream: str
    """Name of the stream."""
    bound_ms: int | None
    """The bound that the pin puts in force, in milliseconds; null when it is not known or the pin changes nothing."""
    in_use_bound_ms: int | None
    """The bound in use, in milliseconds; in Live how far the watermark trails; null without reports."""
    completeness_ppm: int | None
    """Share that would be admitted under the pin's bound, in parts per million; null when it is not known."""
    latency_wall_ms: int | None
    """Mean wall latency of windows under it, in milliseconds; null when it is not known."""
    text: str
    """What it costs against the bound in use, in words."""


class PinSummary(Answer):
    """A kill switch."""

    scope: ScopeKind
    """What it is set on: one stream, all streams of a job, or the whole fleet."""
    job: str | None
    """Name of the job; null for the whole fleet."""
    stream: str | None
    """Name of the stream; null for all streams."""
    to: Pin
    """What jobs are held to: their own bound (Off), or their ceiling alone (Ceiling)."""
    reason: str
    """Why it was set."""
    since_us: int
    """When it was set, in microseconds since the epoch."""


class PinAnswer(PinSummary):
    """A kill switch and what it does."""

    streams: list[PinnedStream]
    """What it does to the streams that are known, by job and stream; after a removal, what that does."""
    more_streams: int
    """Streams for which that was not worked out, because it would have taken too long."""
    dry_run: bool
    """Whether it was only tried: then nothing was changed, and this is what it would do."""


class PinPage(Answer):
    """A page of pins: the fleet's, then by job and stream."""

    pins: list[PinSummary]
    """The pins."""
    next_cursor: str | None
    """Where the next page begins; null on the last."""


class TokenAnswer(Answer):
    """What is known of a token; the token itself is not."""

    id: int
    """Its number."""
    name: str
    """Name of whoever holds it; two tokens of a name may live at once."""
    role: Role
    """Its role."""
    jobs: list[str]
    """Patterns on the names of the jobs that it reaches; * stands for any characters."""
    live: bool
    """Whether it is good now."""
    created_us: int
    """When it was made, in microseconds since the epoch."""
    created_by: str
    """Who made it."""
    expires_us: int | None
    """When it ends by itself, in microseconds since the epoch; null for never."""
    last_used_us: int | None
    """When it was last used, to the hour, in microseconds since the epoch; null when that is not known."""
    revoked_us: int | None
    """When it was revoked, in microseconds since the epoch; null when it was not."""
    revoked_by: str | None
    """Who revoked it."""


class TokenMade(TokenAnswer):
    """A token that was just made."""

    token: str
    """The token itself: it is shown here and never again."""


class TokenPage(Answer):
    """A page of tokens by number."""

    tokens: list[TokenAnswer]
    """The tokens."""
    next_cursor: str | None
    """Where the next page begins; null on the last."""


class StreamStatus(Answer):
    """All that is known of one stream."""

    job: str
    """Name of the job."""
    stream: str
    """Name of the stream."""
    mode: Mode
    """Its mode."""
    registered_us: int | None
    """When its first report came, in microseconds since the epoch; null while it is only expected."""
    slo: SloAnswer | None
    """Its SLO; null when none is set."""
    recommended: Recommended | None
    """The newest recommendation; null before the first."""
    transition: Transition | None
    """What going from the bound in use to the recommended one will do; null without a recommended bound."""
    published: Published
    """What a job that asks is told."""
    applied: Applied | None
    """What the job last acknowledged; null before it has."""
    in_use_bound_ms: int | None
    """The bound in the plan of the newest batch, in milliseconds; null before the first report."""
    effective_bound_ms: int | None
    """How far the watermark really trails the greatest event time, in milliseconds; null when it is not known."""
    pin: PinInForce | None
    """The kill switch that holds the stream; null for none."""
    live: Live | None
    """What the fast policy did; null unless the newest batch ran in Live."""
    append_delay: AppendDelaySeen | None
    """How late rows were appended to the source; null when the job names no column for it."""
    evidence: Evidence
    """What the recommendation rests on."""
    coverage: list[QueryCoverage]
    """By query, which batches were reported."""
    completeness: Completeness
    """What the ledger says."""
    budget: Budget | None
    """What is left to lose over the SLO's window; null without an SLO or without reports."""
    rollout: Rollout | None
    """The newest rollout; null before the first."""
    conditions: list[Condition]
    """What somebody should know."""


class StreamSummary(Answer):
    """A stream in a list."""

    job: str
    """Name of the job."""
    stream: str
    """Name of the stream."""
    mode: Mode
    """Its mode."""
    registered_us: int | None
    """When its first report came, in microseconds since the epoch; null while it is only expected."""
    target: str | None
    """Its completeness target as a decimal string; null without an SLO."""
    recommended_bound_ms: int | None
    """The bound recommended, in milliseconds; null when there is none."""
    applied_bound_ms: int | None
    """The bound last acknowledged, in milliseconds; null before the first."""


class StreamPage(Answer):
    """A page of streams, by job and stream."""

    streams: list[StreamSummary]
    """The streams."""
    next_cursor: str | None
    """Where the next page begins; null on the last."""


class JobCondition(Condition):
    """A condition of one of a job's streams."""

    stream: str
    """Name of the stream."""


class ModeCount(Answer):
    """How many of a job's streams are in a mode."""

    mode: Mode
    """The mode."""
    streams: int
    """How many."""


class JobSummary(Answer):
    """A job in a list."""

    job: str
    """Name of the job."""
    streams: int
    """How many streams of it are known."""
    modes: list[ModeCount]
    """In which modes they are."""
    worst: JobCondition | None
    """The worst condition of any of them; null when there is none."""


class JobPage(Answer):
    """A page of jobs, by name."""

    jobs: list[JobSummary]
    """The jobs."""
    next_cursor: str | None
    """Where the next page begins; null on the last."""


class JobStatus(JobSummary):
    """What is known of a job; /v1/streams?job= lists its streams."""

    pin: PinInForce | None
    """The kill switch that holds the whole job: its own, or the fleet's; null for none."""
    conditions: list[JobCondition]
    """Conditions of its streams, the worst first, 100 at the most."""
    more_conditions: int
    """How many more there are."""


class ReportFacts(Answer):
    """What is known of one reported batch. Rows that are late were judged by Spark's own rule."""

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
    """The watermark that rows were late by, in milliseconds since the epoch; null when it is not known."""
    watermark_ms: int
    """The watermark in force in the batch, in milliseconds since the epoch."""
    max_event_time_us: int | None
    """Greatest event time of the batch, in microseconds since the epoch; null without any."""
    rows: int
    """Rows that reached the tap."""
    null_rows: int
    """Rows without an event time among them."""
    future_rows: int
    """Rows dated ahead of the clock among them."""
    pairs: int
    """(Row, key) pairs that were judged."""
    late_least: int
    """Pairs that were late for sure."""
    late_most: int
    """Pairs that may have been late."""
    unjudged_rows: int
    """Rows whose fate is unknown."""
    early_rows: int
    """Rows that met a filter which knew nothing yet."""
    state_rows: int
    """Rows of state after the batch."""
    state_bytes: int
    """Memory of the state after the batch, in bytes."""
    dropped_by_spark: int
    """What Spark says it dropped: not a count of rows for every operator."""
    given_up_reports: int
    """Reports that the driver had given up by then, in this run."""


class ReportPage(Answer):
    """A page of reports, those of the newest batches first."""

    reports: list[ReportFacts]
    """The reports."""
    next_cursor: str | None
    """Where the next page begins; null on the last."""


class ReportedPartition(Answer):
    """One partition in a report."""

    partition: str
    """Its name."""
    rows: int
    """Rows of it that were counted."""
    future_rows: int
    """Rows dated ahead of the clock among them."""
    first_us: int | None
    """Lower edge of the first event-time granule with rows, in microseconds since the epoch; null without any."""
    last_us: int | None
    """Upper edge of the last one, in microseconds since the epoch; null without any."""


class ReportDetail(ReportFacts):
    """One report."""

    granule_us: int | None
    """Width of an event-time granule, in microseconds; null when the report as it was sent is not kept any more."""
    partitions: list[ReportedPartition] | None
    """Its partitions, as it was sent; null when that is not kept any more."""


class AcknowledgementFacts(Applied):
    """An acknowledgement as it was received."""

    mode: Mode
    """The mode that the job took the stream to be in."""
    received_us: int
    """When it came, in microseconds since the epoch."""


class AcknowledgementPage(Answer):
    """A page of acknowledgements, those applied last first."""

    acknowledgements: list[AcknowledgementFacts]
    """The acknowledgements."""
    next_cursor: str | None
    """Where the next page begins; null on the last."""


class PublishedBound(Published):
    """One generation of what jobs were told."""

    mode: Mode
    """The stream's mode then."""
    published_us: int
    """When it was published, in microseconds since the epoch."""


class BoundPage(Answer):
    """A page of generations, the newest first."""

    bounds: list[PublishedBound]
    """The generations."""
    next_cursor: str | None
    """Where the next page begins; null on the last."""


class CurvePoint(Answer):
    """What one bound would have done."""

    bound_ms: int
    """The bound in milliseconds."""
    rows: int
    """(Row, key) pairs with a known need."""
    late: int
    """Pairs that would have been late, at the most."""
    completeness_ppm: int | None
    """Share that would have been admitted, in parts per million, rounded down; null without rows."""
    latency_base_ms: int | None
    """Mean over emitted windows of the base at emission minus the window's end, in milliseconds; null when none was."""
    latency_wall_ms: int | None
    """Mean over windows of the wall time of emission minus the window's end, in milliseconds; null without windows."""
    windows_emitted: int
    """Windows that would have been emitted."""
    completeness_least_ppm: int | None
    """Lower end of the interval of the share at the SLO's confidence, in parts per million; rows are taken to be
    independent; null without rows."""
    completeness_most_ppm: int | None
    """Upper end of it, with all pairs that the sketch cannot tell."""
    state_rows: int | None
    """Rows of state under the bound, an estimate; null when it is not known, as for a span of the past."""
    meets_all: bool | None
    """Whether the bound certifies the target within the caps; null without an SLO."""


class Operating(Answer):
    """Where the stream runs on its curve."""

    bound_ms: int | None
    """The bound in use, in milliseconds; in Live the one published; null when it is not known."""
    effective_ms: int | None
    """How far the watermark really trails the greatest event time, in milliseconds; null when it is not known."""


class CurveBasis(Answer):
    """What a curve rests on."""

    horizon_ms: int
    """How far back it was asked to count, in milliseconds."""
    covers_from_us: int | None
    """Start of the span that it covers, in microseconds since the epoch; null without a batch."""
    covers_until_us: int | None
    """End of that span, not part of it; null when it ends with the newest batch. Older needs are kept by the hour or
    the day, so a past span is widened to whole hours or days."""
    from_us: int | None
    """Trigger time of the first batch counted, in microseconds since the epoch."""
    to_us: int | None
    """Trigger time of the newest batch counted, in microseconds since the epoch."""
    relative_error_ppm: int
    """How far a need may be off in the sketch, relative to itself, in ppm; late rows are never too few."""
    unknown_rows: int
    """Rows whose need is not known; they are on no point of the curve."""


class Curve(Answer):
    """Completeness and latency by bound."""

    job: str
    """Name of the job."""
    stream: str
    """Name of the stream."""
    basis: CurveBasis
    """What it rests on."""
    points: list[CurvePoint]
    """By ascending bound."""
    target_ppm: int | None
    """The completeness target, in parts per million; null without an SLO."""
    latency_cap_ms: int | None
    """Greatest mean wall latency allowed, in milliseconds; null for no cap."""
    state_cap_rows: int | None
    """Most rows of state allowed; null for no cap."""
    operating: Operating
    """Where the stream runs now."""
    recommended_ms: int | None
    """The bound recommended, in milliseconds; null when there is none."""


class Preview(Answer):
    """What would happen if a bound were in force, by what was reported over the SLO's horizon. Nulls are unknown."""

    job: str
    """Name of the job."""
    stream: str
    """Name of the stream."""
    bound_ms: int
    """The bound asked about, in milliseconds."""
    horizon_ms: int
    """How far back it counts, in milliseconds."""
    rows: int
    """(Row, key) pairs that it rests on."""
    late: int
    """How many of them would have been late."""
    late_a_day: int | None
    """As many a day, in proportion to the time that was reported."""
    completeness_ppm: int | None
    """Share that would be admitted, in parts per million, rounded down."""
    completeness_least_ppm: int | None
    """Lower end of its interval at the SLO's confidence, in parts per million; rows are taken to be independent."""
    completeness_most_ppm: int | None
    """Upper end of it."""
    beyond_evidence: bool
    """Whether the bound is wider than any need that was seen: then more would cost latency and keep no more."""
    latency_base_ms: int | None
    """Mean base at emission minus the window's end, in milliseconds."""
    latency_wall_ms: int | None
    """Mean wall time of emission minus the window's end, in milliseconds."""
    state_rows: int | None
    """Rows of state once it is in effect, an estimate."""
    state_bytes: int | None
    """Memory of the state then, in bytes: the same estimate."""
    meets_target: bool | None
    """Whether it certifies the target; null without an SLO or with too few rows."""
    meets_latency_cap: bool | None
    """Whether the mean wall latency is within the cap; null without a cap."""
    meets_state_cap: bool | None
    """Whether the state is within the cap; null without a cap."""
    text: str
    """The same as a sentence."""
    transition: str | None
    """What going there from the bound in use would do; null when it is the bound in use, or without a report."""


class HistorySlot(Answer):
    """One slot of a series. Without a batch everything but what the job was told is null: a gap, not a zero."""

    from_us: int
    """Its start, in microseconds since the epoch."""
    rows: int | None
    """Rows that arrived."""
    pairs: int | None
    """(Row, key) pairs that were judged."""
    late_least: int | None
    """Pairs that were late for sure."""
    late_most: int | None
    """Pairs that may have been late."""
    unjudged_rows: int | None
    """Rows whose fate is unknown."""
    future_rows: int | None
    """Rows dated ahead of the clock."""
    bound_in_use_ms: int | None
    """The bound in the plan of its newest batch, in milliseconds."""
    effective_ms: int | None
    """How far the watermark really trailed then, in milliseconds."""
    published_ms: int | None
    """The bound that the job was told at its end, in milliseconds; null for none, and in time to come."""
    need_p50_ms: int | None
    """What half of its pairs needed at the most, in milliseconds."""
    need_p90_ms: int | None
    """What 90 % needed."""
    need_target_ms: int | None
    """What ``target_ppm`` of them needed."""
    need_max_ms: int | None
    """What all needed."""


class HistoryRollout(Answer):
    """A rollout in a series."""

    id: int
    """Its number."""
    state: State
    """Where it is."""
    from_bound_ms: int | None
    """The bound told before it, in milliseconds; null: the job kept its own."""
    to_bound_ms: int | None
    """The bound that it tells, in milliseconds; null: the job keeps its own."""
    published_us: int | None
    """When jobs were told, in microseconds since the epoch."""
    effective_us: int | None
    """When the watermark first followed it, in microseconds since the epoch; null before it."""
    ended_us: int | None
    """When it was verified or ended otherwise, in microseconds since the epoch; null while it is open."""


class History(Answer):
    """Bounds, needs and late rows of a stream over time."""

    job: str
    """Name of the job."""
    stream: str
    """Name of the stream."""
    from_us: int
    """Start of the first slot, in microseconds since the epoch."""
    to_us: int
    """End of the last slot, in microseconds since the epoch."""
    slot_us: int
    """Width of a slot, in microseconds."""
    target_ppm: int
    """The share that ``need_target_ms`` is about, in parts per million: the SLO's target, or 99 % without an SLO."""
    slots: list[HistorySlot]
    """All slots of the span, in order."""
    rollouts: list[HistoryRollout]
    """Rollouts that were published, took effect or ended in the span, the newest first; 200 at the most."""


class HeatmapCell(Answer):
    """What a partition needed in a slot."""

    need_ms: int
    """The bound that admits ``share_ppm`` of its pairs, in milliseconds; 0 when they need none."""
    pairs: int
    """(Row, key) pairs of it with a known need."""


class HeatmapPartition(Answer):
    """One partition of a map."""

    partition: str
    """Its name."""
    state: PartitionState | None
    """How it was getting on when the stream was looked at last; null before that."""
    skewed: bool
    """Whether it was skewed then."""
    future: bool
    """Whether rows of it in the span, or after it, were dated ahead of the clock."""
    costs_ms: int | None
    """By how much the bound would have fallen without it then, in milliseconds; null when that is not known."""
    cells: list[HeatmapCell | None]
    """One for each slot; null where nothing of it was seen."""


class Heatmap(Answer):
    """What the partitions of a stream needed over time."""

    job: str
    """Name of the job."""
    stream: str
    """Name of the stream."""
    from_us: int
    """Start of the first slot, in microseconds since the epoch."""
    to_us: int
    """End of the last slot, in microseconds since the epoch."""
    slot_us: int
    """Width of a slot, in microseconds."""
    slots: list[int]
    """Starts of the slots, in microseconds since the epoch."""
    share_ppm: int
    """The share that needs are about, in parts per million. Slots of the past keep the share that was asked then."""
    bound_ms: int | None
    """The bound that all partitions needed together over the horizon, in milliseconds; null when it is not known."""
    total: int
    """How many partitions may have rows in the span."""
    partitions: list[HeatmapPartition]
    """Those that cost most, first."""


class Partition(Answer):
    """One partition of a stream."""

    partition: str
    """Its name."""
    rows: int
    """Rows counted since it was first seen."""
    last_event_time_us: int
    """Greatest event time seen, to the granule, in microseconds since the epoch."""
    behind_ms: int
    """How far that is behind the greatest of all partitions, in milliseconds."""
    last_seen_us: int
    """Trigger time of the newest batch that held a row of it, in microseconds since the epoch."""
    pairs: int
    """(Row, key) pairs with a known need over the horizon."""
    need_ms: int | None
    """The bound that admits ``share_ppm`` of them, in milliseconds, at most the sketch's error too wide."""
    skew_ms: int | None
    """How far behind the stream's greatest event time it was when it was last heard, in milliseconds: what a ceiling
    has to leave room for; null when it has not been heard since that is kept."""
    future_rows: int
    """Rows of it that were dated ahead of the clock and set back to it."""
    future: bool
    """Whether such rows came within the horizon."""
    state: PartitionState
    """Active; Idle: it used to report and is silent; Behind: its rows trail by more than the bound, or the source has
    rows of it that are not read; Gone: no row of it within the horizon."""
    skewed: bool
    """Whether without it the bound would be narrower by a share and an amount, as of when the stream was looked at."""
    skewed_us: int | None
    """Since when it is, in microseconds since the epoch; null unless it is."""
    without_bound_ms: int | None
    """The bound that the other partitions need, in milliseconds; null when they have too little evidence."""
    costs_ms: int | None
    """By how much the bound would fall without it, in milliseconds; negative when it would rise."""
    text: str | None
    """What a skewed one costs, as a sentence; null unless it is skewed."""


class PartitionPage(Answer):
    """A page of partitions, by name."""

    partitions: list[Partition]
    """The partitions."""
    share_ppm: int
    """The share of rows that ``need_ms`` is about, in parts per million: the SLO's target, or 99 % without an SLO."""
    bound_ms: int | None
    """The bound that all partitions need together to certify that share, in milliseconds, before any rounding, guard
    rail or limit: what ``without_bound_ms`` and ``costs_ms`` are held against; null without enough evidence."""
    next_cursor: str | None
    """Where the next page begins; null on the last."""


class FleetRollout(Answer):
    """The newest rollout of a stream, in a list."""

    id: int
    """Its number."""
    state: State
    """Where it is."""
    held_by: Gate | None
    """The gate that holds it; null when none does."""


class FleetPartitions(Answer):
    """How many partitions of a stream are how."""

    total: int
    """With a row within the horizon."""
    idle: int
    """Those that used to report and are silent."""
    behind: int
    """Those that are behind."""
    skewed: int
    """Those without which the bound would be far narrower."""
    future: int
    """Those with rows dated ahead of the clock within the horizon."""


class SkewedPartition(Answer):
    """The skewed partition that costs most."""

    partition: str
    """Its name."""
    without_bound_ms: int
    """The bound that the other partitions need, in milliseconds."""
    costs_ms: int
    """By how much the bound would fall without it, in milliseconds."""
    text: str
    """The same as a sentence."""


class FleetStream(Answer):
    """A stream in the list of the fleet.

    What it is told and what is asked of it is as it stands; the rest is as of ``updated_us``.
    """

    job: str
    """Name of the job."""
    stream: str
    """Name of the stream."""
    mode: Mode
    """Its mode."""
    paused: bool
    """Whether nothing new is rolled."""
    pin: PinInForce | None
    """The kill switch that holds it; null for none."""
    target_ppm: int | None
    """Its completeness target in parts per million; null without an SLO."""
    completeness_least_ppm: int | None
    """Share of the newest ten minutes' pairs that was admitted at the least; null without any."""
    completeness_most_ppm: int | None
    """The same at the most."""
    provisional: bool
    """Whether rows could still come for windows that the watermark had not passed."""
    window_least_ppm: int | None
    """Share that was good over the SLO's window at the least; null without an SLO or without rows."""
    window_most_ppm: int | None
    """The same at the most."""
    budget_remaining_ppm: int | None
    """What is left of the budget at the least, in parts per million of it; negative when overdrawn, null when there is
    none."""
    recommended_ms: int | None
    """The bound recommended, in milliseconds; null when there is none."""
    published_ms: int | None
    """The bound that the job is told, in milliseconds; null when it keeps its own."""
    applied_ms: int | None
    """The bound last acknowledged, in milliseconds; null before the first."""
    in_use_ms: int | None
    """The bound in the plan of the newest batch, in milliseconds; null without a report."""
    effective_ms: int | None
    """How far the watermark really trailed the greatest event time, in milliseconds; null when it is not known."""
    rollout: FleetRollout | None
    """Its newest rollout; null before the first."""
    worst: Condition | None
    """The worst of what somebody should know; null when there is nothing."""
    alerts: list[ConditionType]
    """What somebody should do something about, the worst first."""
    partitions: FleetPartitions
    """How its partitions are."""
    skewed: SkewedPartition | None
    """The skewed partition that costs most; null without any."""
    last_batch_us: int | None
    """Trigger time of its newest batch, in microseconds since the epoch; null without a report."""
    updated_us: int | None
    """When it was looked at last, in microseconds since the epoch; null when it has not been yet."""


class WorstCount(Answer):
    """How many streams have the same worst condition."""

    type: ConditionType | None
    """Which; null for those without any."""
    streams: int
    """How many."""


class FleetTotals(Answer):
    """The fleet as a whole, as far as it is in reach."""

    streams: int
    """How many streams are known."""
    worst: list[WorstCount]
    """How many of them have which worst condition, the worst first."""


class FleetPage(Answer):
    """A page of the fleet: the least budget first, streams of unknown budget last."""

    streams: list[FleetStream]
    """The streams."""
    totals: FleetTotals
    """All streams in reach, on this page or not."""
    next_cursor: str | None
    """Where the next page begins; null on the last."""


class HealthCheck(Answer):
    """One check."""

    name: str
    """What was checked."""
    ok: bool
    """Whether it passed."""
    detail: str
    """What was found."""


class Health(Answer):
    """The service is well."""

    status: Literal["ok"]
    """Always ok: otherwise the answer is a problem document with status 503."""
    checks: list[HealthCheck] | None = None
    """What was checked, when asked for by ?verbose."""
