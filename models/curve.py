"""The completeness-latency curve: the completeness and the latency of each bound.

There are two latencies. The *base* latency of a window is the base at its emission minus its end (the textbook
definition; windows not yet emitted are left out). The *wall* latency is the wall time of the step that emits it minus
its end, at least 0. Of a window that is still open only the time so far is known. While too many windows are open, the
mean is *censored*: a minimum, not a measurement (``MeanLatency``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from tidemark.models.duration import format_about, format_duration
from tidemark.models.operators import Int64s, TimeWindow
from tidemark.models.replay import Replay
from tidemark.models.wire import LatencyUnknown

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


class ExactNeeds:
    """Needs held one by one, so that every answer is exact.

    Args:
        need_us: needs in microseconds, shape (n,).
        count: pairs behind each, shape (n,).
    """

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


@dataclass(frozen=True, slots=True)
class MeanLatency:
    """The mean wall latency of windows under one bound."""

    mean_us: float
    """Measured: the mean over the windows that closed. Censored: over all windows, the open ones counted up to the
    last step, so that the mean will be at least this. In microseconds."""
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
    """Wall time of each step, shape (steps,)."""

    def latency(self, bound_us: int) -> tuple[float | None, MeanLatency | None, int]:
        """Return the mean base latency in microseconds, the mean wall latency and the windows emitted under a bound."""
        if not len(self.end_us) or not len(self.wall_us):
            return None, None, 0
        step = np.searchsorted(self.emit_base_us, self.end_us + bound_us, side="left")
        emitted = step < len(self.wall_us)
        base = self.emit_base_us[step[emitted]] - self.end_us[emitted]
        wall = np.maximum(self.wall_us[np.minimum(step, len(self.wall_us) - 1)] - self.end_us, 0)
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
    """The bound in microseconds."""
    rows: int
    """(Row, key) pairs that arrived."""
    late: int
    """Pairs that would have been late (from a sketch: at most this many)."""
    latency_base_us: float | None
    """Mean over emitted windows of the base at emission minus the window's end; None when none was emitted."""
    latency_wall: MeanLatency | None
    """Mean over windows of the wall time of emission minus the window's end; None without windows."""
    windows_emitted: int
    """Windows that were emitted."""

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
    """Completeness and latency as functions of the bound.

    Args:
        needs: how many pairs need what.
        emissions: when windows would be emitted; None for operators that have no windows.
    """

    def __init__(self, needs: NeedDistribution, emissions: Emissions | None) -> None:
        self.needs = needs
        self.emissions = emissions

    @classmethod
    def of_replay(cls, replay: Replay, operator: object) -> Curve:
        """Return the exact curve of recorded arrivals."""
        needs = ExactNeeds(replay.needs_us(), replay.count)
        if not isinstance(operator, TimeWindow):
            return cls(needs, None)
        return cls(needs, Emissions(np.unique(replay.key_us), replay.emit_base_us, replay.wall_us))

    def at(self, bound_us: int) -> CurvePoint:
        """Return the point of one bound."""
        (admitted,) = self.needs.weight_at_most(np.array([bound_us], np.float64)).tolist()
        base, wall, emitted = (None, None, 0) if self.emissions is None else self.emissions.latency(bound_us)
        rows = round(self.needs.weight)
        return CurvePoint(bound_us, rows, rows - round(admitted), base, wall, emitted)
