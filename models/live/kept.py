"""What is kept of what a driver says of live control."""

from __future__ import annotations

from dataclasses import dataclass

from tidemark.models.live.defaults import CEILING_ALARM_PPM
from tidemark.models.protocol.messages import LiveState


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptLive(LiveState):
    """What the fast policy in the driver did, with the first 100 names of each list and the number of all."""

    behind_partitions: int
    """How many have a backlog."""
    idle_partitions: int
    """How many are idle."""

    @property
    def near_ceiling(self) -> bool:
        """Whether a larger ceiling is needed: where Live fails, it would mend nothing."""
        return self.failure is None and self.ceiling_used_ppm >= CEILING_ALARM_PPM
