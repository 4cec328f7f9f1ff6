"""The states of a rollout and the legal ways between them: one table for the code, the tests and the documentation."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from tidemark.models.protocol.messages import Envelope, Mode
from tidemark.models.recommend.promise import NOTHING_PROMISED, Promise
from tidemark.models.rollout.evidence import Judged, rows_per_event
from tidemark.models.specs.slo import Direction, Policy, Slo

if TYPE_CHECKING:
    from tidemark.models.rollout.evidence import EvidenceSpan


State = Literal[
    "Recommended",
    "AwaitingApproval",
    "Published",
    "Acknowledged",
    "Effective",
    "Verified",
    "RolledBack",
    "Superseded",
    "Expired",
    "Discarded",
]

Act = Literal["approve", "discard", "rollback", "lift"]
"""What a person may do with a rollout."""

TRANSITIONS: dict[State, frozenset[State]] = {
    "Recommended": frozenset({"AwaitingApproval", "Published", "Superseded", "Discarded"}),
    "AwaitingApproval": frozenset({"Recommended", "Published", "Superseded", "Expired", "Discarded"}),
    "Published": frozenset({"Acknowledged", "RolledBack", "Superseded", "Expired"}),
    "Acknowledged": frozenset({"Effective", "RolledBack", "Superseded", "Expired"}),
    "Effective": frozenset({"Verified", "RolledBack", "Superseded", "Expired"}),
    "Verified": frozenset({"RolledBack"}),
    "RolledBack": frozenset(),
    "Superseded": frozenset(),
    "Expired": frozenset(),
    "Discarded": frozenset(),
}
"""By state, the states that can follow. A verified rollout is rolled back by a person, or when it misses its target."""

CANDIDATE: frozenset[State] = frozenset({"Recommended", "AwaitingApproval"})
"""States in which it is not published."""

UNDER_WAY: frozenset[State] = frozenset({"Published", "Acknowledged", "Effective"})
"""States in which it is published and not verified."""

OPEN = CANDIDATE | UNDER_WAY
"""States that are not final. A stream has at most one open rollout."""

_ACTS: dict[Act, frozenset[State]] = {
    "approve": CANDIDATE,
    "discard": CANDIDATE,
    "rollback": UNDER_WAY | {"Verified"},
}


def allowed(state: State, *, vetoed: bool) -> tuple[Act, ...]:
    """Return what a person may do with a rollout in ``state``; a veto that holds can be lifted."""
    acts = tuple(act for act, states in _ACTS.items() if state in states)
    return (*acts, "lift") if vetoed else acts


def state_text(state: State) -> str:
    """Return a state in words, such as ``rolled back``."""
    return re.sub("(?<=[a-z])(?=[A-Z])", " ", state).lower()


def rollout_text(number: int, state: State, reason: str) -> str:
    """Return the number of a rollout, its state and the reason, without naming the state twice."""
    words = state_text(state)
    return f"{number}: {reason}" if reason.startswith(words) else f"{number} is {words}: {reason}"


Cause = Literal["Decision", "NoData", "Operator"]
"""Why there is a rollout: a decision recommended it, the policy for the time without data required it, or a person
changed the goal of a live job."""

Gate = Literal[
    "Pinned",
    "Paused",
    "NotListening",
    "Vetoed",
    "FailedBefore",
    "Evidence",
    "Frozen",
    "Cooldown",
    "RateLimit",
    "FleetShare",
    "Approval",
    "Outside",
    "Restarts",
]
"""What can hold a rollout before it is published. Pinned and Outside hold it while it is verified, too, and Restarts
holds its rollback."""

FailureKind = Literal["Completeness", "Latency", "State", "Outside", "ByHand", "Discarded"]

Phase = Literal["publish", "verify"]
"""When an outside gate is asked: before a rollout is published, or while it is verified."""

Verdict = Literal["yes", "no", "unknown"]
"""What an outside gate answers; unknown: it could not be asked, or does not know."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GateAnswer:
    """The newest answer of an outside gate about a rollout."""

    gate: str
    """Name of the gate."""
    phase: Phase
    """What it was asked about: publish, before the rollout is published; verify, while it is verified."""
    bound_ms: int
    """The bound that it was asked about, in milliseconds."""
    verdict: Verdict
    """What it answered; unknown: it could not be asked, or does not know."""
    said: str
    """The answer in words."""
    at_us: int
    """When it was asked, in microseconds since the epoch."""
    failures: int = 0
    """How often it said no in this phase since it last said yes."""


NOTHING_JUDGED = Judged(0, 0, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Approved:
    """Who approved a rollout."""

    at_us: int
    """When, in microseconds since the epoch."""
    by: str | None
    """Who; null without authentication."""
    reason: str
    """Why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutBounds:
    """The state of a rollout, and the bounds that it goes between."""

    id: int = 0
    """Its number; later ones have higher numbers."""
    state: State
    """Its state."""
    held_by: Gate | None = None
    """The gate that holds it; null when none does."""
    from_bound_ms: int | None = None
    """The bound published before it, in milliseconds, to which a rollback returns; null: the job kept its own."""
    to_bound_ms: int | None
    """The bound that it publishes, in milliseconds; null: the job keeps its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutTimes(RolloutBounds):
    """The same, and when it came into force."""

    published_us: int | None = None
    """When it was published, in microseconds since the epoch; null before."""
    effective_us: int | None = None
    """Trigger time of the first batch whose watermark followed it, in microseconds since the epoch; null before."""
    ended_us: int | None = None
    """When it was verified or ended otherwise, in microseconds since the epoch; null while it is open."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollout(RolloutTimes):
    """One change of the published bound or envelope, from the recommendation to its end."""

    reason: str = ""
    """Why it is in this state, or what it waits for."""
    cause: Cause
    """Its cause: a decision from rows (Decision), the policy without data (NoData), or a write in Live (Operator)."""
    direction: Direction
    """Which way it changes the bound, or in Live the envelope."""
    first: bool
    """Whether no bound was published before it."""
    mode: Mode
    """Mode of the stream."""
    from_envelope: Envelope | None = None
    """In Live: the envelope published before it; null in every other mode."""
    to_envelope: Envelope | None = None
    """In Live: the envelope that it publishes; null in every other mode."""
    in_use_bound_ms: int | None = None
    """The bound in the plan of the newest batch when it was proposed, in milliseconds; null when it is not known."""
    generation: int | None = None
    """Generation that published it first; null before."""
    newest_report: int | None = None
    """Number of the newest report that it rests on; null without any."""
    predicted: Promise = NOTHING_PROMISED
    """Its prediction."""
    judged: Judged = NOTHING_JUDGED
    """(Row, key) pairs judged while it was in effect."""
    at_risk: Judged = NOTHING_JUDGED
    """Those judged after whole windows had opened and closed under it: they verify it."""
    needed_rows: int = 0
    """How many of those are needed to verify it."""
    event_ms: int = 0
    """How far the watermark has moved since it took effect, in milliseconds of event time."""
    needed_event_ms: int = 0
    """How far it must move to verify it, in milliseconds; 0 before it is in effect."""
    approved: Approved | None = None
    """Who approved it; null when nobody has."""
    gate_answers: tuple[GateAnswer, ...] = ()
    """The newest answer about it of each outside gate that was asked."""
    vetoed: bool = False
    """Whether a person discarded it or rolled it back, and nobody has lifted that: its bound is not tried again."""
    created_us: int = 0
    """When it was proposed, in microseconds since the epoch."""
    changed_us: int
    """When its state last changed, in microseconds since the epoch."""
    acknowledged_us: int | None = None
    """When the job was first known to have it, in microseconds since the epoch; null before."""
    missed_us: int | None = None
    """When it missed its target after it was verified; null when it did not, or meets it again."""

    @property
    def rows_per_event(self) -> float:
        """How many pairs share their fate, by the evidence that the prediction rests on."""
        return rows_per_event(self.predicted.rows, self.predicted.events)


@dataclass(frozen=True, slots=True)
class Failure:
    """A bound that failed under the same SLO and policy, or that a person rejected."""

    direction: Direction
    """Narrow: bounds that are as narrow or narrower fail too; Widen: bounds that are as wide or wider."""
    bound_ms: int | None
    """The bound that failed, in milliseconds; None: the job's own."""
    until_us: int | None
    """Until when it is not tried again, in microseconds; None for a veto, which holds until a person lifts it."""
    why: str
    rollout_id: int


@dataclass(frozen=True, slots=True)
class RolloutEffect:
    """What became of the bound that a rollout published. None: not yet."""

    acknowledged_us: int | None = None
    """When the job was first known to apply what this rollout publishes, in microseconds."""
    effective_us: int | None = None
    """When that first took effect, in microseconds."""
    judged: Judged = NOTHING_JUDGED
    """The fate of the pairs that arrived while it was in effect."""
    state_rows: int | None = None
    """Rows of state in the newest batch since."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutFacts(RolloutEffect):
    """What the state of a rollout depends on. None: unknown or absent."""

    policy: Policy
    slo: Slo
    pinned: str | None = None
    """Why a kill switch holds the stream; None when none does."""
    last_contact_us: int | None = None
    """When the job was last seen, by a report or an acknowledgement, in microseconds."""
    unanswered_us: int | None = None
    """Since when the published bound has not been acknowledged, in microseconds; None when it is, or in OnRestart."""
    failures: tuple[Failure, ...] = ()
    """Bounds that failed under this SLO and policy, and vetoes under any."""
    evidence: EvidenceSpan | None = None
    """The evidence that a narrowing rests on; None when none is required."""
    published_before: bool = False
    """Whether a recommended bound was ever published for this stream."""
    narrowed_us: tuple[int, ...] = ()
    """When narrowings of this stream were published, ascending, in microseconds, as far back as any rule needs."""
    fleet_narrowing: int = 0
    """Other streams whose narrowing is under way."""
    fleet_max: int = 1
    """How many may be, of all streams that are steered."""
    published_ms: int | None = None
    """The bound published now, whether or not a pin overrides it, in milliseconds; None when there is none."""
    gate_answers: tuple[GateAnswer, ...] = ()
    """The newest answers of outside gates about the rollout."""
    at_risk: Judged = NOTHING_JUDGED
    """The fate of the pairs judged after whole windows had opened and closed under it."""
    event_us: int = 0
    """Event time that has passed under it, in microseconds."""
    latency_us: float | None = None
    """Mean wall latency of the windows that closed since, in microseconds."""


@dataclass(frozen=True, slots=True)
class Move:
    """The next state of a rollout."""

    state: State
    """The state; the one before when only the reason changes."""
    reason: str
    """Why, or what the rollout waits for."""
    gate: Gate | None = None
    """What holds it; None when nothing does."""
    failure: FailureKind | None = None
    """What failed, when it is rolled back, or when it is verified and then misses its target."""
