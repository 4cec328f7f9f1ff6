"""What a policy is: it observes what arrived and decides a bound, or the watermark itself.

A policy is causal: ``decide`` may use only earlier observations and the clock. It observes counts, never rows: the
counts that a job's tap reports, so that the same policy runs in the driver, in the controller and in the backtest.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import numpy as np

from tidemark.models.operators import Int64s
from tidemark.models.recommend.steps import DecisionStep

NO_BASE_US = -4 * 10**18
"""Base (or watermark) before any row: no bound makes a row late against it. A whole number of milliseconds."""

_EMPTY = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True)
class Observation:
    """What one batch (per-row engines: one tick) showed. Times in microseconds; pairs are (row, key) pairs."""

    now_us: int
    """Wall time at which the batch ran."""
    partition: Int64s = field(default_factory=_EMPTY.copy)
    """Index of each count's partition, shape (counts,). Partitions are numbered in order of appearance."""
    key_us: Int64s = field(default_factory=_EMPTY.copy)
    """Key of each count: what the watermark is compared with, shape (counts,)."""
    event_us: Int64s = field(default_factory=_EMPTY.copy)
    """Start of the event-time granule (cohort) of each count: its first whole microsecond, shape (counts,)."""
    count: Int64s = field(default_factory=_EMPTY.copy)
    """Pairs behind each count, shape (counts,)."""
    need_us: Int64s = field(default_factory=_EMPTY.copy)
    """Smallest bound that would have admitted each, against the stream's base its late filter knew, shape (counts,)."""
    own_need_us: Int64s = field(default_factory=_EMPTY.copy)
    """The same against the base of its own partition, shape (counts,)."""
    base_us: Int64s = field(default_factory=_EMPTY.copy)
    """Maximum event time of each partition seen so far, ``NO_BASE_US`` before its first row, shape (partitions,)."""


@dataclass(frozen=True, slots=True)
class Decision:
    """What a policy decides: one of the three, or none of them to change nothing."""

    bound_us: int | None = None
    """One bound for the stream: the watermark follows the stream's base at this distance."""
    bounds_us: Int64s | None = None
    """A bound for each partition, shape (partitions,): the watermark is the minimum of the partitions' own."""
    watermark_us: int | None = None
    """The watermark itself, as of when the decision can first be in force. It never moves back."""


class BoundPolicy(Protocol):
    """Decides for one stream."""

    @property
    def native(self) -> bool:
        """Whether the bound is constant and set once in the plan, so that the engine follows it by itself."""
        ...

    def observe(self, seen: Observation) -> None:
        """Observe a batch; batches come in order. A batch without rows shows only the time."""
        ...

    def decide(self, now_us: int, in_force_us: int) -> Decision:
        """Return the decision at wall time ``now_us``; it can be in force at ``in_force_us`` at the earliest."""
        ...


@runtime_checkable
class Explains(Protocol):
    """A policy that gives its reasons."""

    def explain(self) -> tuple[DecisionStep, ...]:
        """Return the reasons of the newest decision, first to last; empty before the first one."""
        ...
