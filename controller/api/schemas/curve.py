"""Completeness and latency by bound."""

from __future__ import annotations

from tidemark.controller.api.schemas.answer import Answer
from tidemark.models.protocol.messages import LatencyUnknown


class CurvePointAnswer(Answer):
    """What one bound would have done."""

    bound_ms: int
    """The bound in milliseconds."""
    rows: int
    """(Row, key) pairs with a known need."""
    late: int
    """Pairs that would have been late, at most."""
    completeness_ppm: int | None
    """Share that would have been admitted, in parts per million, rounded down; null without rows."""
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
    completeness_min_ppm: int | None
    """Lower end of the share's interval at the SLO's confidence, in parts per million; rows are assumed independent;
    null without rows."""
    completeness_max_ppm: int | None
    """Upper end of it; pairs that the sketch cannot place count as admitted."""
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


class CurveAnswer(Answer):
    """Completeness and latency by bound."""

    job: str
    """Name of the job."""
    stream: str
    """Name of the stream."""
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


class PartitionPoint(Answer):
    """What one bound would have done to a partition."""

    bound_ms: int
    """The bound in milliseconds."""
    rows: int
    """(Row, key) pairs of the partition with a known need."""
    late: int
    """Pairs that would have been late, at most."""
    completeness_ppm: int
    """Share that would have been admitted, in parts per million, rounded down."""


class PartitionCurve(Answer):
    """Completeness of one partition by bound."""

    job: str
    """Name of the job."""
    stream: str
    """Name of the stream."""
    partition: str
    """Name of the partition."""
    points: list[PartitionPoint]
    """By ascending bound; none when the partition has no row within the SLO's horizon."""
