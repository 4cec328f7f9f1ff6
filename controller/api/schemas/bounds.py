"""Published bounds."""

from __future__ import annotations

from tidemark.controller.api.schemas.answer import Answer
from tidemark.models.wire import Envelope, Mode, Pin


class Published(Answer):
    """What is published to a job."""

    bound_ms: int | None
    """The bound in milliseconds; null: the job keeps its own."""
    generation: int
    """Grows with each change of mode, bound, envelope or pin; 0 before the first."""
    reason: str
    """Why, in one sentence."""
    envelope: Envelope | None
    """In Live: what the job's fast policy has to do; null in every other mode."""
    pin: Pin | None
    """What a pin holds the job to; null without one."""


class PublishedBound(Published):
    """One published generation."""

    mode: Mode
    """The stream's mode then."""
    published_us: int
    """When it was published, in microseconds since the epoch."""


class BoundPage(Answer):
    """A page of generations, the newest first."""

    bounds: list[PublishedBound]
    """The generations."""
    next_cursor: str | None
    """Where the next page begins; null on the last."""
