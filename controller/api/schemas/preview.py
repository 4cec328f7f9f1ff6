"""What one bound would do."""

from __future__ import annotations

from tidemark.controller.api.schemas.answer import Answer
from tidemark.models.protocol.messages import LatencyUnknown


class Preview(Answer):
    """What a bound would do, by the reports over the SLO's horizon. Nulls are unknown."""

    job: str
    """Name of the job."""
    stream: str
    """Name of the stream."""
    bound_ms: int
    """The bound, in milliseconds."""
    horizon_ms: int
    """How far back it counts, in milliseconds."""
    rows: int
    """(Row, key) pairs that it rests on."""
    late: int
    """How many of them would have been late."""
    late_a_day: int | None
    """Late pairs a day, in proportion to the time reported."""
    completeness_ppm: int | None
    """Share that would be admitted, in parts per million, rounded down."""
    completeness_min_ppm: int | None
    """Lower end of its interval at the SLO's confidence, in parts per million; rows are taken to be independent."""
    completeness_max_ppm: int | None
    """Upper end of it."""
    beyond_evidence: bool
    """Whether the bound is above every need seen: a wider one would cost latency and admit no more rows."""
    latency_base_ms: int | None
    """Mean base at emission minus the window's end, in milliseconds."""
    latency_wall_ms: int | None
    """Mean wall time of emission minus the window's end, in milliseconds; null when it is not measured."""
    latency_at_least_ms: int | None
    """A lower limit of this mean while too many windows are open to measure it; null when it is measured."""
    latency_unknown: LatencyUnknown | None
    """Why the mean is not known: there is no window to measure it on (``NoWindows``: the operator has none, none that
    ended since the query began has come to its close, or the reports are not kept any more), or too many are still open
    (``WindowsOpen``); null when it is measured."""
    state_rows: int | None
    """Rows of state once it is in effect, an estimate."""
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
