"""All streams at a glance."""

from __future__ import annotations

from tidemark.controller.api.schemas.answer import Answer
from tidemark.controller.api.schemas.conditions import Condition, ConditionType
from tidemark.controller.api.schemas.pins import PinInForce
from tidemark.models.rollout.facts import Gate
from tidemark.models.rollout.states import State
from tidemark.models.wire import Mode

__all__ = [
    "FleetPage",
    "FleetPartitions",
    "FleetRollout",
    "FleetStream",
    "FleetTotals",
    "SkewedPartition",
    "WorstCount",
]


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
    completeness_min_ppm: int | None
    """Share of the newest ten minutes' pairs that was admitted at the least; null without any."""
    completeness_max_ppm: int | None
    """The same at the most."""
    provisional: bool
    """Whether rows could still come for windows that the watermark had not passed."""
    window_min_ppm: int | None
    """Share that was good over the SLO's window at the least; null without an SLO or without rows."""
    window_max_ppm: int | None
    """The same at the most."""
    budget_remaining_ppm: int | None
    """What is left of the budget at the least, in parts per million of it; negative when overdrawn, null when there is
    none."""
    recommended_bound_ms: int | None
    """The bound recommended, in milliseconds; null when there is none."""
    published_bound_ms: int | None
    """The bound that the job is told, in milliseconds; null when it keeps its own."""
    applied_bound_ms: int | None
    """The bound last acknowledged, in milliseconds; null before the first."""
    in_use_bound_ms: int | None
    """The bound in the plan of the newest batch, in milliseconds; null without a report."""
    effective_bound_ms: int | None
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
