"""The goal (SLO) and the permissions (policy) that an SRE sets for one stream."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal

from annotated_types import Ge, Gt, Le, Lt, MaxLen, MinLen

from tidemark.models.base.confidence import min_events
from tidemark.models.base.duration import format_duration
from tidemark.models.base.ranges import STRICT, Count, DurationMs
from tidemark.models.base.target import PPM
from tidemark.models.protocol.late_policy import LatePolicy
from tidemark.models.protocol.messages import Mode, Name
from tidemark.models.specs.fields import shown

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

HORIZONS_MS = tuple(days * DAY_MS for days in (1, 2, 4, 8, 16, 31))
"""Horizons that an SLO without one may have: whole days, so that each holds the daily cycle, and up to the longest one
that an SLO may set, for which everything is kept."""

Share = Annotated[int, Gt(0), Lt(1_000_000)]
"""Parts per million, neither nothing nor all."""

ShareToAll = Annotated[int, Gt(0), Le(1_000_000)]
"""Parts per million, up to all."""

MAX_WINDOW_MS = 31 * DAY_MS
"""Maximum time over which an SLO counts."""

WindowMs = Annotated[int, Gt(0), Le(MAX_WINDOW_MS)]
DelayMs = Annotated[int, Ge(0), Le(31 * DAY_MS)]

MAX_SIDES = 4
"""Maximum number of streams of one join: the work of choosing bounds grows with its cube."""

MAX_GATES = 10
"""Maximum number of outside gates of one policy."""


_WINDOW = shown("Rolling window over which the error budget counts", 30 * DAY_MS, "Window of the budget")
_CONFIDENCE = shown("Confidence with which the target must be certified", 950_000)
"""The same in the SLOs of streams and of joins."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Slo:
    """The completeness SLO of a stream."""

    __pydantic_config__: ClassVar[dict[str, Any]] = STRICT

    target_ppm: Share = field(metadata=shown("Share of the rows, or (row, window) pairs, to admit", 995_000))
    latency_cap_ms: Count | None = field(
        default=None,
        metadata=shown("Maximum mean latency of a window: wall time of emission minus its end", 900_000),
    )
    on_conflict: OnConflict | None = field(
        default=None,
        metadata=shown(
            "What to do when no bound meets the target and the caps together: miss_target keeps the caps and admits "
            "fewer rows; exceed_latency_cap or exceed_state_cap meets the target and exceeds that cap",
            label="When no bound meets all",
            none="the bound in use is held, and a condition raised",
        ),
    )
    objective: Objective = field(
        default="occurrences",
        metadata=shown(
            "What must meet the target: occurrences, all rows together; timeslices, each of most windows",
            label="The target applies to",
        ),
    )
    good_windows_ppm: ShareToAll = field(
        default=990_000,
        metadata=shown(
            "With timeslices: share of the windows that must reach the target",
            990_000,
            "Windows that must reach it",
        ),
    )
    worst_window_ppm: Annotated[int, Ge(0), Lt(1_000_000)] | None = field(
        default=None,
        metadata=shown(
            "Minimum completeness of every single window", 900_000, "Minimum of every single window"
        ),
    )
    state_cap_rows: Count | None = field(
        default=None, metadata=shown("Maximum number of rows of state", 1_000_000, "State cap in rows")
    )
    window_ms: WindowMs = field(default=30 * DAY_MS, metadata=_WINDOW)
    horizon_ms: WindowMs | None = field(
        default=None,
        metadata=shown(
            "How far back evidence counts",
            43_200_000,
            "Horizon of the evidence",
            "a day, and longer where a day has too little evidence, up to 31 days",
        ),
    )
    confidence_ppm: Share = field(default=950_000, metadata=_CONFIDENCE)

    @property
    def horizons_ms(self) -> tuple[int, ...]:
        """The horizons to try, ascending, in milliseconds: the one that is set, or those that it is left open to."""
        return HORIZONS_MS if self.horizon_ms is None else (self.horizon_ms,)

    @property
    def events_needed(self) -> int:
        """Minimum number of independent events that certify the target."""
        return min_events(self.target_ppm / PPM, self.confidence_ppm / PPM)


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinSlo:
    """The completeness SLO of the joined output of streams of one query."""

    __pydantic_config__: ClassVar[dict[str, Any]] = STRICT

    streams: Annotated[tuple[Name, ...], MinLen(2), MaxLen(MAX_SIDES)] = field(
        metadata=shown(
            "The streams that one query joins, each once; each has an SLO of its own too",
            "clicks,impressions",
        )
    )
    target_ppm: Share = field(metadata=shown("Share of the joined pairs to come out", 990_000))
    confidence_ppm: Share = field(default=950_000, metadata=_CONFIDENCE)
    horizon_ms: Annotated[int, Gt(0), Le(DAY_MS)] = field(
        default=3_600_000,
        metadata=shown("How far back evidence counts, at most a day and about 1,000 batches", 3_600_000),
    )
    window_ms: WindowMs = field(default=30 * DAY_MS, metadata=_WINDOW)

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

    mode: Mode = field(
        default="Off",
        metadata=shown(
            "How the job takes a bound: Off, never, the controller only watches; OnRestart, when somebody restarts the "
            "job; Restart, the job restarts itself between batches; Live, without a restart"
        ),
    )
    min_bound_ms: DurationMs = field(default=0, metadata=shown("Minimum bound", 30_000, "Minimum bound"))
    max_bound_ms: DurationMs | None = field(
        default=None,
        metadata=shown(
            "Maximum bound",
            3_600_000,
            "Maximum bound",
            "nothing wider than the SLO's window, unless it is in use already",
        ),
    )
    directions: Annotated[tuple[Direction, ...], MinLen(1), MaxLen(2)] = field(
        default=("Widen", "Narrow"),
        metadata=shown(
            "Which ways the controller may change the bound: both, or only one of widen and narrow"
        ),
    )
    margin_ppm: Annotated[int, Ge(0), Le(10_000_000)] = field(
        default=0, metadata=shown("Margin added to the required bound, as a share of it", 100_000)
    )
    cooldown_ms: DelayMs = field(
        default=3_600_000,
        metadata=shown("Minimum time between two published narrowings; widening never waits for it", 300_000),
    )
    max_narrowings_a_day: Annotated[int, Ge(1)] | None = field(
        default=None, metadata=shown("Maximum number of narrowings published within any 24 hours")
    )
    max_narrowing_ppm: ShareToAll | None = field(
        default=500_000,
        metadata=shown("Maximum share of the bound in use that one rollout narrows by", 250_000),
    )
    evidence_ms: DelayMs = field(
        default=36_000_000,
        metadata=shown(
            "Event time to observe before the stream is narrowed without a person, 0 for none; "
            "what comes less than nine times within it is not covered",
            36_000_000,
        ),
    )
    evidence_windows: Annotated[int, Ge(0), Le(100_000)] = field(
        default=100,
        metadata=shown(
            "Windows to observe before the stream is narrowed without a person, 0 for none; operators without windows "
            "need none",
            100,
        ),
    )
    freeze_windows: Annotated[tuple[FreezeWindow, ...], MaxLen(50)] = field(
        default=(), metadata=shown("When nothing is narrowed, in UTC", "Mon-Fri 08:00-18:00")
    )
    paused: bool = False
    """Whether new rollouts are stopped; one under way is still verified, and rolled back if it is worse."""
    on_no_data: OnNoData = field(
        default="hold",
        metadata=shown(
            "What to publish when the reports of a job stop: hold, the bound in use; max, the maximum bound; own, the "
            "job's own bound"
        ),
    )
    approval: Approval = field(
        default="first",
        metadata=shown(
            "Which rollouts wait for a person: none; the first of the stream; those that narrow; all",
            label="Which rollouts wait for a person",
        ),
    )
    gates: Annotated[tuple[Name, ...], MaxLen(MAX_GATES)] = field(
        default=(),
        metadata=shown(
            "Outside gates that are asked before a narrowing is published and while it is verified, by the names that "
            "the controller's operators gave them (TIDEMARK_GATES_FILE)"
        ),
    )
    late: LatePolicy | None = field(
        default=None,
        metadata=shown(
            "What becomes of late rows, within a minute, where the job's call has late=side(...): side, they are kept; "
            "drop, they are only counted",
            none="what the call says",
        ),
    )
    labels: Annotated[dict[str, Annotated[str, MinLen(1), MaxLen(100)]], MaxLen(MAX_LABELS)] = field(
        default_factory=dict,
        metadata=shown("Labels of the stream, which its alerts carry and are routed by", "team=payments"),
    )

    def __post_init__(self) -> None:
        """Reject contradictions."""
        if self.max_bound_ms is not None and self.max_bound_ms < self.min_bound_ms:
            most, least = (format_duration(ms * 1_000) for ms in (self.max_bound_ms, self.min_bound_ms))
            raise ValueError(f"max_bound_ms, {most}, is below min_bound_ms, {least}")
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
        "issuer",
        "job",
        "limit",
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
