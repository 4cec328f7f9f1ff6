"""Whether a job's ceiling leaves room for Live.

In Live, Spark always takes the greater of the watermark by the ceiling and the one by live control. When the controller
or the control stream is gone, only the ceiling holds the watermark back. So the ceiling has to be at least the bound
plus how far the slowest partition is behind: a lower one closes windows that live control would still hold open.
"""

from __future__ import annotations

from dataclasses import dataclass

from tidemark.models.base.duration import format_about, format_duration

NO_CEILING = "the job's call has no ceiling="
"""Why a job cannot run in Live."""


@dataclass(frozen=True, slots=True)
class Room:
    """A ceiling and what it has to leave room for. Times are in milliseconds."""

    ceiling_ms: int | None
    """The ceiling that the job last acknowledged; None when its call sets none."""
    bound_ms: int = 0
    """The bound in use; 0 when none is known."""
    skew_ms: int = 0
    """How far the slowest partition is behind the stream's maximum event time; 0 when it is not known."""
    partition: str | None = None
    """Name of the slowest partition; None when it is not known."""

    @property
    def needed_ms(self) -> int:
        """The minimum ceiling."""
        return self.bound_ms + self.skew_ms

    @property
    def too_low(self) -> bool:
        """Whether there is a ceiling and it is too low."""
        return self.ceiling_ms is not None and self.ceiling_ms < self.needed_ms

    @property
    def needed(self) -> str:
        """How the minimum ceiling is made up, in words."""
        reason = f"{_about(self.bound_ms)} of bound"
        if self.partition is None:
            return reason
        behind = f"{_about(self.skew_ms)} by which partition {self.partition!r} is behind"
        return f"{_about(self.needed_ms)}: {reason} and {behind}"


def _about(duration_ms: int) -> str:
    # Short ones to the millisecond, since people copy a ceiling from here.
    return (
        format_duration(duration_ms * 1_000) if duration_ms < 120_000 else format_about(duration_ms * 1_000)
    )
