"""Per-row engines under a policy: the watermark after each row.

A row is late iff its key is at or below the watermark that the rows before it made; after it, the watermark is
``max(W, base - L)``. A policy decides at the end of each tick with rows, for the rows that follow; a watermark that
it decides is in force at once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from tidemark.models.backtest.arrivals import Arrivals, min_of_partitions, running_max, shifted
from tidemark.models.backtest.spark import DecisionInForce
from tidemark.models.base.granules import granule_first_us, granule_index
from tidemark.models.base.operators import Int64s
from tidemark.models.evidence.needs import needs_us
from tidemark.models.live.policy import NO_BASE_US, BoundPolicy, Observation, Setup


@dataclass(frozen=True, slots=True)
class Ticks:
    """The watermark of a run. Arrays are int64, times microseconds."""

    row_watermark_us: Int64s
    """Watermark after each row, shape (rows,)."""
    tick_watermark_us: Int64s
    """Watermark at the end of each tick with rows, shape (occupied,)."""
    bound_us: Int64s
    """Bound in force in each of those, -2**63 where none, shape (occupied,)."""
    base_us: Int64s
    """Maximum event time of the stream after each of those, shape (occupied,)."""
    bound_changes: int

    def before_us(self, first_row: Int64s) -> Int64s:
        """Return the watermark that each row meets, shape (rows,); ``first_row`` is that of each tick."""
        before = shifted(self.row_watermark_us, 1)
        before[first_row[1:]] = self.tick_watermark_us[:-1]
        return before


def first_rows(arrivals: Arrivals) -> Int64s:
    """Return the index of the first row of each occupied tick, shape (occupied,)."""
    return np.cumsum(arrivals.occupied_rows) - arrivals.occupied_rows


def native_row_bases(arrivals: Arrivals, setup: Setup) -> Int64s:
    """Return the base after each row by the setup's scope, non-decreasing, shape (rows,)."""
    if setup.scope == "partition":
        nothing = np.full(arrivals.partitions, NO_BASE_US, np.int64)
        return running_max(_min_after(arrivals, slice(0, arrivals.rows), nothing, nothing * 0))
    return running_max(arrivals.by_row.event_time_us)


def native_ticks(arrivals: Arrivals, setup: Setup, bound_us: int) -> Ticks:
    """Return the watermarks under one constant bound."""
    last = np.cumsum(arrivals.occupied_rows) - 1
    mark = native_row_bases(arrivals, setup) - bound_us
    return Ticks(
        row_watermark_us=mark,
        tick_watermark_us=mark[last],
        bound_us=np.full(len(last), bound_us, np.int64),
        base_us=running_max(arrivals.by_row.event_time_us)[last],
        bound_changes=0,
    )


def policy_ticks(
    arrivals: Arrivals, setup: Setup, policy: BoundPolicy, on_slot: Callable[[int], object]
) -> Ticks:
    """Return the watermarks of an engine that follows ``policy``."""
    events, partitions = arrivals.by_row.event_time_us, arrivals.by_row.partition
    base = running_max(events)
    own = _own_bases_before(arrivals)
    base_before = shifted(base, 1)
    marks, tick_marks, bounds = np.empty(arrivals.rows, np.int64), [], []
    maxima = np.full(arrivals.partitions, NO_BASE_US, np.int64)
    width, closed = setup.granule_us, setup.operator.closed
    in_force, mark = DecisionInForce(), NO_BASE_US
    low, seen_partitions = 0, 0
    for slot, rows in zip(arrivals.occupied.tolist(), arrivals.occupied_rows.tolist(), strict=True):
        span = slice(low, low + rows)
        decision = in_force.decision
        bounds.append(in_force.bound_us)
        after = marks[span]
        if decision.bounds_us is not None:
            after[:] = _min_after(arrivals, span, maxima, decision.bounds_us)
        elif decision.bound_us is not None and setup.scope == "partition":
            after[:] = _min_after(arrivals, span, maxima, maxima * 0) - decision.bound_us
        elif decision.bound_us is not None:
            after[:] = base[span] - decision.bound_us
        else:
            after[:] = mark
        after[0] = max(int(after[0]), mark)
        np.maximum.accumulate(after, out=after)
        mark = int(after[-1])
        on_slot(slot)
        maxima = maxima.copy()
        np.maximum.at(maxima, partitions[span], events[span])
        now = arrivals.first_us + (slot + 1) * setup.trigger_us
        row, key = setup.operator.keys(events[span])
        event = granule_first_us(granule_index(events[span], width, closed), width, closed)[row]
        order = np.lexsort((key, event, partitions[span][row]))
        row, key = row[order], key[order]
        partition = partitions[span][row].astype(np.int64)
        seen_partitions = max(seen_partitions, int(partition[-1]) + 1)
        policy.observe(
            Observation(
                now_us=now,
                partition=partition,
                key_us=key,
                event_us=event[order],
                count=np.ones_like(key),
                need_us=needs_us(key, base_before[span][row], 1),
                own_need_us=needs_us(key, own[span][row], 1),
                base_us=maxima[:seen_partitions].copy(),
            )
        )
        in_force.take(policy.decide(now, now))
        if in_force.decision.watermark_us is not None:
            mark = max(mark, in_force.decision.watermark_us)
        tick_marks.append(mark)
        low += rows
    last = np.cumsum(arrivals.occupied_rows) - 1
    return Ticks(
        row_watermark_us=marks,
        tick_watermark_us=np.array(tick_marks, np.int64),
        bound_us=np.array(bounds, np.int64),
        base_us=base[last],
        bound_changes=in_force.bound_changes,
    )


def _min_after(arrivals: Arrivals, span: slice, maxima_us: Int64s, bounds_us: Int64s) -> Int64s:
    """Return after each row the minimum, over the partitions seen, of their maximum less their bound.

    Partitions beyond the length of ``bounds_us`` count as not seen.
    """
    rows = span.stop - span.start
    if not len(bounds_us):
        return np.full(rows, NO_BASE_US, np.int64)
    bounded = np.flatnonzero(arrivals.by_row.partition[span] < len(bounds_us))
    partition = arrivals.by_row.partition[span][bounded]
    maxima_us = maxima_us[: len(bounds_us)]
    return min_of_partitions(
        bounded,
        partition,
        arrivals.by_row.event_time_us[span][bounded] - bounds_us[partition],
        rows,
        np.where(maxima_us > NO_BASE_US, maxima_us - bounds_us, NO_BASE_US),
    )


def _own_bases_before(arrivals: Arrivals) -> Int64s:
    """Return the maximum event time of its own partition before each row, shape (rows,)."""
    order = np.argsort(arrivals.by_row.partition, kind="stable")
    events = arrivals.by_row.event_time_us[order]
    edges = np.searchsorted(arrivals.by_row.partition[order], np.arange(arrivals.partitions + 1))
    before = np.empty(arrivals.rows, np.int64)
    for low, high in pairwise(edges):
        before[order[low:high]] = shifted(running_max(events[low:high]), 1)
    return before
