"""Rollouts."""

from __future__ import annotations

from tidemark.controller.api.schemas.answer import Answer
from tidemark.controller.api.schemas.events import Event
from tidemark.models.rollout.facts import Cause, Gate
from tidemark.models.rollout.states import Act, State
from tidemark.models.slo import Direction
from tidemark.models.wire import Envelope, Mode

__all__ = ["Approved", "Promise", "Proof", "Rollout", "RolloutDetail", "RolloutPage"]


class Approved(Answer):
    """That a person approved a rollout."""

    at_us: int
    """When, in microseconds since the epoch."""
    by: str | None
    """Who; null when nobody had to say who they are."""
    reason: str
    """Why."""


class Promise(Answer):
    """What was predicted of a rollout when it was proposed. Nulls are unknown."""

    rows: int
    """(Row, key) pairs that it rests on."""
    late: int
    """How many of them would have been late."""
    min_ppm: int | None
    """Lower end of the interval of the completeness, in parts per million."""
    max_ppm: int | None
    """Upper end of it."""
    latency_wall_ms: int | None
    """Mean wall latency of windows, in milliseconds."""
    state_rows: int | None
    """Rows of state once it is in effect, an estimate."""


class Proof(Answer):
    """What the ledger says of a rollout in effect."""

    rows: int
    """(Row, key) pairs that met it in effect and were judged."""
    at_risk_rows: int
    """Pairs of them that were judged once whole windows had opened and closed under it: those that verify it."""
    needed_rows: int
    """How many of those it takes to verify it."""
    event_ms: int
    """Event time by which the watermark has moved since it took effect, in milliseconds."""
    needed_event_ms: int
    """How much it takes to verify it, in milliseconds; 0 before it is in effect."""
    late_min: int
    """Pairs that were late for sure."""
    late_max: int
    """Pairs that may have been late."""


class Rollout(Answer):
    """One change of what a job is told, from the recommendation to its end."""

    id: int
    """Its number; later ones have greater numbers."""
    job: str
    """Name of the job."""
    stream: str
    """Name of the stream."""
    state: State
    """Where it is."""
    reason: str
    """Why it is there, or what it waits for."""
    held_by: Gate | None
    """The gate that holds it; null when none does."""
    cause: Cause
    """What wants it: rows (Decision), the policy for the time without data (NoData), or a write in Live (Operator)."""
    direction: Direction
    """Which way it changes the bound, or in Live the envelope."""
    first: bool
    """Whether the job was told no bound before it."""
    mode: Mode
    """Mode of the stream."""
    from_bound_ms: int | None
    """The bound told before it, in milliseconds, to which it goes back; null: the job kept its own."""
    to_bound_ms: int | None
    """The bound that it tells, in milliseconds; null: the job keeps its own."""
    from_envelope: Envelope | None
    """In Live: the envelope told before it; null in every other mode."""
    to_envelope: Envelope | None
    """In Live: the envelope that it tells; null in every other mode."""
    in_use_bound_ms: int | None
    """The bound in the plan of the newest batch when it was proposed, in milliseconds; null when it is not known."""
    generation: int | None
    """Generation that tells it; null before it is published."""
    newest_report: int | None
    """Number of the newest report that it rests on; null without any."""
    predicted: Promise
    """What was predicted of it."""
    judged: Proof
    """What came of it."""
    approved: Approved | None
    """Who approved it; null when nobody has."""
    created_us: int
    """When it was proposed, in microseconds since the epoch."""
    changed_us: int
    """When its state changed last, in microseconds since the epoch."""
    published_us: int | None
    """When jobs were told, in microseconds since the epoch; null before it."""
    acknowledged_us: int | None
    """When the job was first known to have it, in microseconds since the epoch; null before it."""
    effective_us: int | None
    """Trigger time of the first batch whose watermark followed it, in microseconds since the epoch; null before it."""
    ended_us: int | None
    """When it was verified or ended otherwise, in microseconds since the epoch; null while it is open."""
    may: list[Act]
    """What a person may do with it now."""


class RolloutPage(Answer):
    """A page of rollouts, the newest first."""

    rollouts: list[Rollout]
    """The rollouts."""
    next_cursor: str | None
    """Where the next page begins; null on the last."""


class RolloutDetail(Rollout):
    """A rollout and how it came to where it is."""

    history: list[Event]
    """Its changes, the first one first; at most 100."""
