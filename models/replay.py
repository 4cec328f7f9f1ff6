"""Replay: what an engine would do with recorded arrivals, under any bound.

There are two kinds of engines. *Per-row* engines (Flink, Hazelcast Jet) move the base with each row: a row meets the
base of the rows before it, and a window is emitted by the first row that lifts ``base - L`` to its end. *Spark* works
in batches: a row of batch n meets the base of batches up to n-2, and batch n emits what the base of batches up to n-1
allows (``ledger`` has the rule and its source). A ``Replay`` represents both alike: steps with a base for the late
filter and a base for emission.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from tidemark.models.duration import format_duration
from tidemark.models.granules import SPARK_TICK_US
from tidemark.models.needs import needs_us
from tidemark.models.operators import Int64s, Operator

Engine = Literal["spark", "per-row"]
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
    """Wall time at which each step runs, shape (steps,)."""
    tick_us: int
    """Bounds are multiples of this."""

    @property
    def any_judged(self) -> bool:
        """Whether any pair met a base: without one, as in a single batch, no bound could make a row late."""
        return bool((self.late_base_us[self.step] > _NO_BASE).any())

    def needs_us(self) -> Int64s:
        """Return each pair's need, shape (pairs,); very negative when there was no base yet."""
        return needs_us(self.key_us, self.late_base_us[self.step], self.tick_us)


def replay_per_row(event_time_us: Int64s, arrival_us: Int64s, operator: Operator) -> Replay:
    """Return the replay of rows, in order of arrival, through an engine that moves its base with each row."""
    base = np.maximum.accumulate(event_time_us) if len(event_time_us) else event_time_us
    row, key = operator.keys(event_time_us)
    before = np.concatenate([[_NO_BASE], base[:-1]]) if len(base) else base
    return Replay(key, np.ones_like(key), row, before, base, arrival_us, 1)


def replay_spark(event_time_us: Int64s, batch: Int64s, wall_us: Int64s, operator: Operator) -> Replay:
    """Return the replay of rows through Spark.

    Args:
        event_time_us: event times, shape (rows,).
        batch: index of the batch of each row, shape (rows,); no-data batches are those that hold no row.
        wall_us: wall time at which each batch runs, shape (batches,).
        operator: the stateful operator.
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
