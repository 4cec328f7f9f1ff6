"""Pins: kill switches on one stream, all of a job, or the whole fleet."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Self

from tidemark.models.protocol.messages import Pin

ScopeKind = Literal["fleet", "job", "stream"]
"""What a pin is set on."""


@dataclass(frozen=True, slots=True)
class PinScope:
    """What a pin is on."""

    job: str | None = None
    """Name of the job; None for the whole fleet."""
    stream: str | None = None
    """Name of the stream; None for all streams of the job, those that appear later too."""

    @property
    def kind(self) -> ScopeKind:
        """The kind of scope."""
        if self.job is None:
            return "fleet"
        return "job" if self.stream is None else "stream"

    @property
    def rank(self) -> int:
        """How specific it is: of two pins that hold a stream, the one of higher rank wins."""
        return (self.job is not None) + (self.stream is not None)

    def __str__(self) -> str:
        """Describe it in words."""
        if self.job is None:
            return "the whole fleet"
        if self.stream is None:
            return f"job {self.job!r}"
        return f"stream {self.stream!r} of job {self.job!r}"


FLEET = PinScope()
"""Every stream there is and will be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredPin:
    """A pin. Of several that hold a stream, the most specific counts."""

    to: Pin
    """What jobs are held to: their own bound (Off), or their ceiling alone (Ceiling)."""
    scope: ScopeKind
    """Whose pin it is: a stream's own, its job's, or the whole fleet's."""
    job: str | None
    """Name of the job; null for the whole fleet."""
    stream: str | None
    """Name of the stream; null for all streams."""
    reason: str
    """Why it was set."""
    since_us: int
    """When it was set, in microseconds since the epoch."""

    @classmethod
    def on(cls, scope: PinScope, to: Pin, reason: str, since_us: int) -> Self:
        """Return a pin on a scope."""
        job, stream = scope.job, scope.stream
        return cls(to=to, scope=scope.kind, job=job, stream=stream, reason=reason, since_us=since_us)

    @property
    def on_what(self) -> PinScope:
        """What it is on."""
        return PinScope(self.job, self.stream)

    @property
    def why(self) -> str:
        """Its scope and why it was set."""
        return f"by the pin on {self.on_what}: {self.reason}"
