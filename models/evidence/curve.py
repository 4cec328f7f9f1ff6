"""The completeness-latency curve: the completeness and the latency of each bound.

There are two latencies. The *base* latency of a window is the base at its emission minus its end (the textbook
definition; windows not yet emitted are left out). The *wall* latency is the wall time of the step that emits it minus
its end, at least 0. Of a window that is still open it is known to be no less than the time so far, and than the bound,
for which the window waits in event time. While too many windows are open, the
mean is *censored*: a minimum, not a measurement (``MeanLatency``).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from tidemark.models.base.duration import format_about, format_duration
from tidemark.models.base.granules import SPARK_TICK_US
from tidemark.models.base.operators import Int64s, Operator, TimeWindow
from tidemark.models.evidence.events import Overdispersion
from tidemark.models.evidence.needs import needs_us
from tidemark.models.protocol.downstream import Downstream
from tidemark.models.protocol.messages import LatencyUnknown

_Float64s = NDArray[np.float64]

_SETTLED = 0.9
"""Share of the windows that must be closed for their mean latency to count as measured."""


class NeedDistribution(Protocol):
    """How many (row, key) pairs need at most a given bound. Implementations: ``ExactNeeds`` and ``Sketch``."""

    @property
    def weight(self) -> float:
        """Number of pairs."""
        ...

    def weight_at_most(self, values: _Float64s) -> _Float64s:
        """Return for each value, shape (n,), how many pairs certainly need no more (never too many)."""
        ...

    def value_at_rank(self, rank: float) -> float | None:
        """Return a value that ``rank`` pairs certainly do not exceed; None when there are fewer pairs."""
        ...

    def floor_at_rank(self, rank: float) -> float | None:
        """Return a value that the pair of the rank, 1 being the smallest, certainly reaches; None without it."""
        ...


class ExactNeeds:
    """Needs held one by one, so that every answer is exact."""

    def __init__(self, need_us: Int64s, count: Int64s) -> None:
        order = np.argsort(need_us, kind="stable")
        self._need_us = need_us[order]
        self._cumulative = np.concatenate([[0], np.cumsum(count[order])])

    @property
    def weight(self) -> float:
        """Number of pairs."""
        return float(self._cumulative[-1])

    def weight_at_most(self, values: _Float64s) -> _Float64s:
        """Return for each value, shape (n,), how many pairs need no more."""
        at_most: _Float64s = self._cumulative[np.searchsorted(self._need_us, values, side="right")].astype(
            np.float64
        )
        return at_most

    def value_at_rank(self, rank: float) -> float | None:
        """Return the need of the given rank, 1 being the smallest; None when there are fewer pairs."""
        if not 0 < rank <= self._cumulative[-1]:
            return None
        return float(self._need_us[int(np.searchsorted(self._cumulative, rank, side="left")) - 1])

    def floor_at_rank(self, rank: float) -> float | None:
        """Return the need of the given rank, as ``value_at_rank`` does."""
        return self.value_at_rank(rank)


@dataclass(frozen=True, slots=True)
class MeanLatency:
    """The mean wall latency of windows under one bound."""

    mean_us: float
    """Measured: the mean over the windows that closed. Censored: over all windows, the open ones counted up to the
    last step or by the bound, so that the mean will be at least this. In microseconds."""
    censored: bool
    """Whether too many windows are open, or have been for too long, for the mean to be known."""

    @property
    def measured_us(self) -> float | None:
        """The mean in microseconds; None while it is censored."""
        return None if self.censored else self.mean_us

    def is_above(self, cap_us: int) -> bool | None:
        """Return whether the mean is above a cap in microseconds; None while that is not known."""
        if self.mean_us > cap_us:
            return True
        return None if self.censored else False

    def text(self, *, exact: bool = False) -> str:
        """Return it for people; ``exact`` gives milliseconds, for the comparison with a cap."""
        mean = format_duration(round(self.mean_us)) if exact else format_about(self.mean_us)
        return f"at least {mean}" if self.censored else mean


@dataclass(frozen=True, slots=True)
class Emissions:
    """When windows would be emitted under any bound. Arrays are int64, times microseconds."""

    end_us: Int64s
    """Ends of the windows, ascending and distinct, shape (windows,)."""
    emit_base_us: Int64s
    """Base by which each step emits, non-decreasing, shape (steps,)."""
    wall_us: Int64s

    def latency(self, bound_us: int) -> tuple[float | None, MeanLatency | None, int]:
        """Return the mean base latency in microseconds, the mean wall latency and the windows emitted under a bound."""
        if not len(self.end_us) or not len(self.wall_us):
            return None, None, 0
        step = np.searchsorted(self.emit_base_us, self.end_us + bound_us, side="left")
        emitted = step < len(self.wall_us)
        base = self.emit_base_us[step[emitted]] - self.end_us[emitted]
        wall = np.maximum(self.wall_us[np.minimum(step, len(self.wall_us) - 1)] - self.end_us, 0)
        # An open window waits for the bound at least, unless event times are ahead of the clock.
        ahead_us = max(int((self.emit_base_us - self.wall_us).max()), 0)
        wall[~emitted] = np.maximum(wall[~emitted], bound_us - ahead_us)
        return (float(base.mean()) if len(base) else None), _mean_latency(wall, emitted), int(emitted.sum())


def _mean_latency(wall_us: Int64s, emitted: NDArray[np.bool_]) -> MeanLatency:
    floor_us = float(wall_us.mean())
    if emitted.mean() < _SETTLED:
        return MeanLatency(floor_us, censored=True)
    measured_us = float(wall_us[emitted].mean())
    # A few windows that stay open for long, as in a stall, outweigh those that closed.
    if floor_us * _SETTLED > measured_us:
        return MeanLatency(floor_us, censored=True)
    return MeanLatency(measured_us, censored=False)


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """What one bound would have done."""

    bound_us: int
    rows: int
    late: int
    """Pairs that would have been late (from a sketch: at most this many)."""
    latency_base_us: float | None
    """Mean over emitted windows of the base at emission minus the window's end; None when none was emitted."""
    latency_wall: MeanLatency | None
    """Mean over windows of the wall time of emission minus the window's end; None without windows."""
    windows_emitted: int

    @property
    def latency_unknown(self) -> LatencyUnknown | None:
        """Why the mean wall latency is not known; None when it is."""
        if self.latency_wall is None:
            return "NoWindows"
        return "WindowsOpen" if self.latency_wall.censored else None

    @property
    def completeness(self) -> float | None:
        """Share of the pairs admitted; None without pairs."""
        return (self.rows - self.late) / self.rows if self.rows else None


class Curve:
    """Completeness and latency as functions of the bound."""

    def __init__(
        self,
        needs: NeedDistribution,
        emissions: Emissions | None,
        overdispersion: Overdispersion | None = None,
    ) -> None:
        self.needs = needs
        self.emissions = emissions
        self._overdispersion = overdispersion
        self._rows_per_event: dict[int, float] = {}

    @classmethod
    def of_replay(cls, replay: Replay, operator: object) -> Curve:
        """Return the exact curve of recorded arrivals."""
        needs = ExactNeeds(replay.needs_us(), replay.count)
        if not isinstance(operator, TimeWindow):
            return cls(needs, None)
        return cls(needs, Emissions(np.unique(replay.key_us), replay.emit_base_us, replay.wall_us))

    def rows_per_event(self, target_ppm: int) -> float:
        """Return how many pairs share their fate near a target, at least 1; 1 where that is not known."""
        if self._overdispersion is None:
            return 1.0
        if target_ppm not in self._rows_per_event:
            self._rows_per_event[target_ppm] = self._overdispersion.rows_per_event(target_ppm)
        return self._rows_per_event[target_ppm]

    def bound_alike_us(self, target_ppm: int) -> float | None:
        """Return the least bound if each batch counts alike; None unless few of them hold nearly all rows."""
        return None if self._overdispersion is None else self._overdispersion.bound_alike_us(target_ppm)

    def events(self, target_ppm: int) -> float:
        """Return how many independent events the pairs amount to near a target."""
        return self.needs.weight / self.rows_per_event(target_ppm)

    def at(self, bound_us: int) -> CurvePoint:
        """Return the point of one bound."""
        (admitted,) = self.needs.weight_at_most(np.array([bound_us], np.float64)).tolist()
        base, wall, emitted = (None, None, 0) if self.emissions is None else self.emissions.latency(bound_us)
        rows = round(self.needs.weight)
        return CurvePoint(bound_us, rows, rows - round(admitted), base, wall, emitted)


_NO_BASE = np.int64(-4 * 10**18)
"""Base before any row: no bound makes a row late against it. Whole milliseconds, like every base of Spark."""


@dataclass(frozen=True, slots=True)
class Replay:
    """Arrivals in steps (rows or batches), ready to be judged under any bound. Arrays are int64, times microseconds."""

    key_us: Int64s
    """Key of each (row, key) pair, shape (pairs,)."""
    count: Int64s
    """Rows behind each pair, shape (pairs,)."""
    step: Int64s
    """Index of the step in which each pair arrived, shape (pairs,)."""
    late_base_us: Int64s
    """Base that the late filter has in each step, non-decreasing, shape (steps,)."""
    emit_base_us: Int64s
    """Base by which each step emits, non-decreasing, shape (steps,)."""
    wall_us: Int64s
    tick_us: int
    """Bounds are multiples of this."""

    @property
    def any_judged(self) -> bool:
        """Whether any pair met a base: without one, as in a single batch, no bound could make a row late."""
        return bool((self.late_base_us[self.step] > _NO_BASE).any())

    def needs_us(self) -> Int64s:
        """Return each pair's need, shape (pairs,); very negative when there was no base yet."""
        return needs_us(self.key_us, self.late_base_us[self.step], self.tick_us)


def replay_spark(event_time_us: Int64s, batch: Int64s, wall_us: Int64s, operator: Operator) -> Replay:
    """Return the replay of rows through Spark.

    Args:
        event_time_us: event times, shape (rows,).
        batch: index of the batch of each row, shape (rows,); no-data batches are those that hold no row.
        wall_us: wall time at which each batch runs, shape (batches,).
    """
    maxima = np.full(len(wall_us), _NO_BASE, np.int64)
    np.maximum.at(maxima, batch, event_time_us)
    row, key = operator.keys(event_time_us)
    late, emit = spark_bases(maxima)
    return Replay(key, np.ones_like(key), batch[row], late, emit, wall_us, SPARK_TICK_US)


def batches_of_slots(event_time_us: Int64s, arrival_us: Int64s, trigger_us: int) -> tuple[Int64s, Int64s]:
    """Return ``(batch, wall_us)``: each row's batch, shape (rows,), and when each batch runs, shape (batches,).

    Slot k of a processing-time trigger holds the arrivals of ``[a0 + k * trigger, a0 + (k + 1) * trigger)``, a0 the
    first arrival, and runs at its end. A slot without arrivals holds a batch only when the batch before moved the
    watermark (Spark's no-data batch, in the very next slot). That does not depend on the bound: with a constant one
    the watermark moves exactly when the base does.
    """
    if trigger_us <= 0:
        raise ValueError(f"the trigger must be above 0, not {format_duration(trigger_us)}")
    if not len(arrival_us):
        return np.empty(0, np.int64), np.empty(0, np.int64)
    first = arrival_us.min()
    slots, where = np.unique((arrival_us - first) // trigger_us, return_inverse=True)
    maxima = np.full(len(slots), _NO_BASE, np.int64)
    np.maximum.at(maxima, where, event_time_us // SPARK_TICK_US)
    base = np.maximum.accumulate(maxima)
    moved = base > np.concatenate([[_NO_BASE], base[:-1]])
    batches = np.union1d(slots, slots[moved] + 1)
    return np.searchsorted(batches, slots)[where], first + (batches + 1) * trigger_us


def spark_bases(maxima_us: Int64s) -> tuple[Int64s, Int64s]:
    """Return ``(late, emit)``: the bases that each batch filters and emits by, from the maxima of the batches."""
    base = np.maximum.accumulate(
        np.where(maxima_us == _NO_BASE, _NO_BASE, maxima_us // SPARK_TICK_US * SPARK_TICK_US)
    )
    emit = np.concatenate([[_NO_BASE], base])[: len(base)]
    late = np.concatenate([[_NO_BASE, _NO_BASE], base])[: len(base)]
    return late, emit


def latency_of(wall: MeanLatency | None, downstream: Downstream | None, bound_ms: int) -> MeanLatency | None:
    """Return the mean wall latency of a query's last windows under a bound; None when it is not known.

    Where the stream's own operator has no windows, it is at least what passes in event time until they close.
    """
    closes_ms = None if downstream is None else downstream.closes_ms(bound_ms)
    if downstream is None or downstream.retention_ms is None or closes_ms is None:
        return wall
    if wall is None:
        return MeanLatency(closes_ms * 1_000, censored=True)
    return replace(wall, mean_us=wall.mean_us + downstream.retention_ms * 1_000)
