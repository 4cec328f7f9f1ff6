"""The completeness-latency curve: what each bound would have cost and kept.

Two latencies are in use and both are named here. The *base* latency of a window is the base at its emission minus its
end (the textbooks'; windows not yet emitted are left out). The *wall* latency is the wall time of the step that emits
it minus its end, at least 0, where a window that is never emitted counts as emitted by the last step.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from tidemark.models.operators import Int64s, TimeWindow
from tidemark.models.replay import Replay

__all__ = ["Curve", "CurvePoint", "Emissions", "ExactNeeds", "NeedDistribution"]

Float64s = NDArray[np.float64]


class NeedDistribution(Protocol):
    """How many (row, key) pairs need at most a given bound. Implementations: ``ExactNeeds`` and ``Sketch``."""

    @property
    def weight(self) -> float:
        """Number of pairs."""
        ...

    def weight_at_most(self, values: Float64s) -> Float64s:
        """Return for each value, shape (n,), how many pairs surely need no more (never more than the truth)."""
        ...

    def value_at_rank(self, rank: float) -> float | None:
        """Return a value that ``rank`` pairs surely need no more than; None when there are fewer pairs."""
        ...


class ExactNeeds:
    """Needs kept one by one, so that every answer is exact.

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

    def weight_at_most(self, values: Float64s) -> Float64s:
        """Return for each value, shape (n,), how many pairs need no more."""
        at_most: Float64s = self._cumulative[np.searchsorted(self._need_us, values, side="right")].astype(
            np.float64
        )
        return at_most

    def value_at_rank(self, rank: float) -> float | None:
        """Return the need of the given rank, 1 being the least; None when there are fewer pairs."""
        if not 0 < rank <= self._cumulative[-1]:
            return None
        return float(self._need_us[int(np.searchsorted(self._cumulative, rank, side="left")) - 1])


@dataclass(frozen=True, slots=True)
class Emissions:
    """When windows would be emitted under any bound. Arrays are int64, times microseconds."""

    end_us: Int64s
    """Ends of the windows, ascending and distinct, shape (windows,)."""
    emit_base_us: Int64s
    """Base by which each step emits, non-decreasing, shape (steps,)."""
    wall_us: Int64s
    """Wall time of each step, shape (steps,)."""

    def latency_us(self, bound_us: int) -> tuple[float | None, float | None, int]:
        """Return the mean base latency, the mean wall latency and the number of windows emitted under a bound."""
        if not len(self.end_us) or not len(self.wall_us):
            return None, None, 0
        step = np.searchsorted(self.emit_base_us, self.end_us + bound_us, side="left")
        emitted = step < len(self.wall_us)
        base = self.emit_base_us[step[emitted]] - self.end_us[emitted]
        wall = np.maximum(self.wall_us[np.minimum(step, len(self.wall_us) - 1)] - self.end_us, 0)
        return (float(base.mean()) if len(base) else None), float(wall.mean()), int(emitted.sum())


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
    latency_wall_us: float | None
    """Mean over windows of the wall time of emission minus the window's end; None without windows."""
    windows_emitted: int
    """Windows that were emitted."""

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
        base, wall, emitted = (
            (None, None, 0) if self.emissions is None else self.emissions.latency_us(bound_us)
        )
        rows = round(self.needs.weight)
        return CurvePoint(bound_us, rows, rows - round(admitted), base, wall, emitted)
