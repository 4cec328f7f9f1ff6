"""What each bound keeps and costs."""

from __future__ import annotations

from tidemark.controller.api.schemas.answer import Answer
from tidemark.models.wire import LatencyUnknown

__all__ = ["Curve", "CurveBasis", "CurvePoint", "Operating"]


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
    """Mean over windows of the wall time of emission minus the window's end, in milliseconds; null when it is not
    measured."""
    latency_at_least_ms: int | None
    """The least that this mean can be while too many windows are open to measure it; null when it is measured."""
    latency_unknown: LatencyUnknown | None
    """Why the mean is not known: there is no window to measure it on (``NoWindows``: the operator has none, none that
    ended since the query began has come to its close, or the reports are not kept any more), or too many are still open
    (``WindowsOpen``); null when it is measured."""
    windows_emitted: int
    """Windows that would have been emitted."""
    completeness_min_ppm: int | None
    """Lower end of the interval of the share at the SLO's confidence, in parts per million; rows are taken to be
    independent; null without rows."""
    completeness_max_ppm: int | None
    """Upper end of it, with all pairs that the sketch cannot tell."""
    state_rows: int | None
    """Rows of state under the bound, an estimate; null when it is not known, as for a span of the past."""
    meets_all: bool | None
    """Whether the bound certifies the target within the caps; null without an SLO."""


class Operating(Answer):
    """Where the stream runs on its curve."""

    bound_ms: int | None
    """The bound in use, in milliseconds; in Live the one published; null when it is not known."""
    effective_bound_ms: int | None
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
    recommended_bound_ms: int | None
    """The bound recommended, in milliseconds; null when there is none."""
