"""The goal (SLO) and the permissions (policy) that an SRE sets for one stream."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal

from annotated_types import Ge, Gt, Le, Lt, MaxLen, MinLen

from tidemark.models.labels import MAX_LABELS, check_labels
from tidemark.models.late_policy import LatePolicy
from tidemark.models.ranges import Count, DurationMs
from tidemark.models.spec_fields import Shown
from tidemark.models.strict import STRICT
from tidemark.models.wire import Mode, Name

OnConflict = Literal["miss_target", "exceed_latency_cap", "exceed_state_cap"]
"""Which constraint is broken when no bound meets all."""

Objective = Literal["occurrences", "timeslices"]
"""What the target applies to: all rows together, or each window, of which a share must reach it."""

Direction = Literal["Widen", "Narrow"]
"""Which way a bound changes."""

OnNoData = Literal["hold", "max", "own"]
Approval = Literal["none", "first", "narrow", "all"]
"""Which rollouts wait for a person."""

Day = Literal["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"]

MINUTES_OF_DAY = 1_440
"""Minutes of a day."""

DAY_MS = 86_400_000

Share = Annotated[int, Gt(0), Lt(1_000_000)]
"""Parts per million, neither nothing nor all."""

ShareToAll = Annotated[int, Gt(0), Le(1_000_000)]
"""Parts per million, up to all."""

MAX_SIDES = 4
"""Maximum number of streams of one join: the work of choosing bounds grows with its cube."""

MAX_GATES = 10
"""Maximum number of outside gates of one policy."""


_WINDOW = Shown("Rolling window over which the error budget counts", 30 * DAY_MS, "Window of the budget")
_HORIZON = Shown("How far back evidence counts", 43_200_000, "Horizon of the evidence")
_CONFIDENCE = Shown("Confidence with which the target must be certified", 950_000)
"""The same in the SLOs of streams and of joins."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Slo:
    """The completeness SLO of a stream."""

    __pydantic_config__: ClassVar[dict[str, Any]] = STRICT

    target_ppm: Annotated[Share, Shown("Share of the rows, or (row, window) pairs, to admit", 995_000)]
    latency_cap_ms: Annotated[
        Count | None, Shown("Maximum mean latency of a window: wall time of emission minus its end", 900_000)
    ] = None
    on_conflict: Annotated[
        OnConflict | None,
        Shown(
            "What to do when no bound meets the target and the caps together: miss_target keeps the caps and admits "
            "fewer rows; exceed_latency_cap or exceed_state_cap meets the target and exceeds that cap",
            label="When no bound meets all",
            none="the bound in use is held, and a condition raised",
        ),
    ] = None
    objective: Annotated[
        Objective,
        Shown(
            "What must meet the target: occurrences, all rows together; timeslices, each of most windows",
            label="The target applies to",
        ),
    ] = "occurrences"
    good_windows_ppm: Annotated[
        ShareToAll,
        Shown(
            "With timeslices: share of the windows that must reach the target",
            990_000,
            "Windows that must reach it",
        ),
    ] = 990_000
    worst_window_ppm: Annotated[
        Annotated[int, Ge(0), Lt(1_000_000)] | None,
        Shown("Minimum completeness of every single window", 900_000, "Minimum of every single window"),
    ] = None
    state_cap_rows: Annotated[
        Count | None, Shown("Maximum number of rows of state", 1_000_000, "State cap in rows")
    ] = None
    window_ms: Annotated[int, Gt(0), Le(31 * DAY_MS), _WINDOW] = 30 * DAY_MS
    horizon_ms: Annotated[int, Gt(0), Le(31 * DAY_MS), _HORIZON] = DAY_MS
    confidence_ppm: Annotated[Share, _CONFIDENCE] = 950_000


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinSlo:
    """The completeness SLO of the joined output of streams of one query."""

    __pydantic_config__: ClassVar[dict[str, Any]] = STRICT

    streams: Annotated[
        tuple[Name, ...],
        MinLen(2),
        MaxLen(MAX_SIDES),
        Shown(
            "The streams that one query joins, each once; each has an SLO of its own too",
            "clicks,impressions",
        ),
    ]
    target_ppm: Annotated[Share, Shown("Share of the joined pairs to come out", 990_000)]
    confidence_ppm: Annotated[Share, _CONFIDENCE] = 950_000
    horizon_ms: Annotated[
        int,
        Gt(0),
        Le(DAY_MS),
        Shown("How far back evidence counts, at most a day and about 1,000 batches", 3_600_000),
    ] = 3_600_000
    window_ms: Annotated[int, Gt(0), Le(31 * DAY_MS), _WINDOW] = 30 * DAY_MS

    def __post_init__(self) -> None:
        """Reject a stream named twice."""
        if len(set(self.streams)) != len(self.streams):
            raise ValueError(f"streams {', '.join(self.streams)}: each is named once")


@dataclass(frozen=True, slots=True, kw_only=True)
class FreezeWindow:
    """Minutes of a week, in UTC, in which nothing is narrowed."""

    __pydantic_config__: ClassVar[dict[str, Any]] = STRICT

    days: Annotated[tuple[Day, ...], MinLen(1), MaxLen(7)]
    """Days of the week, each once."""
    from_minute: Annotated[int, Ge(0), Lt(MINUTES_OF_DAY)] = 0
    """First minute of the day, 0 being midnight UTC."""
    to_minute: Annotated[int, Gt(0), Le(MINUTES_OF_DAY)] = MINUTES_OF_DAY
    """Minute of the day at which it ends, exclusive; a freeze that passes midnight is written as two windows."""

    def __post_init__(self) -> None:
        """Reject an empty window or a day named twice."""
        if len(set(self.days)) != len(self.days):
            raise ValueError(f"days {', '.join(self.days)}: each day is named once")
        if self.from_minute >= self.to_minute:
            raise ValueError(
                f"to_minute {self.to_minute} is not after from_minute {self.from_minute}; "
                "a freeze that passes midnight is written as two windows"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """How the controller may act on a stream."""

    __pydantic_config__: ClassVar[dict[str, Any]] = STRICT

    mode: Annotated[
        Mode,
        Shown(
            "How the job takes a bound: Off, never, the controller only watches; OnRestart, when somebody restarts the "
            "job; Restart, the job restarts itself between batches; Live, without a restart"
        ),
    ] = "Off"
    min_bound_ms: Annotated[DurationMs, Shown("Minimum bound", 30_000, "Minimum bound")] = 0
    max_bound_ms: Annotated[
        DurationMs | None,
        Shown(
            "Maximum bound",
            3_600_000,
            "Maximum bound",
            "nothing wider than the SLO's window, unless it is in use already",
        ),
    ] = None
    directions: Annotated[
        tuple[Direction, ...],
        MinLen(1),
        MaxLen(2),
        Shown("Which ways the controller may change the bound: both, or only one of widen and narrow"),
    ] = ("Widen", "Narrow")
    margin_ppm: Annotated[
        int, Ge(0), Le(10_000_000), Shown("Margin added to the required bound, as a share of it", 100_000)
    ] = 0
    cooldown_ms: Annotated[
        int,
        Ge(0),
        Le(31 * DAY_MS),
        Shown("Minimum time between two published narrowings; widening never waits for it", 300_000),
    ] = 3_600_000
    max_narrowings_a_day: Annotated[
        Annotated[int, Ge(1)] | None, Shown("Maximum number of narrowings published within any 24 hours")
    ] = None
    max_narrowing_ppm: Annotated[
        ShareToAll | None, Shown("Maximum share of the bound in use that one rollout narrows by", 250_000)
    ] = 500_000
    evidence_ms: Annotated[
        int,
        Ge(0),
        Le(31 * DAY_MS),
        Shown("Event time to observe before the stream's first narrowing, 0 for none", 3_600_000),
    ] = 3_600_000
    evidence_windows: Annotated[
        int,
        Ge(0),
        Le(100_000),
        Shown(
            "Windows to observe before the stream's first narrowing, 0 for none; operators without windows need none",
            100,
        ),
    ] = 100
    freeze_windows: Annotated[
        tuple[FreezeWindow, ...],
        MaxLen(50),
        Shown("When nothing is narrowed, in UTC", "Mon-Fri 08:00-18:00"),
    ] = ()
    paused: bool = False
    """Whether new rollouts are stopped; one under way is still verified, and rolled back if it is worse."""
    on_no_data: Annotated[
        OnNoData,
        Shown(
            "What to publish when the reports of a job stop: hold, the bound in use; max, the maximum bound; own, the "
            "job's own bound"
        ),
    ] = "hold"
    approval: Annotated[
        Approval,
        Shown(
            "Which rollouts wait for a person: none; the first of the stream; those that narrow; all",
            label="Which rollouts wait for a person",
        ),
    ] = "first"
    gates: Annotated[
        tuple[Name, ...],
        MaxLen(MAX_GATES),
        Shown(
            "Outside gates that are asked before a narrowing is published and while it is verified, by the names that "
            "the controller's operators gave them (TIDEMARK_GATES_FILE)"
        ),
    ] = ()
    late: Annotated[
        LatePolicy | None,
        Shown(
            "What becomes of late rows, within a minute, where the job's call has late=side(...): side, they are kept; "
            "drop, they are only counted",
            none="what the call says",
        ),
    ] = None
    labels: Annotated[
        dict[str, Annotated[str, MinLen(1), MaxLen(100)]],
        MaxLen(MAX_LABELS),
        Shown("Labels of the stream, which its alerts carry and are routed by", "team=payments"),
    ] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Reject contradictions."""
        if self.max_bound_ms is not None and self.max_bound_ms < self.min_bound_ms:
            raise ValueError(f"max_bound_ms {self.max_bound_ms} is below min_bound_ms {self.min_bound_ms}")
        if len(set(self.directions)) != len(self.directions):
            raise ValueError(f"directions {', '.join(self.directions)}: each is named once")
        if len(set(self.gates)) != len(self.gates):
            raise ValueError(f"gates {', '.join(self.gates)}: each is named once")
        check_labels(self.labels)
        if self.on_no_data == "max" and self.max_bound_ms is None:
            raise ValueError("on_no_data is max, but there is no max_bound_ms to widen to; set one")
