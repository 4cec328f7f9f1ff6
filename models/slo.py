"""What an SRE asks for (the SLO) and allows (the policy) for one stream."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from annotated_types import Ge, Gt, Le, Lt, MaxLen, MinLen

from tidemark.models.wire import STRICT, Mode

__all__ = [
    "Approval",
    "Day",
    "Direction",
    "FreezeWindow",
    "Objective",
    "OnConflict",
    "OnNoData",
    "Policy",
    "Slo",
]

OnConflict = Literal["miss_target", "exceed_latency_cap", "exceed_state_cap"]
Objective = Literal["occurrences", "timeslices"]
"""What the target is about: the share of rows, or each window, of which a share must reach it."""

Direction = Literal["Widen", "Narrow"]
"""Which way a bound changes."""

OnNoData = Literal["hold", "max", "own"]
Approval = Literal["none", "first", "narrow", "all"]
"""Which rollouts wait for a person."""

Day = Literal["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"]

MINUTES_OF_DAY = 1_440
"""Minutes of a day."""

MAX_BOUND_MS = 2**60 // 1_000
"""Greatest bound in milliseconds: as microseconds, sums of a few still fit in 64 bits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Slo:
    """The completeness SLO of a stream."""

    __pydantic_config__: ClassVar[dict[str, Any]] = STRICT

    target_ppm: Annotated[int, Gt(0), Lt(1_000_000)]
    """Share of (row, window) pairs to be admitted, in parts per million."""
    latency_cap_ms: Annotated[int, Ge(0), Le(2**53)] | None = None
    """Greatest mean emit latency (wall time of emission minus window end) allowed, in milliseconds; null for no cap."""
    on_conflict: OnConflict | None = None
    """Which constraint gives way when no bound meets all; null: none, the bound in use is held and that is said."""
    confidence_ppm: Annotated[int, Gt(0), Lt(1_000_000)] = 950_000
    """Confidence with which the target must be certified, in parts per million."""
    horizon_ms: Annotated[int, Gt(0), Le(31 * 86_400_000)] = 86_400_000
    """How far back evidence counts, in milliseconds."""
    objective: Objective = "occurrences"
    """occurrences: the target is a share of all rows; timeslices: a share of the windows must reach it, each."""
    good_windows_ppm: Annotated[int, Gt(0), Le(1_000_000)] = 990_000
    """Under timeslices: share of the windows that must reach the target, in parts per million."""
    window_ms: Annotated[int, Gt(0), Le(31 * 86_400_000)] = 30 * 86_400_000
    """Rolling window over which the budget counts, in milliseconds."""
    state_cap_rows: Annotated[int, Ge(0), Le(2**53)] | None = None
    """Most rows of state allowed; null for no cap."""
    worst_window_ppm: Annotated[int, Ge(0), Lt(1_000_000)] | None = None
    """Least completeness that every single window must keep, in parts per million; null for no floor."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FreezeWindow:
    """Minutes of a week, in UTC, in which nothing is narrowed."""

    __pydantic_config__: ClassVar[dict[str, Any]] = STRICT

    days: Annotated[tuple[Day, ...], MinLen(1), MaxLen(7)]
    """Days of the week, each once."""
    from_minute: Annotated[int, Ge(0), Lt(MINUTES_OF_DAY)] = 0
    """First minute of the day, 0 being midnight UTC."""
    to_minute: Annotated[int, Gt(0), Le(MINUTES_OF_DAY)] = MINUTES_OF_DAY
    """Minute of the day at which it ends, itself not in it; what passes midnight is written as two windows."""

    def __post_init__(self) -> None:
        """Refuse what is empty or said twice."""
        if len(set(self.days)) != len(self.days):
            raise ValueError(f"days {', '.join(self.days)}: each day is named once")
        if self.from_minute >= self.to_minute:
            raise ValueError(
                f"to_minute {self.to_minute} is not after from_minute {self.from_minute}; "
                "what passes midnight is written as two windows"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """How the controller may act on a stream."""

    __pydantic_config__: ClassVar[dict[str, Any]] = STRICT

    mode: Mode = "Off"
    """Off watches only; OnRestart gives the job its bound when it next starts; Restart has the runner start it again;
    Live steers it without a restart."""
    min_bound_ms: Annotated[int, Ge(0), Le(MAX_BOUND_MS)] = 0
    """The bound is never narrower than this, in milliseconds."""
    max_bound_ms: Annotated[int, Ge(0), Le(MAX_BOUND_MS)] | None = None
    """The bound is never wider than this, in milliseconds; null for no limit."""
    directions: Annotated[tuple[Direction, ...], MinLen(1), MaxLen(2)] = ("Widen", "Narrow")
    """Which ways the bound may be changed; at least one."""
    margin_ppm: Annotated[int, Ge(0), Le(10_000_000)] = 0
    """What is added to the bound that rows ask for, as a share of it, in parts per million."""
    cooldown_ms: Annotated[int, Ge(0), Le(31 * 86_400_000)] = 3_600_000
    """Least time between two published narrowings, in milliseconds; widening never waits for it."""
    max_narrowings_a_day: Annotated[int, Ge(1)] | None = None
    """Most narrowings that are published within any 24 hours; null for no limit."""
    max_narrowing_ppm: Annotated[int, Gt(0), Le(1_000_000)] | None = 500_000
    """Most by which one rollout narrows, as a share of the bound in use, in parts per million; null for no limit."""
    evidence_ms: Annotated[int, Ge(0), Le(31 * 86_400_000)] = 3_600_000
    """Event time that reports must cover before a stream's first narrowing, in milliseconds; 0 for none."""
    evidence_windows: Annotated[int, Ge(0), Le(100_000)] = 100
    """Windows of event time that they must cover before it; 0 for none. Operators without windows ask for none."""
    freeze_windows: Annotated[tuple[FreezeWindow, ...], MaxLen(50)] = ()
    """When nothing is narrowed, in UTC."""
    paused: bool = False
    """Whether nothing new is rolled; what is under way is still watched, and undone if it is worse."""
    on_no_data: OnNoData = "hold"
    """What a job whose reports stopped is told. hold: the bound it has; greatest: max_bound_ms; own: its own."""
    approval: Approval = "first"
    """Which rollouts wait for a person: none, the first of the stream, those that narrow, or all."""

    def __post_init__(self) -> None:
        """Refuse what contradicts itself."""
        if self.max_bound_ms is not None and self.max_bound_ms < self.min_bound_ms:
            raise ValueError(f"max_bound_ms {self.max_bound_ms} is below min_bound_ms {self.min_bound_ms}")
        if len(set(self.directions)) != len(self.directions):
            raise ValueError(f"directions {', '.join(self.directions)}: each is named once")
        if self.on_no_data == "max" and self.max_bound_ms is None:
            raise ValueError("on_no_data is greatest, but there is no max_bound_ms to widen to; set one")
