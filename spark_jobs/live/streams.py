"""A stream as a live plan has it, what its earlier reports show, and what is known of it in a run of a query."""

from __future__ import annotations

import itertools
import statistics
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from tidemark.models.live.control import Control
from tidemark.models.live.fast import FastPolicy, WatermarkTarget
from tidemark.models.live.learned import Learned
from tidemark.models.live.policy import Setup
from tidemark.models.live.resumable import in_words
from tidemark.spark_jobs.core.watch import Orders

PACE_BATCHES = 10
MIN_TRIGGER_US = 100_000


class EarlierReports(Protocol):
    """What a stream's earlier reports show."""

    def learned(
        self, setup: Setup, ceiling_us: int, due_us: Callable[[int], int], ended: Callable[[], bool]
    ) -> Learned | None:
        """Return what the policy for ``setup`` learns from them; None when that is nothing."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveStream:
    """One stream as a live plan has it."""

    name: str
    ceiling_us: int
    idle_timeout_us: int | None
    orders: Orders
    """What the stream has to do."""
    history: EarlierReports | None = None
    """Its earlier reports; None for a job without a controller."""


@dataclass(frozen=True, slots=True)
class BegunAnew:
    """A stream whose policy has begun without anything learned before."""

    stream: LiveStream
    setup: Setup
    """The problem that its policy solves."""
    due_us: Callable[[int], int]
    """Returns when a batch was due that started at a wall time, in microseconds."""


@dataclass(slots=True)
class LiveInput:
    """A stream in one run of a query."""

    stream: LiveStream
    policy: FastPolicy
    wanted: WatermarkTarget | None = None
    used_ppm: int = 0
    """The share of the ceiling that the last decision used: a batch may span more than the ceiling by itself."""
    near_ceiling: bool = False
    failing: bool = False


@dataclass(slots=True)
class LiveRun:
    """One run of a query."""

    trigger_us: int | None
    started_us: int
    control: Control
    streams: dict[str, LiveInput]
    alone: bool
    """Whether every watermark of the query belongs to these streams, so that it must be where they require it."""
    bases_us: Mapping[str, Mapping[str, int]]
    """By stream and partition how far an earlier run had come."""
    seen: set[str] = field(default_factory=set)
    looked_us: int = 0
    """The trigger of the last decision."""
    required_ms: int | None = None
    """The newest watermark that the streams require, in milliseconds; None for none."""
    moved_ms: int = 0
    """The newest of them that Spark has taken."""
    moved_us: int = 0
    """Wall time at which it did, in microseconds."""
    not_steered: str | None = None
    """Why the query is not steered; None while it is."""
    error: Exception | None = None
    """What the newest try to decide raised; None when nothing."""
    undecided: int = 0
    """Batches observed after the last decision, each for each of its streams."""
    triggered_us: deque[int] = field(default_factory=lambda: deque(maxlen=PACE_BATCHES))

    def due_us(self, now_us: int) -> int:
        """Return when the batch was due that is planned or started now; triggers lie on multiples of the interval."""
        return now_us // self.trigger_us * self.trigger_us if self.trigger_us else now_us

    def failure(self) -> str | None:
        """Return why the watermark is not where the streams require it; None while it is."""
        if self.not_steered is not None:
            return f"not steered, the ceiling alone holds: {self.not_steered}"
        if self.error is not None:
            return f"nothing can be decided, the ceiling alone holds: {in_words(self.error)}"
        if self.undecided > PACE_BATCHES * len(self.streams) and len(self.seen) == len(self.streams):
            return f"nothing was decided in the last {PACE_BATCHES} batches, the ceiling alone holds"
        return None

    def pace_us(self) -> int:
        """Return the time between two triggers in microseconds, 0 while it is not known."""
        if self.trigger_us:
            return self.trigger_us
        if len(self.triggered_us) < PACE_BATCHES:
            return 0
        times = sorted(self.triggered_us)
        gaps = [later - earlier for earlier, later in itertools.pairwise(times)]
        return max(round(statistics.median(gaps)), MIN_TRIGGER_US)
