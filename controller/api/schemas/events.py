"""The decision log."""

from __future__ import annotations

from tidemark.controller.api.schemas.answer import Answer


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
    job: str
    """Name of the job."""
    stream: str
    """Name of the stream."""
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
