"""The goal (SLO) and the permissions (policy) that an SRE sets for one stream."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal

from annotated_types import Ge, Gt, Le, Lt, MaxLen, MinLen

from tidemark.models.base.ranges import STRICT, Count, DurationMs
from tidemark.models.protocol.late_policy import LatePolicy
from tidemark.models.protocol.messages import Mode, Name

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Slo:
    """The completeness SLO of a stream."""

    __pydantic_config__: ClassVar[dict[str, Any]] = STRICT

    target_ppm: Annotated[int, Gt(0), Lt(1_000_000)]
    """Share of (row, window) pairs to admit, in parts per million."""
    latency_cap_ms: Count | None = None
    """Maximum mean emit latency (wall time of emission minus window end), in milliseconds; null for no cap."""
    on_conflict: OnConflict | None = None
    """Which constraint is broken when no bound meets all; null: none, the bound in use is held."""
    confidence_ppm: Annotated[int, Gt(0), Lt(1_000_000)] = 950_000
    """Confidence with which the target must be certified, in parts per million."""
    horizon_ms: Annotated[int, Gt(0), Le(31 * 86_400_000)] = 86_400_000
    """How far back evidence counts, in milliseconds."""
    objective: Objective = "occurrences"
    """occurrences: the target is a share of all rows; timeslices: a share of the windows must each reach it."""
    good_windows_ppm: Annotated[int, Gt(0), Le(1_000_000)] = 990_000
    """Under timeslices: share of the windows that must reach the target, in parts per million."""
    window_ms: Annotated[int, Gt(0), Le(31 * 86_400_000)] = 30 * 86_400_000
    """Rolling window over which the budget counts, in milliseconds."""
    state_cap_rows: Count | None = None
    """Maximum rows of state; null for no cap."""
    worst_window_ppm: Annotated[int, Ge(0), Lt(1_000_000)] | None = None
    """Minimum completeness of every single window, in parts per million; null for no floor."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinSlo:
    """The completeness SLO of the joined output of streams of one query."""

    __pydantic_config__: ClassVar[dict[str, Any]] = STRICT

    streams: Annotated[tuple[Name, ...], MinLen(2), MaxLen(MAX_SIDES)]
    """Names of the streams that are joined, each once; each has an SLO of its own too."""
    target_ppm: Annotated[int, Gt(0), Lt(1_000_000)]
    """Share of the joined pairs to come out, in parts per million."""
    confidence_ppm: Annotated[int, Gt(0), Lt(1_000_000)] = 950_000
    """Confidence with which the target must be certified, in parts per million."""
    horizon_ms: Annotated[int, Gt(0), Le(86_400_000)] = 3_600_000
    """How far back evidence counts, in milliseconds; at most about 1,000 batches count."""
    window_ms: Annotated[int, Gt(0), Le(31 * 86_400_000)] = 30 * 86_400_000
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

    mode: Mode = "Off"
    """Off only observes; OnRestart gives the job its bound at its next start; Restart makes the runner restart it; Live
    steers it without a restart."""
    min_bound_ms: DurationMs = 0
    """The minimum bound, in milliseconds."""
    max_bound_ms: DurationMs | None = None
    """The maximum bound, in milliseconds; null: nothing wider than the SLO's window, unless it is in use already."""
    directions: Annotated[tuple[Direction, ...], MinLen(1), MaxLen(2)] = ("Widen", "Narrow")
    """Which ways the bound may be changed; at least one."""
    margin_ppm: Annotated[int, Ge(0), Le(10_000_000)] = 0
    """What is added to the required bound, as a share of it, in parts per million."""
    cooldown_ms: Annotated[int, Ge(0), Le(31 * 86_400_000)] = 3_600_000
    """Minimum time between two published narrowings, in milliseconds; widening never waits for it."""
    max_narrowings_a_day: Annotated[int, Ge(1)] | None = None
    """Maximum number of narrowings published within any 24 hours; null for no limit."""
    max_narrowing_ppm: Annotated[int, Gt(0), Le(1_000_000)] | None = 500_000
    """Maximum narrowing by one rollout, as a share of the bound in use, in parts per million; null for no limit."""
    evidence_ms: Annotated[int, Ge(0), Le(31 * 86_400_000)] = 3_600_000
    """Event time that reports must cover before a stream's first narrowing, in milliseconds; 0 for none."""
    evidence_windows: Annotated[int, Ge(0), Le(100_000)] = 100
    """Windows of event time that they must cover before it; 0 for none. Operators without windows need none."""
    freeze_windows: Annotated[tuple[FreezeWindow, ...], MaxLen(50)] = ()
    """When nothing is narrowed, in UTC."""
    paused: bool = False
    """Whether new rollouts are stopped; one under way is still verified, and rolled back if it is worse."""
    on_no_data: OnNoData = "hold"
    """The bound for a job whose reports stopped. hold: the one in use; max: max_bound_ms; own: the job's own."""
    approval: Approval = "first"
    """Which rollouts wait for a person: none, the first of the stream, those that narrow, or all."""
    gates: Annotated[tuple[Name, ...], MaxLen(MAX_GATES)] = ()
    """Outside gates that are asked before a narrowing is published and while it is verified, by the names that the
    controller's operators gave them (TIDEMARK_GATES_FILE)."""
    late: LatePolicy | None = None
    """What becomes of late rows where the job's call has late=side(...): side keeps them, drop only counts them; null:
    what the call says. A job follows it while it runs."""
    labels: Annotated[dict[str, Annotated[str, MinLen(1), MaxLen(100)]], MaxLen(MAX_LABELS)] = field(
        default_factory=dict
    )
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


MAX_LABELS = 10
"""Maximum number of labels of one stream."""

RESERVED_LABELS = frozenset(
    {
        "alertname",
        "cluster",
        "instance",
        "job",
        "mode",
        "namespace",
        "objective",
        "partition",
        "severity",
        "sloth_id",
        "sloth_service",
        "sloth_severity",
        "sloth_slo",
        "spark_job",
        "stream",
    }
)
"""Names that alerts and metrics have for their own labels."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}", re.ASCII)


def label_name_problem(name: str) -> str | None:
    """Return why ``name`` cannot be the name of a label of a stream, None when it can."""
    if not _NAME.fullmatch(name) or name.startswith("__"):
        return (
            f"{name!r} cannot be the name of a label: it has letters, digits and underscores, at most 63, begins with "
            "no digit and not with two underscores"
        )
    if name in RESERVED_LABELS:
        return f"{name!r} is a label that alerts and metrics have of their own; choose another name"
    return None


def check_labels(labels: Mapping[str, str]) -> None:
    """Check the labels of a stream.

    Raises:
        ValueError: when a name cannot be one.
    """
    for name in labels:
        problem = label_name_problem(name)
        if problem is not None:
            raise ValueError(f"labels: {problem}")
