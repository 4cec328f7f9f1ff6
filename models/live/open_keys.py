"""Open keys: those that have arrived and are not closed, so that the watermark moves only when it closes one."""

from __future__ import annotations

import numpy as np

from tidemark.models.operators import Int64s
from tidemark.models.policies.policy import NO_BASE_US

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
