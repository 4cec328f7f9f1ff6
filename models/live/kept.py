"""What is kept of what a driver says of live control."""

from __future__ import annotations

from dataclasses import dataclass

from tidemark.models.live.defaults import CEILING_ALARM_PPM
from tidemark.models.protocol.messages import Pin


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptLive:
    """What the fast policy in the driver did, as of the newest batch: ``LiveState`` with shorter lists."""

    ceiling_ms: int
    """The static bound that the job falls back to, in milliseconds."""
    control_ms: int | None
    """The newest watermark that Live required, in milliseconds since the epoch; null before the first."""
    reason: str
    """Why Live requires this watermark, in one sentence."""
    behind: tuple[str, ...]
    """Partitions with a backlog, which hold the watermark back; the first 100 by name."""
    behind_partitions: int
    """How many there are."""
    idle: tuple[str, ...]
    """Partitions that are idle, without a backlog, and hold nothing back; the first 100 by name."""
    idle_partitions: int
    """How many there are."""
    ceiling_used_ppm: int
    """Distance of the watermark from the maximum event time as a share of the ceiling, in parts per million: at
    1,000,000 the ceiling holds the watermark and not live control."""
    last_contact_us: int | None
    """When the controller last answered the job, in microseconds since the epoch; null for never."""
    pin: Pin | None
    """What a kill switch holds the job to, as the job reports it."""
    failure: str | None = None
    """What keeps Live from deciding as it should, and what holds instead; null while nothing does."""

    @property
    def near_ceiling(self) -> bool:
        """Whether a larger ceiling is needed: where Live fails, it would mend nothing."""
        return self.failure is None and self.ceiling_used_ppm >= CEILING_ALARM_PPM
