"""What one bound would do."""

from __future__ import annotations

from tidemark.controller.api.schemas.answer import Answer
from tidemark.models.wire import LatencyUnknown

__all__ = ["Preview"]


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
    completeness_min_ppm: int | None
    """Lower end of its interval at the SLO's confidence, in parts per million; rows are taken to be independent."""
    completeness_max_ppm: int | None
    """Upper end of it."""
    beyond_evidence: bool
    """Whether the bound is wider than any need that was seen: then more would cost latency and keep no more."""
    latency_base_ms: int | None
    """Mean base at emission minus the window's end, in milliseconds."""
    latency_wall_ms: int | None
    """Mean wall time of emission minus the window's end, in milliseconds; null when it is not measured."""
    latency_at_least_ms: int | None
    """The least that this mean can be while too many windows are open to measure it; null when it is measured."""
    latency_unknown: LatencyUnknown | None
    """Why the mean is not known: there is no window to measure it on (``NoWindows``: the operator has none, none that
    ended since the query began has come to its close, or the reports are not kept any more), or too many are still open
    (``WindowsOpen``); null when it is measured."""
    state_rows: int | None
    """Rows of state once it is in effect, an estimate."""
    state_bytes: int | None
    """Memory of the state then, in bytes: the same estimate."""
    meets_target: bool | None
    """Whether it certifies the target; null without an SLO or with too few rows."""
    meets_latency_cap: bool | None
    """Whether the mean wall latency is within the cap; null without a cap, and while it cannot be told."""
    meets_state_cap: bool | None
    """Whether the state is within the cap; null without a cap."""
    text: str
    """The same as a sentence."""
    transition: str | None
    """What going there from the bound in use would do; null when it is the bound in use, or without a report."""
