"""Stragglers: how many rows a key still gets beyond each age, remembered over several half-lives.

Arrivals are counted, so rows still to come need no correction, except at the start of a stream, when high ages cannot
have been seen yet: each age's count is divided by the keys that were old enough to show it (the chain
ladder's exposure; literature section 4).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tidemark.models.policies.ages import BUCKETS, CLOSE_AFTER, Float64s, bucket_of


class Stragglers:
    """Rows per key by age, over several half-lives and for several kinds of keys.

    Args:
        half_lives: half-lives in triggers, infinity for never forgetting, shape (memories,).
        kinds: number of kinds.
        keys_per_trigger: keys that end in a trigger.
    """

    def __init__(self, half_lives: Sequence[float], kinds: int, keys_per_trigger: float) -> None:
        self._decay = 0.5 ** (1 / np.array(half_lives, np.float64))[:, None]
        self._keys_per_trigger = keys_per_trigger
        self._rows = np.zeros((len(half_lives), kinds, BUCKETS), np.float32)
        self._keys = np.zeros((len(half_lives), BUCKETS), np.float32)

    def advance(self, triggers: int, elapsed: float) -> None:
        """Let ``triggers`` pass; the stream is then ``elapsed`` triggers old."""
        decay = self._decay**triggers
        with np.errstate(invalid="ignore", divide="ignore"):
            new = np.where(self._decay < 1, (1 - decay) / (1 - self._decay), triggers)
        self._rows *= decay[:, :, None].astype(np.float32)
        self._keys *= decay.astype(np.float32)
        self._keys += np.where(elapsed >= CLOSE_AFTER, new * self._keys_per_trigger, 0).astype(np.float32)

    def add(self, age: Float64s, rows: Float64s) -> None:
        """Count rows.

        Args:
            age: ages in triggers, shape (counts,).
            rows: rows of each age by kind, shape (kinds, counts).
        """
        bucket = bucket_of(age)
        for kind, count in enumerate(rows):
            self._rows[:, kind] += np.bincount(bucket, weights=count, minlength=BUCKETS).astype(np.float32)

    def beyond(self) -> Float64s:
        """Return the rows that a key gets after each bucket, shape (memories, kinds, BUCKETS)."""
        return self._beyond(slice(None), slice(None))

    def longest_beyond(self) -> Float64s:
        """Return the same of the last memory and the first kind, shape (BUCKETS,)."""
        longest: Float64s = self._beyond(slice(-1, None), slice(0, 1))[0, 0]
        return longest

    def _beyond(self, memories: slice, kinds: slice) -> Float64s:
        keys = self._keys[memories]
        # No key was old enough to show some ages; keys from before the stream was observed may have shown them.
        keys = np.where(keys > 0, keys, keys.max(axis=1, keepdims=True))
        rows = self._rows[memories, kinds] / np.maximum(keys, 1e-9)[:, None, :]
        after = np.zeros(rows.shape)
        after[:, :, :-1] = np.cumsum(rows[:, :, :0:-1], axis=2)[:, :, ::-1]
        return after
