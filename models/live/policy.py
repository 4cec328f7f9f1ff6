"""What a policy is: it observes what arrived and decides a bound, or the watermark itself.

A policy is causal: ``decide`` may use only earlier observations and the clock. It observes counts, never rows: the
counts that a job's tap reports, so that the same policy runs in the driver, in the controller and in the backtest.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal, Protocol, runtime_checkable

import numpy as np

from tidemark.models.base.duration import format_duration
from tidemark.models.base.granules import SPARK_TICK_US
from tidemark.models.base.operators import Int64s, Operator, TimeWindow
from tidemark.models.recommend.steps import DecisionStep
from tidemark.models.specs.slo import HORIZONS_MS, Objective

NO_BASE_US = -4 * 10**18
"""Base (or watermark) before any row: no bound makes a row late against it. A whole number of milliseconds."""

NEVER_US = 2**62
"""A time that never comes, in microseconds."""

_EMPTY = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True)
class Observation:
    """What one batch showed. Times in microseconds; pairs are (row, key) pairs."""

    now_us: int
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
    base_us: Int64s = field(default_factory=_EMPTY.copy)
    """Maximum event time of each partition seen so far, ``NO_BASE_US`` before its first row, shape (partitions,)."""


@dataclass(frozen=True, slots=True)
class Decision:
    """What a policy decides: one of the two, or neither to change nothing."""

    bound_us: int | None = None
    """One bound for the stream: the watermark follows the stream's base at this distance."""
    watermark_us: int | None = None
    """The watermark itself, as of when the decision can first be in force. It never moves back."""


class BoundPolicy(Protocol):
    """Decides for one stream."""

    @property
    def native(self) -> bool:
        """Whether the bound is constant and set once in the plan, so that Spark follows it by itself."""
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


BacktestMode = Literal["live", "restart"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """One problem, the same for every policy."""

    operator: Operator
    trigger_us: int
    """Spark's processing-time trigger, in microseconds."""
    target_ppm: int
    objective: Objective = "occurrences"
    """What the target is a share of: all rows, or the rows of each window, in a share of the windows."""
    good_windows_ppm: int = 990_000
    """With ``timeslices``: the share of windows that must reach the target, in parts per million."""
    mode: BacktestMode = "live"
    """How a decision reaches the job: while it runs, or by a restart."""
    latency_cap_us: int | None = None
    """Maximum time that a window may wait for its rows, in microseconds; it takes precedence over the target."""
    restart_cost_us: int = 30_000_000
    """With ``restart``: time without batches that a change of the bound costs, in microseconds."""
    horizon_ms: int | None = None
    """With ``restart``: how far back Tidemark's evidence counts, in milliseconds; None as in ``Slo``."""

    @property
    def granule_us(self) -> int:
        """Width of the cohorts that policies observe, in microseconds.

        For windows a tenth of the slide where that is whole milliseconds, as the tap's, else coarser; for row-level
        and session keys a tenth of the trigger, so that scaling all times scales the cohorts too.
        """
        if isinstance(self.operator, TimeWindow):
            return self._granules_us(self.operator)[0]
        return max(self.trigger_us // 10 // SPARK_TICK_US, 1) * SPARK_TICK_US

    @property
    def cohort_us(self) -> int:
        """Width of the cohorts that the live policy counts by: a granule, but not less than a trigger. Microseconds.

        A batch shows more of cohorts that are older when it is read. With several to a trigger each would have its own
        usual share, at the same age. For windows it is at most the slide; row-level and session keys have the trigger.
        """
        if not isinstance(self.operator, TimeWindow):
            return self.trigger_us
        granules_us = self._granules_us(self.operator)
        return next((width_us for width_us in granules_us if width_us >= self.trigger_us), granules_us[-1])

    @staticmethod
    def _granules_us(operator: TimeWindow) -> list[int]:
        """Return the widths of which windows start and end at multiples, from a tenth of the slide on, ascending."""
        grid = math.gcd(operator.size_us, operator.slide_us, operator.start_us)
        return [grid // count for count in range(10, 1, -1) if grid % (count * SPARK_TICK_US) == 0] + [grid]

    @property
    def key_spacing_us(self) -> int:
        """Time from one key to the next in the live policy: the slide, or the trigger without windows. Microseconds."""
        return self.operator.slide_us if isinstance(self.operator, TimeWindow) else self.trigger_us

    @property
    def span_triggers(self) -> float:
        """The live policy's unit of time, in triggers: a window's slide, or ten triggers without windows.

        At least two triggers: below, an average over a few spans would be one over a few batches.
        """
        if not isinstance(self.operator, TimeWindow):
            return 10.0
        return max(self.operator.slide_us / self.trigger_us, 2.0)

    def __post_init__(self) -> None:
        """Reject what cannot be replayed."""
        if self.trigger_us <= 0:
            raise ValueError(f"the trigger must be above 0, not {format_duration(self.trigger_us)}")
        if not 0 < self.target_ppm < 1_000_000 or not 0 < self.good_windows_ppm < 1_000_000:
            raise ValueError(
                f"target {self.target_ppm} ppm and good windows {self.good_windows_ppm} ppm must be in (0, 1,000,000)"
            )
        if self.latency_cap_us is not None and self.latency_cap_us < 0:
            raise ValueError(
                f"the latency cap must be at least 0, not {format_duration(self.latency_cap_us)}"
            )
        if self.horizon_ms is not None and not 0 < self.horizon_ms <= HORIZONS_MS[-1]:
            longest = format_duration(HORIZONS_MS[-1] * 1_000)
            raise ValueError(
                f"the horizon must be above 0 and at most {longest}, not {format_duration(self.horizon_ms * 1_000)}"
            )
        if self.restart_cost_us < 0:
            raise ValueError(
                f"the cost of a restart must be at least 0, not {format_duration(self.restart_cost_us)}"
            )
