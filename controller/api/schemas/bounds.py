"""Published bounds."""

from __future__ import annotations

from tidemark.controller.api.schemas.answer import Answer
from tidemark.models.protocol.messages import Envelope, Mode, Pin


class Published(Answer):
    """What is published to a job."""

    bound_ms: int | None
    """The bound in milliseconds; null: the job keeps its own."""
    generation: int
    """Grows with each change of mode, bound, envelope or pin; 0 before the first."""
    published_us: int | None
    """When it was published, in microseconds since the epoch; null before the first generation."""
    reason: str
    """Why it was published then, in one sentence; what holds now is the status's ``summary``."""
    envelope: Envelope | None
    """In Live: what the job's fast policy has to do; null in every other mode."""
    pin: Pin | None
    """What a pin holds the job to; null without one."""


class PublishedBound(Published):
    """One published generation."""

    mode: Mode
    """The stream's mode then."""


class BoundPage(Answer):
    """A page of generations, the newest first."""

    bounds: list[PublishedBound]
    """The generations."""
    next_cursor: str | None
    """Where the next page begins; null on the last."""
