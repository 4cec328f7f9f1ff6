"""All streams and jobs at a glance, and a deleted stream."""

from __future__ import annotations

from tidemark.controller.base.answer import Answer, OfStream, Page
from tidemark.controller.view.state.answers import Condition, ConditionSummary
from tidemark.controller.view.state.condition_types import ConditionType, Severity
from tidemark.models.evidence.partition_counts import PartitionsInState, SkewCost
from tidemark.models.protocol.messages import Mode
from tidemark.models.recommend.promise import ProvisionalBound
from tidemark.models.rollout.states import RolloutBounds
from tidemark.models.specs.pin import StoredPin


class FleetStream(OfStream):
    """A stream in the list of the fleet.

    Specifications, pins, rollouts, the newest batch, bounds but the effective one, and whether it is silent are as of
    now; the rest is as of ``updated_us``. Shares, the budget and the effective bound are null while that is too long
    ago to say anything of now (``VerdictOld``).
    """

    mode: Mode
    """Its mode."""
    registered_us: int | None
    """When its first report came, in microseconds since the epoch; null while it is only expected."""
    paused: bool
    """Whether nothing new is rolled."""
    pin: StoredPin | None
    """The kill switch that holds it; null for none."""
    target_ppm: int | None
    """Its completeness target in parts per million; null without an SLO."""
    completeness_min_ppm: int | None
    """Minimum share of the newest ten minutes' pairs that was admitted, in parts per million; null without any."""
    completeness_max_ppm: int | None
    """The maximum of the same."""
    provisional: bool
    """Whether rows could still come for windows that the watermark had not passed."""
    window_min_ppm: int | None
    """Minimum share that was good over the SLO's window, in parts per million; null without an SLO or without rows."""
    window_max_ppm: int | None
    """The maximum of the same."""
    budget_remaining_ppm: int | None
    """Minimum share of the budget that is left, in parts per million; negative when overdrawn, null without any."""
    budget_course_ppm: list[int | None]
    """The same at the end of each of up to 24 equal parts of the SLO's window, as snapshots found it, the oldest
    first and the newest last; null for a part without a snapshot. It begins with the first snapshot under the SLO."""
    recommended_bound_ms: int | None
    """The bound recommended, in milliseconds; null when there is none."""
    provisional_bound: ProvisionalBound | None
    """Where the recommended bound will lie, as an estimate; null without an SLO or rows, and once there is enough
    evidence to act on."""
    published_bound_ms: int | None
    """The bound published to the job, in milliseconds; null when it keeps its own."""
    applied_bound_ms: int | None
    """The bound last acknowledged, in milliseconds; null before the first."""
    in_use_bound_ms: int | None
    """The bound in the plan of the newest batch, in milliseconds; null without a report."""
    effective_bound_ms: int | None
    """How far the watermark really trailed the maximum event time, in milliseconds; null when unknown."""
    rollout: RolloutBounds | None
    """Its newest rollout; null before the first."""
    worst: ConditionSummary | None
    """Its worst condition; null without any."""
    alerts: list[ConditionType]
    """Types of its conditions that are critical or a warning, the worst first."""
    partitions: PartitionsInState
    """How its partitions are."""
    skewed: SkewCost | None
    """The skewed partition that costs most; null without any."""
    last_batch_us: int | None
    """Trigger time of its newest batch, in microseconds since the epoch; null without a report."""
    updated_us: int | None
    """When its newest snapshot was taken, in microseconds since the epoch; null before the first."""


class WorstCount(Answer):
    """How many streams have the same worst condition."""

    type: ConditionType | None
    """Which one; null for streams without any."""
    severity: Severity
    """How grave it is; ok for streams without any."""
    title: str
    """A short name for people."""
    streams: int
    """How many."""


class FleetTotals(Answer):
    """All streams in reach, taken together."""

    streams: int
    """How many streams are known."""
    worst: list[WorstCount]
    """How many of them have which worst condition, the worst first; streams without any come last."""


class Narrowing(Answer):
    """How many streams of the whole fleet are narrowed at once; first bounds do not count."""

    streams: int
    """How many are being narrowed."""
    max_streams: int
    """How many may be; the next ones wait for their turn."""


class FleetPage(Page):
    """A page of the fleet: silent streams first, then the smallest budget left, streams of unknown budget last."""

    streams: list[FleetStream]
    """The streams."""
    totals: FleetTotals
    """All streams in reach, on this page or not."""
    narrowing: Narrowing
    """The fleet's limit on narrowing."""


class JobCondition(Condition):
    """A condition of one of a job's streams."""

    stream: str
    """Name of the stream."""


class JobWorst(ConditionSummary):
    """The worst condition of a job's streams."""

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
    """Their modes."""
    worst: JobWorst | None
    """The worst condition of any of them; null without any."""


class JobPage(Page):
    """A page of jobs, by name."""

    jobs: list[JobSummary]
    """The jobs."""


class JobStatus(JobSummary):
    """What is known of a job; /v1/fleet?job= lists its streams."""

    pin: StoredPin | None
    """The kill switch that holds the whole job: its own, or the fleet's; null for none."""
    conditions: list[JobCondition]
    """Conditions of its streams, the worst first, at most 100."""
    more_conditions: int
    """How many more there are."""


class StreamAdopted(OfStream):
    """A stream that goes on as another one of its job."""

    former: str
    """Name of the other one, which is no more."""
    reports: int
    """Reports that it brought along."""
    dry_run: bool
    """Whether it was a dry run: then nothing was changed."""


class StreamDeleted(OfStream):
    """A deleted stream, and how many rows were stored of it."""

    dry_run: bool
    """Whether it was a dry run: then nothing was changed, and this is what would be deleted."""
    reports: int
    """Reports, as far as they are kept."""
    queries: int
    """Queries."""
    partitions: int
    """Partitions."""
    ledger_keys: int
    """Windows, or minutes of event time, in the ledger."""
    published_bounds: int
    """Generations of the published bound."""
    rollouts: int
    """Rollouts."""
    acknowledgements: int
    """Acknowledgements."""
    events: int
    """Events; the one of the deletion comes after them and stays."""
    slos: int
    """1 with an SLO, else 0."""
    policies: int
    """1 with a policy that somebody set, else 0."""
    pins: int
    """1 with a pin on this stream alone, else 0."""
