"""Whether a job's ceiling leaves room for Live.

In Live the ceiling is all that holds the watermark back when the controller or the control stream is gone, and Spark
takes the greater of the two watermarks at all times. So it has to be above the bound and the distance of the slowest
partition: below, the ceiling closes windows that live control would still hold open.
"""

from __future__ import annotations

from dataclasses import dataclass

from tidemark.models.duration import format_about, format_duration

__all__ = ["NO_CEILING", "Room"]

NO_CEILING = "the job's call has no ceiling="
"""Why a job cannot run in Live."""


@dataclass(frozen=True, slots=True)
class Room:
    """What a ceiling has to leave room for, and the ceiling. Times are in milliseconds."""

    ceiling_ms: int | None
    """The ceiling that the job last acknowledged; None when its call has none."""
    bound_ms: int = 0
    """The bound in use; 0 when none is known."""
    skew_ms: int = 0
    """How far the slowest partition is behind the stream's greatest event time; 0 when it is not known."""
    partition: str | None = None
    """Which partition that is; None when it is not known."""

    @property
    def needed_ms(self) -> int:
        """The least ceiling that leaves room."""
        return self.bound_ms + self.skew_ms

    @property
    def too_low(self) -> bool:
        """Whether there is a ceiling and it is too low."""
        return self.ceiling_ms is not None and self.ceiling_ms < self.needed_ms

    @property
    def needed(self) -> str:
        """What takes how much of the room, in words."""
        reason = f"{_about(self.bound_ms)} of bound"
        if self.partition is None:
            return reason
        behind = f"{_about(self.skew_ms)} by which partition {self.partition!r} is behind"
        return f"{_about(self.needed_ms)}: {reason} and {behind}"


def _about(duration_ms: int) -> str:
    # To the millisecond where it is short, since a ceiling is copied from here.
    return (
        format_duration(duration_ms * 1_000) if duration_ms < 120_000 else format_about(duration_ms * 1_000)
    )
