"""A stream as a live plan has it, and what its earlier reports show."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from tidemark.models.live.learned import Learned
from tidemark.models.live.policy import Setup
from tidemark.spark_jobs.core.watch import Orders


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
