"""How much of a stream the policy ``tidemark`` must have seen before it decides on what it saw.

Each form of the policy has its own rule: the live policy trusts its fastest rules only after some keys, however well
they do, and the recommendation needs enough rows to certify the target.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from tidemark.models.base.operators import Int64s
from tidemark.models.base.target import PPM
from tidemark.models.live.ages import Float64s
from tidemark.models.live.budget import keys_until_trusted
from tidemark.models.live.policy import Setup
from tidemark.models.live.rules import triggers_before_any_close
from tidemark.models.specs.slo import Slo


@dataclass(frozen=True, slots=True)
class Learning:
    """How long a stream is, and how long it has to be."""

    seen: int
    """Keys of the stream: its windows, or its triggers where it has no windows."""
    needed: int
    """Keys that it takes."""
    key_us: int
    """Time from one key to the next, in microseconds."""

    @property
    def enough(self) -> bool:
        """Whether the stream is long enough."""
        return self.seen >= self.needed


def learning_of(setup: Setup, pairs: int, span_us: int) -> Learning | None:
    """Return whether ``tidemark`` can learn from a stream; None where it keeps no such rule."""
    key_us = setup.key_spacing_us
    keys = max(span_us / key_us, 1.0)
    if setup.mode == "restart":
        rows = Slo(target_ppm=setup.target_ppm).events_needed
        return Learning(int(keys), math.ceil(rows * keys / pairs), key_us)
    late_share = (PPM - setup.target_ppm) / PPM
    young = triggers_before_any_close(setup.span_triggers, late_share) * setup.trigger_us / key_us
    if setup.objective == "timeslices":
        trusted = keys_until_trusted((PPM - setup.good_windows_ppm) / PPM, 1.0)
    else:
        trusted = keys_until_trusted(late_share, pairs / keys)
    return Learning(int(keys), max(trusted, math.ceil(young)), key_us)


_MAX_WINDOWS = 512
"""Newest windows whose rows are still counted; the outcome of older ones is final."""


class GoodWindows:
    """Counts windows that miss the target."""

    def __init__(self, rules: int, budget_share: float) -> None:
        self._share = budget_share
        self._key_us: Int64s = np.empty(0, np.int64)
        self._pairs = np.zeros(0)
        self._late = np.zeros((0, rules + 1), np.float32)
        self._settled = np.zeros(rules + 1)
        self._windows = 0

    def add(self, key_us: Int64s, count: Int64s, watermark_us: Int64s) -> None:
        """Count the pairs of a batch by window end, under the watermarks of all rules and, last, the policy."""
        first = self._key_us[0] if len(self._key_us) == _MAX_WINDOWS else None
        if first is not None:
            counted = key_us >= first
            key_us, count = key_us[counted], count[counted]
        new = np.setdiff1d(key_us, self._key_us, assume_unique=True)
        if len(new):
            keys = np.concatenate([self._key_us, new])
            order = np.argsort(keys, kind="stable")
            width = self._late.shape[1]
            self._key_us = keys[order]
            self._pairs = np.concatenate([self._pairs, np.zeros(len(new))])[order]
            self._late = np.vstack([self._late, np.zeros((len(new), width), np.float32)])[order]
            self._windows += len(new)
        at = np.searchsorted(self._key_us, key_us)
        self._pairs[at] += count
        self._late[at] += (key_us[:, None] <= watermark_us[None, :]) * count[:, None]
        surplus = len(self._key_us) - _MAX_WINDOWS
        if surplus > 0:
            self._settled += self._missed(slice(surplus))
            self._key_us, self._pairs = self._key_us[surplus:], self._pairs[surplus:]
            self._late = self._late[surplus:]

    @property
    def windows(self) -> int:
        """Windows seen so far."""
        return self._windows

    def missed(self) -> Float64s:
        """Return how many windows miss the target so far, by rule and, last, by the policy, shape (rules + 1,)."""
        missed: Float64s = self._settled + self._missed(slice(None))
        return missed

    def _missed(self, which: slice) -> Float64s:
        short = self._late[which] > self._share * self._pairs[which, None] + 1e-6
        total: Float64s = short.sum(axis=0).astype(np.float64)
        return total
