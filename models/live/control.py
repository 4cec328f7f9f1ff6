"""The control of one query: the watermark that its streams require together, offered when it closes something.

A new offer costs a batch when no rows are waiting. So the control moves when a key that
has arrived closes. Beyond the last key something may still wait downstream (a wider window, the time range of a
join, a timer): for that it moves in steps that double, up to the ceiling, and then stops.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from tidemark.models.base.operators import Int64s
from tidemark.models.base.stateful import WatermarkPolicy
from tidemark.models.live.policy import NO_BASE_US


@dataclass(frozen=True, slots=True)
class StreamTarget:
    """What one stream of the query requires, at one moment."""

    watermark_us: int | None
    """The watermark that its fast policy requires; None holds the whole query."""
    keys: OpenKeys


class Control:
    """The control of one query."""

    def __init__(
        self, step_us: int, ceiling_us: int, policy: Callable[[], WatermarkPolicy] = lambda: "min"
    ) -> None:
        self._min_step_us = self._step_us = max(step_us, 1)
        self._ceiling_us = ceiling_us
        self._policy = policy
        self.offered_us = NO_BASE_US
        """The last offer, ``NO_BASE_US`` before the first."""

    def restore(self, offered_us: int) -> None:
        """Restore the offer that the checkpoint holds."""
        self.offered_us = max(self.offered_us, offered_us)

    def offer(self, streams: Sequence[StreamTarget]) -> int:
        """Return the watermark to offer now: a new one, or the last one when there is no reason to move."""
        required = [stream.watermark_us for stream in streams if stream.watermark_us is not None]
        if not required or len(required) < len(streams):
            return self.offered_us
        offer_us = max(required) if self._policy() == "max" else min(required)
        if offer_us <= self.offered_us:
            return self.offered_us
        max_us = max(stream.keys.max_us for stream in streams)
        if any(stream.keys.closes(offer_us) for stream in streams):
            self._step_us = self._min_step_us
        elif self._is_worth_a_step(offer_us, max_us):
            self._step_us *= 2
            offer_us = min(offer_us, max(max_us + self._ceiling_us, self.offered_us + 1_000))
        else:
            return self.offered_us
        self.offered_us = offer_us
        for stream in streams:
            stream.keys.close(offer_us)
        return offer_us

    def _is_worth_a_step(self, watermark_us: int, max_key_us: int) -> bool:
        if self.offered_us == NO_BASE_US or max_key_us > watermark_us:
            return False
        exhausted = self.offered_us >= max_key_us + self._ceiling_us
        return not exhausted and watermark_us >= self.offered_us + self._step_us


_MAX_KEYS = 1_000_000


class OpenKeys:
    """The keys of one stream that lie above its watermark, in microseconds."""

    def __init__(self) -> None:
        self._keys: Int64s = np.empty(0, np.int64)
        self.max_us = NO_BASE_US
        """Highest key that ever arrived."""

    def __len__(self) -> int:
        """Return how many are open."""
        return len(self._keys)

    def add(self, key_us: Int64s, above_us: int) -> None:
        """Take the keys of a batch, shape (n,); those at or below ``above_us`` are closed already."""
        if not len(key_us):
            return
        self.max_us = max(self.max_us, int(key_us.max()))
        fresh = key_us[key_us > above_us]
        # Of too many the lowest are kept: they close next.
        self._keys = np.union1d(self._keys, fresh)[:_MAX_KEYS]

    def closes(self, until_us: int) -> bool:
        """Return whether a watermark at ``until_us`` closes a key."""
        return bool(len(self._keys)) and int(self._keys[0]) <= until_us

    def close(self, until_us: int) -> None:
        """Forget the keys at or below ``until_us``."""
        self._keys = self._keys[np.searchsorted(self._keys, until_us, side="right") :]
