"""Pins: kill switches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from tidemark.controller.base.answer import Answer
from tidemark.models.protocol.messages import Pin
from tidemark.models.specs.pin import ScopeKind

if TYPE_CHECKING:
    from tidemark.controller.specs.pins import StoredPin


class PinInForce(Answer):
    """The pin that holds a stream: of several, the most specific."""

    to: Pin
    """What the job is held to: its own bound (Off), or its ceiling alone (Ceiling)."""
    scope: ScopeKind
    """Whose pin it is: the stream's own, its job's, or the whole fleet's."""
    reason: str
    """Why it was set."""
    since_us: int
    """When it was set, in microseconds since the epoch."""

    @classmethod
    def of_pin(cls, pin: StoredPin | None) -> Self | None:
        """Return a pin as the status has it; None for none."""
        return None if pin is None else cls.of(pin, scope=pin.scope.kind)


class PinnedStream(Answer):
    """What a pin does to one stream."""

    job: str
    """Name of the job."""
    stream: str
    """Name of the stream."""
    bound_ms: int | None
    """The bound that the pin puts in force, in milliseconds; null when it is not known or the pin changes nothing."""
    from_bound_ms: int | None
    """The bound that it replaces, in milliseconds: the one in use, in Live the effective one; null without reports."""
    completeness_ppm: int | None
    """Share that would be admitted under the pin's bound, in parts per million; null when it is not known."""
    latency_wall_ms: int | None
    """Mean wall latency of windows under it, in milliseconds; null when it is not known."""
    text: str
    """What it costs against the bound that it replaces, in words."""


class PinSummary(PinInForce):
    """A pin."""

    job: str | None
    """Name of the job; null for the whole fleet."""
    stream: str | None
    """Name of the stream; null for all streams."""


class PinAnswer(PinSummary):
    """A pin and what it does."""

    streams: list[PinnedStream]
    """What it does to the known streams, by job and stream; after a removal, what the removal does."""
    more_streams: int
    """Streams left out because computing the figures would have taken too long."""
    dry_run: bool
    """Whether it was a dry run: then nothing was changed, and this is what the write would do."""


class PinPage(Answer):
    """A page of pins: the fleet's, then by job and stream."""

    pins: list[PinSummary]
    """The pins."""
    next_cursor: str | None
    """Where the next page begins; null on the last."""
