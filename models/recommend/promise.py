"""What a bound will do, as it is predicted, kept and answered. Nothing here needs more than the standard library."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tidemark.models.base.duration import format_duration
from tidemark.models.protocol.messages import LatencyUnknown

ChangeKind = Literal["widen", "narrow", "same"]
"""Which way a change of the bound goes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Promise:
    """What a bound will do once it is in effect. None is unknown."""

    rows: int
    """(Row, key) pairs that the completeness rests on."""
    late: int
    """How many of them would have been late."""
    events: int
    """How many independent events the pairs amount to."""
    min_ppm: int | None
    """Lower end of the interval of the completeness at the SLO's confidence at every look, in parts per million; the
    pairs that the sketch cannot place count as late."""
    max_ppm: int | None
    """Upper end of it; the pairs that the sketch cannot place count as admitted."""
    latency_wall_ms: int | None
    """Mean over windows of the wall time of emission minus the window's end, in milliseconds; null when too few
    windows had closed to measure it."""
    state_rows: int | None
    """Rows of state once it is in effect: an estimate, in proportion to the event time that is open."""


NOTHING_PROMISED = Promise(
    rows=0, late=0, events=0, min_ppm=None, max_ppm=None, latency_wall_ms=None, state_rows=None
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected(Promise):
    """What is expected of a change of the bound. None is unknown."""

    from_bound_ms: int
    """The bound in use before it, in milliseconds."""
    bound_ms: int
    """The bound after it, in milliseconds."""
    stands_still_ms: int | None
    """How long the watermark stands still because event time has to catch up, in milliseconds; 0 when it moves at
    once."""
    effective_us: int | None
    """When the watermark first moves under the bound if the job restarts at once, in epoch microseconds."""
    windows_closing: int | None
    """Windows that its first move closes at once; null for operators without windows."""
    rows_closing: int | None
    """Rows admitted to them so far."""
    state_bytes: int | None
    """Memory of the state then, in bytes: the same estimate."""
    completeness_ppm: int | None
    """Share of the pairs that will be admitted, in parts per million, rounded down; null without pairs."""
    latency_base_ms: int | None
    """Mean over windows of the base at emission minus the window's end, in milliseconds."""
    text: str
    """The same as a sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Transition(Expected):
    """What a change of the bound will do, as if the job restarted at the newest batch's end. None is unknown."""

    kind: ChangeKind
    """Whether it widens, narrows or leaves the bound in use."""
    at_us: int
    """The start of the count: the end of the newest batch, in microseconds since the epoch."""
    latency_at_least_ms: int | None
    """A lower limit of this mean while too many windows are open to measure it; null when it is measured."""
    latency_unknown: LatencyUnknown | None
    """Why the mean is not known: there is no window to measure it on (``NoWindows``: the operator has none, none that
    ended since the query began has come to its close, or the reports are not kept any more), or too many are still open
    (``WindowsOpen``); null when it is measured."""


@dataclass(frozen=True, slots=True)
class Recommended:
    """A bound that is certified, and narrower than the one in use."""

    bound_ms: int
    """The bound, in milliseconds."""
    step: str | None
    """Name of the step that decided it; null when that is what the rows need."""

    @property
    def text(self) -> str:
        """The same as a clause."""
        step = "" if self.step is None else f" ({self.step})"
        return f"{format_duration(self.bound_ms * 1_000)} is recommended{step}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProvisionalBound:
    """An estimate of the bound that an SLO asks for, with its interval: no rollout reads it. To three digits."""

    bound_ms: int
    """The bound that the rows seen so far need, in milliseconds."""
    min_bound_ms: int | None
    """It is at least this, in milliseconds; null while there are too few rows for a lower end, and of a join's side."""
    max_bound_ms: int | None
    """It is at most this, in milliseconds: what is certified, and recommended but for limits; null while there are too
    few rows for an upper end."""
    confidence_ppm: int
    """Confidence of each end by itself, at all looks together, in parts per million."""
    max_known_in_ms: int | None
    """In how long the upper end will be known, if events go on to come as they did, in milliseconds; null when it is
    known, and when the longest horizon would still have too few."""
    seen_ms: int
    """How long the stream was observed, in milliseconds."""
    narrows_from_ms: int | None
    """How long it has to be observed before it is narrowed without a person, in milliseconds; null where no such limit
    holds."""
    recommended: Recommended | None = None
    """What is recommended already, though nothing acts on it yet; null while nothing is certified."""
    join: str | None = None
    """The join of whose sides each needs this bound; null for a stream by itself."""
    text: str = ""
    """The same in one clause."""
