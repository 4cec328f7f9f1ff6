"""A stream over time: its history, its budget, and the heat map of its partitions."""

from __future__ import annotations

from tidemark.controller.api.schemas.answer import Answer
from tidemark.controller.api.schemas.evidence import Budget
from tidemark.models.protocol.messages import PartitionState
from tidemark.models.rollout.states import State


class HistorySlot(Answer):
    """One slot of a series. Without a batch everything but the published bound is null: a gap, not a zero."""

    from_us: int
    """Its start, in microseconds since the epoch."""
    rows: int | None
    """Rows that arrived."""
    pairs: int | None
    """(Row, key) pairs that were judged."""
    late_min: int | None
    """Pairs that were certainly late."""
    late_max: int | None
    """Pairs that may have been late."""
    unjudged_rows: int | None
    """Rows whose fate is unknown."""
    future_rows: int | None
    """Future-dated rows."""
    in_use_bound_ms: int | None
    """The bound in the plan of its newest batch, in milliseconds."""
    effective_bound_ms: int | None
    """How far the watermark really trailed the base then, in milliseconds."""
    published_bound_ms: int | None
    """The bound published at its end, in milliseconds; null for none, and for the future."""
    need_p50_ms: int | None
    """The bound that half of its pairs needed at most, in milliseconds."""
    need_p90_ms: int | None
    """The bound that 90 % needed at most."""
    need_target_ms: int | None
    """The bound that ``target_ppm`` of them needed at most."""
    need_max_ms: int | None
    """The maximum need."""


class HistoryRollout(Answer):
    """A rollout in a series."""

    id: int
    """Its number."""
    state: State
    """Its state."""
    from_bound_ms: int | None
    """The bound published before it, in milliseconds; null: the job kept its own."""
    to_bound_ms: int | None
    """The bound that it publishes, in milliseconds; null: the job keeps its own."""
    published_us: int | None
    """When it was published, in microseconds since the epoch."""
    effective_us: int | None
    """When the watermark first followed it, in microseconds since the epoch; null before it."""
    ended_us: int | None
    """When it ended, verified or not, in microseconds since the epoch; null while it is open."""


class BudgetSlot(Answer):
    """One slot of a budget. Nulls are unknown: nothing counted in it."""

    from_us: int
    """Its start, in microseconds since the epoch."""
    counted: int | None
    """(Row, key) pairs that arrived, or windows that the watermark has passed."""
    bad_min: int | None
    """How many of them were late, or did not reach the target, for sure."""
    bad_max: int | None
    """How many may have been, unjudged ones among them."""
    remaining_ppm: int | None
    """Minimum share of the window's whole budget that was left at its end, in parts per million; negative when
    overdrawn, null when nothing may be bad."""


class BurnRate(Answer):
    """How fast a budget was used up over the newest part of the window."""

    span_ms: int
    """That part, in milliseconds, back from the newest batch."""
    counted: int
    """What counted in it."""
    bad_max: int
    """How much of it may have been bad."""
    rate_ppm: int | None
    """The share that was bad over the share that may be, in parts per million: at 1,000,000 exactly the budget is used
    up over the SLO's window; null when nothing counts."""


class BudgetHistory(Answer):
    """How a budget was used up over the SLO's window, and how fast it is used up now."""

    job: str
    """Name of the job."""
    stream: str
    """Name of the stream."""
    budget: Budget | None
    """The budget as the status has it; null without an SLO or without reports: then there are no slots either."""
    from_us: int
    """Start of the first slot, in microseconds since the epoch."""
    to_us: int
    """End of the last slot, in microseconds since the epoch."""
    slot_us: int
    """Width of a slot, in microseconds."""
    slots: list[BudgetSlot]
    """The slots in order."""
    rates: list[BurnRate]
    """Burn rates over longer and longer parts of the window, the whole one last."""
    exhausted_in_ms: int | None
    """When nothing is left at the burn rate of the last hour, in milliseconds from the newest batch on; 0 when nothing
    is, null when it lasts."""


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
    """The share of ``need_target_ms``, in parts per million: the SLO's target, or 99 % without an SLO."""
    slots: list[HistorySlot]
    """All slots of the span, in order."""
    rollouts: list[HistoryRollout]
    """Rollouts that were published, took effect or ended in the span, the newest first; at most 200."""


class HeatmapCell(Answer):
    """What a partition needed in a slot."""

    need_ms: int
    """The bound that admits ``share_ppm`` of its pairs, in milliseconds; 0 when none is needed."""
    pairs: int
    """Its (row, key) pairs with a known need."""


class HeatmapPartition(Answer):
    """One partition of a heat map."""

    partition: str
    """Its name."""
    state: PartitionState | None
    """Its state in the last snapshot of the stream; null before the first."""
    skewed: bool
    """Whether it was skewed in that snapshot."""
    future: bool
    """Whether it had future-dated rows in the span or after it."""
    costs_ms: int | None
    """By how much the bound would have fallen without it, in milliseconds; null when it is not known."""
    cells: list[HeatmapCell | None]
    """One for each slot; null where it had no rows."""


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
    """The share of pairs that the needs admit, in parts per million: the SLO's target, or 99 % without an SLO."""
    effective_bound_ms: int | None
    """How far the watermark really trails the maximum event time, in milliseconds: what admits needs; null when
    unknown."""
    total: int
    """How many partitions may have rows in the span."""
    partitions: list[HeatmapPartition]
    """The partitions, the most costly first."""
