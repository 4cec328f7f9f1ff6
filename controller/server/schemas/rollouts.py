"""Rollouts, events and outside gates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tidemark.controller.base.answer import Answer, Page, made_of
from tidemark.models.rollout.states import Act, Rollout, allowed


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutAnswer(Rollout):
    """One change of the published bound or envelope, from the recommendation to its end."""

    job: str
    """Name of the job."""
    stream: str
    """Name of the stream."""
    may: tuple[Act, ...]
    """The actions that it allows now."""

    @classmethod
    def of(cls, rollout: Rollout, job: str, stream: str) -> RolloutAnswer:
        """Return the answer about a rollout; what follows from one is worked out here, beside where it is declared."""
        may = allowed(rollout.state, vetoed=rollout.vetoed)
        return made_of(RolloutAnswer, rollout, job=job, stream=stream, may=may)


class RolloutPage(Page):
    """A page of rollouts, the newest first."""

    rollouts: list[RolloutAnswer]
    """The rollouts."""


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


class EventPage(Page):
    """A page of events, the newest first."""

    events: list[Event]
    """The events."""


@dataclass(frozen=True, slots=True, kw_only=True)
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
