"""Rollouts, events and outside gates."""

from __future__ import annotations

from typing import Literal

from tidemark.controller.base.answer import Answer
from tidemark.models.protocol.messages import Envelope, Mode
from tidemark.models.recommend.promise import Promise
from tidemark.models.rollout.states import Act, Cause, Gate, GateAnswer, State
from tidemark.models.specs.slo import Direction


class Approved(Answer):
    """Who approved a rollout."""

    at_us: int
    """When, in microseconds since the epoch."""
    by: str | None
    """Who; null without authentication."""
    reason: str
    """Why."""


class Proof(Answer):
    """The ledger's figures for a rollout in effect."""

    rows: int
    """(Row, key) pairs judged while it was in effect."""
    at_risk_rows: int
    """Those judged after whole windows had opened and closed under it: they verify it."""
    needed_rows: int
    """How many of those are needed to verify it."""
    event_ms: int
    """How far the watermark has moved since it took effect, in milliseconds of event time."""
    needed_event_ms: int
    """How far it must move to verify it, in milliseconds; 0 before it is in effect."""
    late_min: int
    """Pairs that were late for sure."""
    late_max: int
    """Pairs that may have been late."""


class RolloutBounds(Answer):
    """The state of a rollout, and the bounds that it goes between."""

    id: int
    """Its number; later ones have higher numbers."""
    state: State
    """Its state."""
    held_by: Gate | None
    """The gate that holds it; null when none does."""
    from_bound_ms: int | None
    """The bound published before it, in milliseconds, to which a rollback returns; null: the job kept its own."""
    to_bound_ms: int | None
    """The bound that it publishes, in milliseconds; null: the job keeps its own."""


class RolloutTimes(RolloutBounds):
    """The same, and when it came into force."""

    published_us: int | None
    """When it was published, in microseconds since the epoch; null before."""
    effective_us: int | None
    """Trigger time of the first batch whose watermark followed it, in microseconds since the epoch; null before."""
    ended_us: int | None
    """When it was verified or ended otherwise, in microseconds since the epoch; null while it is open."""


class RolloutAnswer(RolloutTimes):
    """One change of the published bound or envelope, from the recommendation to its end."""

    job: str
    """Name of the job."""
    stream: str
    """Name of the stream."""
    reason: str
    """Why it is in this state, or what it waits for."""
    cause: Cause
    """Its cause: a decision from rows (Decision), the policy without data (NoData), or a write in Live (Operator)."""
    direction: Direction
    """Which way it changes the bound, or in Live the envelope."""
    first: bool
    """Whether no bound was published before it."""
    mode: Mode
    """Mode of the stream."""
    from_envelope: Envelope | None
    """In Live: the envelope published before it; null in every other mode."""
    to_envelope: Envelope | None
    """In Live: the envelope that it publishes; null in every other mode."""
    in_use_bound_ms: int | None
    """The bound in the plan of the newest batch when it was proposed, in milliseconds; null when it is not known."""
    generation: int | None
    """Generation that published it first; null before."""
    newest_report: int | None
    """Number of the newest report that it rests on; null without any."""
    predicted: Promise
    """Its prediction."""
    judged: Proof
    """What came of it."""
    approved: Approved | None
    """Who approved it; null when nobody has."""
    gate_answers: list[GateAnswer]
    """The newest answer about it of each outside gate that was asked."""
    vetoed: bool
    """Whether a person discarded it or rolled it back, and nobody has lifted that: its bound is not tried again."""
    created_us: int
    """When it was proposed, in microseconds since the epoch."""
    changed_us: int
    """When its state last changed, in microseconds since the epoch."""
    acknowledged_us: int | None
    """When the job was first known to have it, in microseconds since the epoch; null before."""
    may: list[Act]
    """The actions that it allows now."""


class RolloutPage(Answer):
    """A page of rollouts, the newest first."""

    rollouts: list[RolloutAnswer]
    """The rollouts."""
    next_cursor: str | None
    """Where the next page begins; null on the last."""


class EventEvidence(Answer):
    """What a change rests on; null where there is nothing."""

    rows: int | None
    """(Row, key) pairs."""
    newest_report: int | None
    """Number of the newest report."""
    rollout: int | None
    """Number of the rollout that it belongs to."""


class Event(Answer):
    """One change and why it came about."""

    id: int
    """Its number; later ones have greater numbers."""
    job: str | None
    """Name of the job; null for a change of the controller itself, such as a new token."""
    stream: str | None
    """Name of the stream; null with the job."""
    at_us: int
    """When it came about first, in microseconds since the epoch."""
    last_us: int
    """When it came about last, in microseconds since the epoch."""
    count: int
    """How often it came about in a row."""
    kind: str
    """What happened."""
    reason: str
    """Why."""
    by: str | None
    """Who did it; null when the controller did, or when nobody had to say who they are."""
    before: str | None
    """The value before, as JSON text in the words of the release that wrote it; null for none."""
    after: str | None
    """The value after, in the same way; null for none."""
    evidence: EventEvidence
    """What it rests on."""


class EventPage(Answer):
    """A page of events, the newest first."""

    events: list[Event]
    """The events."""
    next_cursor: str | None
    """Where the next page begins; null on the last."""


class RolloutDetail(RolloutAnswer):
    """A rollout and its history."""

    history: list[Event]
    """Its changes, the oldest first; at most 100."""


class GateOffered(Answer):
    """An outside gate that the controller's operators have set up."""

    name: str
    """Its name, which a policy gives in `gates`."""
    kind: Literal["webhook", "prometheus"]
    """Whether a webhook is asked or a query of Prometheus."""
    asks: str
    """What it is asked, in words."""


class GateList(Answer):
    """All outside gates."""

    gates: list[GateOffered]
    """The gates, in the order of the operators' file."""
