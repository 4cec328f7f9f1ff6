"""What the state machine knows: the rollout itself, and what was found out about its stream and the fleet."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from tidemark.models.prediction import Judged
from tidemark.models.rollout.states import State
from tidemark.models.slo import Direction, Policy, Slo
from tidemark.models.wire import Mode

if TYPE_CHECKING:
    from tidemark.models.rollout.evidence import EvidenceSpan

__all__ = ["Cause", "Facts", "Failure", "FailureKind", "Gate", "Move", "Rollout"]

Cause = Literal["Decision", "NoData", "Operator"]
"""Why there is a rollout: rows asked for it, the policy for the time without data did, or a person changed what a live
job is to reach."""

Gate = Literal[
    "Pinned",
    "Paused",
    "NotListening",
    "FailedBefore",
    "Evidence",
    "Frozen",
    "Cooldown",
    "RateLimit",
    "FleetShare",
    "Approval",
]
"""What can hold a rollout before it is published."""

FailureKind = Literal["Completeness", "Latency", "State", "ByHand", "Discarded"]


NOTHING_JUDGED = Judged(0, 0, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollout:
    """One change of what a job is told."""

    state: State
    """Where it is."""
    cause: Cause
    """Why there is one."""
    direction: Direction
    """Which way it changes the bound, or in Live the envelope."""
    first: bool
    """Whether the job was told no bound before."""
    mode: Mode
    """Mode of the stream."""
    to_bound_ms: int | None
    """The bound to be told, in milliseconds; None: the job keeps its own."""
    changed_us: int
    """When its state changed last, in microseconds."""
    approved: bool = False
    """Whether a person approved it."""
    published_us: int | None = None
    """When it was published, in microseconds; None before it."""
    acknowledged_us: int | None = None
    """When the job was known to have it, in microseconds; None before it."""
    needed_rows: int = 0
    """(Row, key) pairs that must have been at risk under it before it is verified."""
    needed_event_us: int = 0
    """Event time that must have passed under it before it is verified, in microseconds."""
    missed: bool = False
    """Whether it was seen to miss its target after it was verified."""
    min_ppm: int | None = None
    """Lower end of the completeness that was predicted, in parts per million; None when nothing was."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A value that failed before, under the same SLO and policy."""

    direction: Direction
    """Narrow: what is as narrow or narrower fails too; Widen: what is as wide or wider."""
    bound_ms: int
    """The bound that failed, in milliseconds."""
    until_us: int
    """Until when it is not tried again, in microseconds."""
    why: str
    """How it failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What the state of a rollout depends on. None is unknown, or not there."""

    policy: Policy
    """What is allowed."""
    slo: Slo
    """What is asked for."""
    pinned: str | None = None
    """Why a kill switch holds the stream; None when none does."""
    last_contact_us: int | None = None
    """When the job was heard of last, by a report or an acknowledgement, in microseconds."""
    unanswered_us: int | None = None
    """Since when what was published is not acknowledged, in microseconds; None when it is, or in OnRestart."""
    failures: tuple[Failure, ...] = ()
    """Values that failed under this SLO and policy."""
    evidence: EvidenceSpan | None = None
    """The evidence that a first narrowing rests on; None when none is asked for."""
    published_before: bool = False
    """Whether a recommended bound was ever published for this stream."""
    narrowed_us: tuple[int, ...] = ()
    """When narrowings of this stream were published, ascending, in microseconds, as far back as any rule looks."""
    fleet_narrowing: int = 0
    """Other streams whose narrowing is under way."""
    fleet_max: int = 1
    """How many may be, of all streams that are steered."""
    acknowledged_us: int | None = None
    """When the job was first known to have what this rollout tells, in microseconds."""
    effective_us: int | None = None
    """When that was first in effect, in microseconds."""
    judged: Judged = NOTHING_JUDGED
    """What became of the pairs that met it in effect."""
    at_risk: Judged = NOTHING_JUDGED
    """What became of the pairs that were judged once whole windows had opened and closed under it."""
    event_us: int = 0
    """Event time that has passed under it, in microseconds."""
    latency_us: float | None = None
    """Mean wall latency of the windows that closed since, in microseconds."""
    state_rows: int | None = None
    """Rows of state in the newest batch since."""


@dataclass(frozen=True, slots=True)
class Move:
    """What becomes of a rollout."""

    state: State
    """The state it has now; the one before when only the reason is another."""
    reason: str
    """Why, or what it waits for."""
    gate: Gate | None = None
    """What holds it; None when nothing does."""
    failure: FailureKind | None = None
    """What went wrong, when it is rolled back, or when it is verified and then misses its target."""
