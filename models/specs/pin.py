"""What a pin is on: one stream, all of a job, or the whole fleet."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

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
