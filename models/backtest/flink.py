"""Flink's watermarks over recorded arrivals, tick by tick.

Every partition of the trace is a split that the source reads from the start. A tick is a periodic emission: the
watermark is then the lowest base of the splits that are not idle, less the bound, and never falls. A row is late iff
its key is at or below the watermark of the tick before it arrived, and a window comes out at the tick whose watermark
reaches its end. A split is idle from the tick at which it has been silent for more than the idle timeout, counted, as
Flink's idleness timer does, from the first tick without rows. While all are idle, the watermark stands.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tidemark.models.backtest.arrivals import Arrivals, running_max, shifted
from tidemark.models.backtest.spark import Batches
from tidemark.models.base.duration import format_duration
from tidemark.models.base.granules import SPARK_TICK_US
from tidemark.models.base.operators import Int64s
from tidemark.models.live.policy import NO_BASE_US, Decision, Observation, Setup

_CELLS = 1 << 21
"""Ticks x splits held at a time: tens of megabytes."""
_FIRST_SILENT_TICK = 2
"""A split that had rows at tick k is first checked against its timeout at k + 2, with a silence of one tick."""


@dataclass(frozen=True, slots=True)
class FlinkTicks:
    """The ticks at which something may change. Arrays are int64, times microseconds."""

    slot: Int64s
    """Last slot before each tick, ascending, shape (ticks,)."""
    base_us: Int64s
    """Base behind the watermark after each: it is this less the bound, shape (ticks,)."""
    of_occupied: Int64s
    """Index of the tick that ends each occupied slot, shape (occupied,)."""

    def before_us(self) -> Int64s:
        """Return the base behind the watermark that the rows of each occupied slot meet, shape (occupied,)."""
        return shifted(self.base_us, 1)[self.of_occupied]


def slots_a_tick(setup: Setup, flink: Flink) -> int:
    """Return how many slots a tick has.

    Raises:
        ValueError: when a tick is not a whole number of triggers, by which the arrivals are counted.
    """
    tick_us = flink.tick_us or setup.trigger_us
    if tick_us % setup.trigger_us:
        raise ValueError(
            f"Flink's tick of {format_duration(tick_us)} must be a whole multiple of the trigger, "
            f"{format_duration(setup.trigger_us)}; a smaller trigger allows it"
        )
    return tick_us // setup.trigger_us


def longest_silence(arrivals: Arrivals) -> int:
    """Return the longest silence of a partition, from the first slot to the last, in slots."""
    slot = arrivals.occupied[arrivals.maxima.occupied]
    order = np.lexsort((slot, arrivals.maxima.partition))
    partition, slot = arrivals.maxima.partition[order], slot[order]
    first = np.append(True, partition[1:] != partition[:-1])
    gaps = np.where(first, slot, np.diff(slot, prepend=0))
    return int(max(gaps.max(), (arrivals.slots - 1 - slot[np.append(first[1:], True)]).max()))


def flink_ticks(arrivals: Arrivals, setup: Setup, flink: Flink) -> FlinkTicks:
    """Return the ticks under the idle timeout and the tick of ``flink``, whatever its bound."""
    stride = slots_a_tick(setup, flink)
    occupied = arrivals.occupied // stride
    seen = occupied[arrivals.maxima.occupied]
    last = (arrivals.slots - 1) // stride
    silent = None
    ticks = [np.unique(occupied), np.array([0, last])]
    if flink.idle_us is not None:
        silent = _FIRST_SILENT_TICK + flink.idle_us // (stride * setup.trigger_us)
        ticks.append(np.unique(np.append(seen, 0)) + silent)
    tick = np.unique(np.concatenate(ticks))
    tick = tick[tick <= last]
    base = running_max(_min_of_active(arrivals, tick, seen, silent))
    return FlinkTicks(slot=(tick + 1) * stride - 1, base_us=base, of_occupied=np.searchsorted(tick, occupied))


def flink_batches(arrivals: Arrivals, setup: Setup, flink: Flink) -> Batches:
    """Return the ticks of Flink as the batches of a run: each emits by its own watermark."""
    ticks = flink_ticks(arrivals, setup, flink)
    watermark = np.where(ticks.base_us > NO_BASE_US, ticks.base_us - flink.bound_us, NO_BASE_US)
    base = np.full(len(ticks.slot), NO_BASE_US, np.int64)
    np.maximum.at(base, ticks.of_occupied[arrivals.maxima.occupied], arrivals.maxima.event_time_us)
    return Batches(
        slot=ticks.slot,
        bound_us=np.full(len(ticks.slot), flink.bound_us, np.int64),
        watermark_us=watermark,
        next_watermark_us=watermark,
        base_us=running_max(base),
        of_occupied=ticks.of_occupied,
        bound_changes=0,
    )


def _min_of_active(arrivals: Arrivals, tick: Int64s, seen: Int64s, silent: int | None) -> Int64s:
    """Return the lowest base of the splits that are not idle at each tick, ``NO_BASE_US`` where all are, (ticks,)."""
    splits = arrivals.partitions
    value = arrivals.maxima.event_time_us // SPARK_TICK_US * SPARK_TICK_US
    row = np.searchsorted(tick, seen)
    maximum = np.full(splits, NO_BASE_US, np.int64)
    active = np.zeros(splits, np.int64)  # the tick at which each was last active; the start counts
    lowest = np.empty(len(tick), np.int64)
    height = max(_CELLS // splits, 1)
    for first in range(0, len(tick), height):
        last = min(first + height, len(tick))
        low, high = np.searchsorted(row, [first, last])
        cells = row[low:high] - first, arrivals.maxima.partition[low:high]
        bases = np.full((last - first, splits), NO_BASE_US, np.int64)
        np.maximum.at(bases, cells, value[low:high])
        np.maximum(bases[0], maximum, out=bases[0])
        np.maximum.accumulate(bases, axis=0, out=bases)
        maximum = bases[-1].copy()
        if silent is not None:
            last_active = np.zeros((last - first, splits), np.int64)
            last_active[cells] = seen[low:high]
            np.maximum(last_active[0], active, out=last_active[0])
            np.maximum.accumulate(last_active, axis=0, out=last_active)
            active = last_active[-1].copy()
            bases[tick[first:last, None] - last_active >= silent] = -NO_BASE_US
        bases.min(axis=1, out=lowest[first:last])
    lowest[lowest == -NO_BASE_US] = NO_BASE_US
    return lowest


@dataclass(frozen=True, slots=True)
class Flink:
    """The settings of one Flink source; times in microseconds.

    Raises:
        ValueError: when a setting is out of range.
    """

    native: ClassVar[bool] = True
    bound_us: int = 0
    """Bound of each split, at least 0."""
    idle_us: int | None = None
    """Silence after which a split no longer holds the watermark, above 0; None for never, as without it in Flink."""
    tick_us: int | None = None
    """Time between two watermarks (``pipeline.auto-watermark-interval``), above 0; None for the trigger."""

    def __post_init__(self) -> None:
        """Reject what Flink does not take."""
        if self.bound_us < 0:
            raise ValueError(f"a bound of Flink must be at least 0, not {format_duration(self.bound_us)}")
        for name, value in (("idle timeout", self.idle_us), ("tick", self.tick_us)):
            if value is not None and value <= 0:
                raise ValueError(f"the {name} of Flink must be above 0, not {format_duration(value)}")

    def observe(self, seen: Observation) -> None:
        """Learn nothing."""

    def decide(self, now_us: int, in_force_us: int) -> Decision:  # noqa: ARG002 - the policy's signature
        """Return the bound."""
        return Decision(bound_us=self.bound_us)
