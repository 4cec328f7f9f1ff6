"""What a live job reported about itself."""

from __future__ import annotations

from tidemark.controller.api.schemas.answer import Answer
from tidemark.models.protocol.messages import Pin


class Live(Answer):
    """What the fast policy in the driver did, as of the newest batch."""

    control_ms: int | None
    """The watermark that the control stream offers, in milliseconds since the epoch; null before the first."""
    ceiling_ms: int
    """The static bound that the job falls back to, in milliseconds."""
    ceiling_used_ppm: int
    """Distance of the watermark from the maximum event time as a share of the ceiling, in parts per million: at
    1,000,000 the ceiling holds the watermark and not live control."""
    behind: list[str]
    """Partitions with a backlog, which hold the watermark back; the first 100 by name."""
    behind_partitions: int
    """How many there are."""
    idle: list[str]
    """Partitions that are idle, without a backlog, and hold nothing back; the first 100 by name."""
    idle_partitions: int
    """How many there are."""
    reason: str
    """Why the control stream offers this watermark, in one sentence."""
    last_contact_us: int | None
    """When the controller last answered the job, in microseconds since the epoch; null for never."""
    pin: Pin | None
    """What a kill switch holds the job to, as the job reports it."""


class AppendDelaySeen(Answer):
    """How long after their event times the rows of the newest batch were appended to the source."""

    rows: int
    """Rows that have both an event time and a timestamp of the source."""
    min_ms: int
    """Minimum difference in milliseconds; negative for future-dated events."""
    mean_ms: int
    """Mean difference in milliseconds."""
    max_ms: int
    """Maximum difference in milliseconds."""
    by_broker: bool
    """Whether every timestamp is the broker's, not the producer's."""
