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

MAX_SIDES = 4
"""Maximum number of streams of one join: the work of choosing bounds grows with its cube."""

MAX_GATES = 10
"""Maximum number of outside gates of one policy."""


_WINDOW = Shown("Rolling window over which the error budget counts", 30 * 86_400_000, "Window of the budget")
_HORIZON = Shown("How far back evidence counts", 43_200_000, "Horizon of the evidence")
_CONFIDENCE = Shown("Confidence with which the target must be met", 950_000)
"""The same in the SLOs of streams and of joins."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Slo:
    """The completeness SLO of a stream."""

    __pydantic_config__: ClassVar[dict[str, Any]] = STRICT

    target_ppm: Annotated[int, Gt(0), Lt(1_000_000), Shown("Share of the rows to admit", 995_000)]
    """Share of (row, window) pairs to admit, in parts per million."""
    latency_cap_ms: Annotated[Count | None, Shown("Maximum mean latency of a window", 900_000)] = None
    """Maximum mean emit latency (wall time of emission minus window end), in milliseconds; null for no cap."""
    on_conflict: Annotated[
        OnConflict | None,
        Shown(
            "What to do when no bound meets the target and the caps together: miss-target keeps the caps and admits "
            "fewer rows; exceed-latency-cap or exceed-state-cap meets the target and exceeds that cap; none keeps the "
            "bound in use and raises a condition",
            label="When no bound meets all",
        ),
    ] = None
    """Which constraint is broken when no bound meets all; null: none, the bound in use is held."""
    objective: Annotated[
        Objective,
        Shown(
            "What must meet the target: occurrences, all rows together; timeslices, each of most windows",
            label="The target applies to",
        ),
    ] = "occurrences"
    """occurrences: the target is a share of all rows; timeslices: a share of the windows must each reach it."""
    good_windows_ppm: Annotated[
        int,
        Gt(0),
        Le(1_000_000),
        Shown(
            "With timeslices: share of the windows that must meet the target",
            990_000,
            "Windows that must reach it",
        ),
    ] = 990_000
    """Under timeslices: share of the windows that must reach the target, in parts per million."""
    worst_window_ppm: Annotated[
        Annotated[int, Ge(0), Lt(1_000_000)] | None,
        Shown(
            "Minimum share of the rows that every window must admit",
            900_000,
            "Minimum of every single window",
        ),
    ] = None
    """Minimum completeness of every single window, in parts per million; null for no floor."""
    state_cap_rows: Annotated[
        Count | None, Shown("Maximum number of rows of state", 1_000_000, "State cap in rows")
    ] = None
    """Maximum rows of state; null for no cap."""
    window_ms: Annotated[int, Gt(0), Le(31 * 86_400_000), _WINDOW] = 30 * 86_400_000
    """Rolling window over which the budget counts, in milliseconds."""
    horizon_ms: Annotated[int, Gt(0), Le(31 * 86_400_000), _HORIZON] = 86_400_000
    """How far back evidence counts, in milliseconds."""
    confidence_ppm: Annotated[int, Gt(0), Lt(1_000_000), _CONFIDENCE] = 950_000
    """Confidence with which the target must be certified, in parts per million."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinSlo:
    """The completeness SLO of the joined output of streams of one query."""

    __pydantic_config__: ClassVar[dict[str, Any]] = STRICT

    streams: Annotated[
        tuple[Name, ...],
        MinLen(2),
        MaxLen(MAX_SIDES),
        Shown("The streams that one query joins", "clicks,impressions"),
    ]
    """Names of the streams that are joined, each once; each has an SLO of its own too."""
    target_ppm: Annotated[int, Gt(0), Lt(1_000_000), Shown("Share of the joined pairs to come out", 990_000)]
    """Share of the joined pairs to come out, in parts per million."""
    confidence_ppm: Annotated[int, Gt(0), Lt(1_000_000), _CONFIDENCE] = 950_000
    """Confidence with which the target must be certified, in parts per million."""
    horizon_ms: Annotated[
        int, Gt(0), Le(86_400_000), Shown("How far back evidence counts, at most a day", 3_600_000)
    ] = 3_600_000
    """How far back evidence counts, in milliseconds; at most about 1,000 batches count."""
    window_ms: Annotated[int, Gt(0), Le(31 * 86_400_000), _WINDOW] = 30 * 86_400_000
    """Rolling window over which the budget counts, in milliseconds."""

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
    """Off only observes; OnRestart gives the job its bound at its next start; Restart makes the runner restart it; Live
    steers it without a restart."""
    min_bound_ms: Annotated[DurationMs, Shown("Minimum bound", 30_000, "Minimum bound")] = 0
    """The minimum bound, in milliseconds."""
    max_bound_ms: Annotated[DurationMs | None, Shown("Maximum bound", 3_600_000, "Maximum bound")] = None
    """The maximum bound, in milliseconds; null: nothing wider than the SLO's window, unless it is in use already."""
    directions: Annotated[
        tuple[Direction, ...],
        MinLen(1),
        MaxLen(2),
        Shown("Which way the controller may change the bound: both, widen or narrow"),
    ] = ("Widen", "Narrow")
    """Which ways the bound may be changed; at least one."""
    margin_ppm: Annotated[
        int, Ge(0), Le(10_000_000), Shown("Margin added to the required bound, as a share of it", 100_000)
    ] = 0
    """What is added to the required bound, as a share of it, in parts per million."""
    cooldown_ms: Annotated[
        int, Ge(0), Le(31 * 86_400_000), Shown("Minimum time between two narrowings", 300_000)
    ] = 3_600_000
    """Minimum time between two published narrowings, in milliseconds; widening never waits for it."""
    max_narrowings_a_day: Annotated[
        Annotated[int, Ge(1)] | None, Shown("Maximum number of narrowings in 24 hours")
    ] = None
    """Maximum number of narrowings published within any 24 hours; null for no limit."""
    max_narrowing_ppm: Annotated[
        Annotated[int, Gt(0), Le(1_000_000)] | None,
        Shown("Maximum share of the bound that one rollout narrows by", 250_000),
    ] = 500_000
    """Maximum narrowing by one rollout, as a share of the bound in use, in parts per million; null for no limit."""
    evidence_ms: Annotated[
        int,
        Ge(0),
        Le(31 * 86_400_000),
        Shown("Event time to observe before the first narrowing, 0 for none", 3_600_000),
    ] = 3_600_000
    """Event time that reports must cover before a stream's first narrowing, in milliseconds; 0 for none."""
    evidence_windows: Annotated[
        int,
        Ge(0),
        Le(100_000),
        Shown("Number of windows to observe before the first narrowing, 0 for none", 100),
    ] = 100
    """Windows of event time that they must cover before it; 0 for none. Operators without windows need none."""
    freeze_windows: Annotated[
        tuple[FreezeWindow, ...],
        MaxLen(50),
        Shown("When nothing is narrowed, in UTC", "Mon-Fri 08:00-18:00"),
    ] = ()
    """When nothing is narrowed, in UTC."""
    paused: bool = False
    """Whether new rollouts are stopped; one under way is still verified, and rolled back if it is worse."""
    on_no_data: Annotated[
        OnNoData,
        Shown(
            "What to publish when the reports of a job stop: hold, the bound as it is; max, the maximum bound; own, "
            "the job's own bound"
        ),
    ] = "hold"
    """The bound for a job whose reports stopped. hold: the one in use; max: max_bound_ms; own: the job's own."""
    approval: Annotated[
        Approval,
        Shown(
            "Which rollouts wait for approval: none; the first of the stream; those that narrow; all",
            label="Which rollouts wait for a person",
        ),
    ] = "first"
    """Which rollouts wait for a person: none, the first of the stream, those that narrow, or all."""
    gates: Annotated[
        tuple[Name, ...],
        MaxLen(MAX_GATES),
        Shown(
            "Outside gate to ask before a narrowing is published and while it is verified, by the name that the "
            "controller's operators gave it"
        ),
    ] = ()
    """Outside gates that are asked before a narrowing is published and while it is verified, by the names that the
    controller's operators gave them (TIDEMARK_GATES_FILE)."""
    late: Annotated[
        LatePolicy | None,
        Shown(
            "What becomes of late rows where the job's call has late=side(...): side, they are kept; drop, they are "
            "only counted; call, what the call says. The job follows within a minute",
            none="call",
        ),
    ] = None
    """What becomes of late rows where the job's call has late=side(...): side keeps them, drop only counts them; null:
    what the call says. A job follows it while it runs."""
    labels: Annotated[
        dict[str, Annotated[str, MinLen(1), MaxLen(100)]],
        MaxLen(MAX_LABELS),
        Shown("Label of the stream, which its alerts carry and are routed by", "team=payments"),
    ] = field(default_factory=dict)
    """Labels of the stream by name, such as team: its alerts carry them and are routed by them."""

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
