"""Curves, previews, and a stream over time: its history, its budget, the heat map of its partitions."""

from __future__ import annotations

from tidemark.controller.base.answer import Answer, OfStream
from tidemark.controller.view.state.answers import Budget
from tidemark.models.protocol.messages import LatencyUnknown, PartitionState
from tidemark.models.rollout.states import RolloutTimes


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


class BudgetHistory(OfStream):
    """How a budget was used up over the SLO's window, and how fast it is used up now."""

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


class History(OfStream):
    """Bounds, needs and late rows of a stream over time."""

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
    rollouts: list[RolloutTimes]
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


class Heatmap(OfStream):
    """What the partitions of a stream needed over time."""

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


class PartitionPoint(Answer):
    """What one bound would have done to a partition."""

    bound_ms: int
    """The bound in milliseconds."""
    rows: int
    """(Row, key) pairs with a known need."""
    late: int
    """Pairs that would have been late, at most."""
    completeness_ppm: int | None
    """Share that would have been admitted, in parts per million, rounded down; null without rows."""


class CurvePointAnswer(PartitionPoint):
    """What one bound would have done."""

    completeness_min_ppm: int | None
    """Lower end of the share's interval at the SLO's confidence at every look, in parts per million; null without
    rows."""
    completeness_max_ppm: int | None
    """Upper end of it; pairs that the sketch cannot place count as admitted."""
    latency_base_ms: int | None
    """Mean over emitted windows of the base at emission minus the window's end, in milliseconds; null without any."""
    latency_wall_ms: int | None
    """Mean over windows of the wall time of emission minus the window's end, in milliseconds; null when it is not
    measured."""
    latency_at_least_ms: int | None
    """A lower limit of this mean while too many windows are open to measure it; null when it is measured."""
    latency_unknown: LatencyUnknown | None
    """Why the mean is not known. ``NoWindows``: the operator has none, none has closed since the query began, or the
    reports are no longer stored. ``WindowsOpen``: too many are still open. Null when it is measured."""
    windows_emitted: int
    """Windows that would have been emitted."""
    state_rows: int | None
    """Estimated rows of state under the bound; null when it is not known, as for a past span."""
    meets_all: bool | None
    """Whether the bound certifies the target within the caps; null without an SLO."""


class Operating(Answer):
    """The stream's operating point."""

    bound_ms: int | None
    """The bound that a change starts from, in milliseconds; null when it is not known."""
    is_published: bool
    """Whether that is the published bound, as in Live, where the plan has the ceiling; else it is the one in use."""
    effective_bound_ms: int | None
    """How far the watermark really trails the maximum event time, in milliseconds; null when it is not known."""


class CurveBasis(Answer):
    """The evidence that a curve is computed from."""

    horizon_ms: int
    """The requested horizon, in milliseconds."""
    covers_from_us: int | None
    """Start of the span that it covers, in microseconds since the epoch; null without a batch."""
    covers_until_us: int | None
    """End of that span, exclusive; null when it ends with the newest batch. Older needs are stored by the hour or the
    day, so a past span is widened to whole hours or days."""
    from_us: int | None
    """Trigger time of the first batch counted, in microseconds since the epoch."""
    to_us: int | None
    """Trigger time of the newest batch counted, in microseconds since the epoch."""
    relative_error_ppm: int
    """Relative error of a need in the sketch, in ppm; late rows are never underestimated."""
    unknown_rows: int
    """Rows whose need is not known; no point of the curve counts them."""


class CurveAnswer(OfStream):
    """Completeness and latency by bound."""

    basis: CurveBasis
    """Its evidence."""
    points: list[CurvePointAnswer]
    """By ascending bound."""
    target_ppm: int | None
    """The completeness target, in parts per million; null without an SLO."""
    latency_cap_ms: int | None
    """Maximum mean wall latency, in milliseconds; null for no cap."""
    state_cap_rows: int | None
    """Maximum rows of state; null for no cap."""
    operating: Operating
    """The current operating point."""
    recommended_bound_ms: int | None
    """The bound recommended, in milliseconds; null when there is none."""


class PartitionCurve(OfStream):
    """Completeness of one partition by bound."""

    partition: str
    """Name of the partition."""
    points: list[PartitionPoint]
    """By ascending bound; none when the partition has no row within the SLO's horizon."""


class Preview(CurvePointAnswer, OfStream):
    """What a bound would do, by the reports over the SLO's horizon. Nulls are unknown."""

    horizon_ms: int
    """How far back it counts, in milliseconds."""
    late_a_day: int | None
    """Late pairs a day, in proportion to the time reported."""
    beyond_evidence: bool
    """Whether the bound is above every need seen: a wider one would cost latency and admit no more rows."""
    state_bytes: int | None
    """Memory of the state then, in bytes: the same estimate."""
    windows_closing: int | None
    """Windows that the first move of the watermark closes at once, if the job restarts with it now; null: unknown."""
    stands_still_ms: int | None
    """How long the watermark stands still after such a restart, in milliseconds; 0 when it moves at once, null when
    unknown."""
    meets_target: bool | None
    """Whether it certifies the target; null without an SLO or with too few rows."""
    meets_latency_cap: bool | None
    """Whether the mean wall latency is within the cap; null without a cap, or while it is not known."""
    meets_state_cap: bool | None
    """Whether the state is within the cap; null without a cap."""
    text: str
    """The same as a sentence."""
    notes: list[str]
    """What of it the figures do not say: what the evidence does not reach, and limits on the bound."""
    transition: str | None
    """What going there from the bound in use would do; null for the bound in use itself, or without a report."""
