"""Run: what an engine does with recorded arrivals under a policy, row by row and window by window."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tidemark.models.backtest.arrivals import MINUTE_US, Arrivals
from tidemark.models.backtest.bases import shifted
from tidemark.models.backtest.distinct import sums
from tidemark.models.backtest.flink import flink_batches
from tidemark.models.backtest.per_row import Ticks, first_rows, native_ticks, policy_ticks
from tidemark.models.backtest.spark import (
    Batches,
    live_batches,
    native_batches,
    plan_bound_us,
    restart_batches,
)
from tidemark.models.operators import Int64s
from tidemark.models.policies.flink import Flink
from tidemark.models.policies.policy import NO_BASE_US, BoundPolicy
from tidemark.models.policies.setup import Setup

_ROWS = 1 << 20
"""Rows of a per-row engine that are judged at a time."""


@dataclass(frozen=True, slots=True)
class BacktestRun:
    """What happened in a run. Arrays are int64, times microseconds; late and arrived are (row, key) pairs."""

    slot: Int64s
    """Slot of each batch (per-row engines: tick), ascending, shape (batches,)."""
    wall_us: Int64s
    """Wall time at which each runs, shape (batches,)."""
    rows: Int64s
    """Rows in each, shape (batches,)."""
    bound_us: Int64s
    """Bound behind each one's watermark, ``NO_BOUND_US`` where there is none, shape (batches,)."""
    watermark_us: Int64s
    """Watermark by which each batch emits; per-row engines: at the end of the tick. Shape (batches,)."""
    late_watermark_us: Int64s
    """Watermark by which each batch's rows are late; per-row engines: at the start of the tick. Shape (batches,)."""
    base_lag_us: Int64s
    """The stream's base after a batch less the watermark in force after it, where both are known, shape (known,)."""
    bound_changes: int
    """How often a bound was changed (with restarts: their number); 0 when the policy moves the watermark."""
    late: int
    """Late pairs."""
    late_by_minute: Int64s
    """Late pairs by ``Arrivals.minutes``, shape (minutes,)."""
    rows_by_minute: Int64s
    """Pairs by ``Arrivals.minutes``, shape (minutes,)."""
    late_by_key: Int64s
    """Late pairs by ``Arrivals.keys_us``, shape (keys,)."""
    rows_by_key: Int64s
    """Pairs by ``Arrivals.keys_us``, shape (keys,)."""
    emit_wall_us: Int64s
    """When each key was closed, the end of the replay when it was not, shape (keys,)."""


def run(
    arrivals: Arrivals, setup: Setup, policy: BoundPolicy, on_slot: Callable[[int], object] = lambda _: None
) -> BacktestRun:
    """Return what the engine does with ``arrivals`` under ``policy``.

    Args:
        arrivals: what arrived, counted for this ``setup``.
        setup: the operator, the engine and how a decision reaches the job.
        policy: observes each batch after it ran, then decides.
        on_slot: called with the slot of each batch as it runs.

    Raises:
        ValueError: when the policy decides something that the engine cannot do.
    """
    if isinstance(policy, Flink):
        on_slot(arrivals.slots - 1)
        return run_flink(arrivals, setup, policy)
    if policy.native:
        bound_us = policy.decide(arrivals.first_us, arrivals.first_us).bound_us
        if bound_us is None:
            raise ValueError("a native policy gives its bound before the first batch, and a bound only")
        on_slot(arrivals.slots - 1)
        return run_native(arrivals, setup, bound_us)
    if setup.engine == "per-row":
        return _judged_rows(arrivals, setup, policy_ticks(arrivals, setup, policy, on_slot))
    replay = live_batches if setup.mode == "live" else restart_batches
    return _judged_batches(arrivals, setup, replay(arrivals, setup, policy, on_slot))


def run_native(arrivals: Arrivals, setup: Setup, bound_us: int) -> BacktestRun:
    """Return what the engine does by itself under one constant bound, at least 0; Spark's has whole milliseconds."""
    if setup.engine == "per-row":
        return _judged_rows(arrivals, setup, native_ticks(arrivals, setup, max(bound_us, 0)))
    return _judged_batches(arrivals, setup, native_batches(arrivals, setup, plan_bound_us(bound_us)))


def run_flink(arrivals: Arrivals, setup: Setup, flink: Flink) -> BacktestRun:
    """Return what Flink does with the same arrivals, whatever the engine and the mode of ``setup``; a batch is a tick.

    Raises:
        ValueError: when Flink's tick is not a whole number of triggers.
    """
    return _judged_batches(arrivals, setup, flink_batches(arrivals, setup, flink))


def _judged_batches(arrivals: Arrivals, setup: Setup, batches: Batches) -> BacktestRun:
    wall = arrivals.first_us + (batches.slot + 1) * setup.trigger_us
    late_watermark = shifted(batches.watermark_us, 1)
    rows = np.zeros(len(batches.slot), np.int64)
    np.add.at(rows, batches.of_occupied, arrivals.occupied_rows)
    counts = np.diff(np.searchsorted(arrivals.slot, arrivals.occupied), append=len(arrivals.slot))
    late = arrivals.key_us <= np.repeat(late_watermark[batches.of_occupied], counts)
    weight = arrivals.count[late]
    emitting = np.searchsorted(batches.watermark_us, arrivals.keys_us)
    return BacktestRun(
        slot=batches.slot,
        wall_us=wall,
        rows=rows,
        bound_us=batches.bound_us,
        watermark_us=batches.watermark_us,
        late_watermark_us=late_watermark,
        base_lag_us=_lag(batches.base_us, batches.next_watermark_us),
        bound_changes=batches.bound_changes,
        late=int(weight.sum()),
        late_by_minute=sums(arrivals.minute_index[late], weight, len(arrivals.minutes)),
        rows_by_minute=arrivals.pairs_by_minute,
        late_by_key=sums(arrivals.key_index[late], weight, len(arrivals.keys_us)),
        rows_by_key=arrivals.pairs_by_key,
        emit_wall_us=wall[np.minimum(emitting, len(wall) - 1)],
    )


def _judged_rows(arrivals: Arrivals, setup: Setup, ticks: Ticks) -> BacktestRun:
    first = first_rows(arrivals)
    before = ticks.before_us(first)
    wall = arrivals.first_us + (arrivals.occupied + 1) * setup.trigger_us
    late_by_minute = np.zeros(len(arrivals.minutes), np.int64)
    late_by_key = np.zeros(len(arrivals.keys_us), np.int64)
    for low in range(0, arrivals.rows, _ROWS):
        events = arrivals.each.event_time_us[low : low + _ROWS]
        row, key = setup.operator.keys(events)
        late = key <= before[low : low + _ROWS][row]
        minute = np.searchsorted(arrivals.minutes, events[row[late]] // MINUTE_US)
        np.add.at(late_by_minute, minute, 1)
        np.add.at(late_by_key, np.searchsorted(arrivals.keys_us, key[late]), 1)
    return BacktestRun(
        slot=arrivals.occupied,
        wall_us=wall,
        rows=arrivals.occupied_rows,
        bound_us=ticks.bound_us,
        watermark_us=ticks.tick_watermark_us,
        late_watermark_us=before[first],
        base_lag_us=_lag(ticks.base_us, ticks.tick_watermark_us),
        bound_changes=ticks.bound_changes,
        late=int(late_by_key.sum()),
        late_by_minute=late_by_minute,
        rows_by_minute=arrivals.pairs_by_minute,
        late_by_key=late_by_key,
        rows_by_key=arrivals.pairs_by_key,
        emit_wall_us=_emitted(arrivals, ticks, wall),
    )


def _emitted(arrivals: Arrivals, ticks: Ticks, wall_us: Int64s) -> Int64s:
    """Return when each key was closed: by the first row that lifted the watermark to it, or at a tick's end.

    The replay ends with the last row, so keys that only the last decision would close are closed then, as are the rest.
    """
    row = np.searchsorted(ticks.row_watermark_us, arrivals.keys_us)
    tick = np.searchsorted(ticks.tick_watermark_us, arrivals.keys_us)
    end = np.append(np.cumsum(arrivals.occupied_rows), arrivals.rows + 1)
    by_row = row < end[tick]
    emitted: Int64s = np.where(
        by_row & (row < arrivals.rows),
        arrivals.each.arrival_time_us[np.minimum(row, arrivals.rows - 1)],
        np.append(wall_us[:-1], [arrivals.last_us] * 2)[tick],
    )
    return emitted


def _lag(base_us: Int64s, watermark_us: Int64s) -> Int64s:
    known = (base_us > NO_BASE_US) & (watermark_us > NO_BASE_US)
    return (base_us - watermark_us)[known]
