"""What a shadow would have done: a target and caps that are tried beside the SLO in force, without any effect on it.

What its bound would have admitted follows from the needs of the rows that came while it held: a row is admitted if it
needs no more. When its windows would have come out follows from the bases by which each batch emits. Both are what they
would have been, had each bound been in effect as soon as it was recommended.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from itertools import groupby

import numpy as np

from tidemark.models.base.operators import Int64s
from tidemark.models.evidence.horizon import NO_BASE
from tidemark.models.evidence.needs import Needs
from tidemark.models.evidence.slots import DAY_US, edge_us
from tidemark.models.rollout.evidence import Judged


@dataclass(frozen=True, slots=True, kw_only=True)
class TriedBatch:
    """A batch that came while a shadow was there, and what the ledger counted in it."""

    query_id: str
    """Its query."""
    seen_us: int
    """When it was triggered, in microseconds."""
    wall_us: int
    """When it ended, in microseconds."""
    watermark_us: int
    """The watermark in force in it, in microseconds; 0 while there is none."""
    base_us: int | None
    """The base by which it emits, in microseconds; None when none is known."""
    backlog_us: int
    """If it is the first of its query: windows that ended at or before this are a backlog, in microseconds."""
    in_use_bound_ms: int
    """The bound that it ran with."""
    needs: Needs
    """What its rows need."""
    judged: Judged
    """The pairs that were judged in it."""
    unjudged: int
    """Upper limit of the pairs whose fate is unknown."""


@dataclass(slots=True)
class ShadowTally:
    """What a shadow's bounds would have done over some batches, beside what the bounds in use did."""

    rows: int = 0
    """(Row, key) pairs with a known need."""
    late: int = 0
    """How many of them the shadow's bound would have dropped; for keys that are not windows, at most."""
    unknown_rows: int = 0
    """Rows whose need is unknown."""
    judged_rows: int = 0
    """(Row, key) pairs that were judged."""
    late_min: int = 0
    """How many of them were certainly late."""
    late_max: int = 0
    """How many may have been."""
    unjudged_rows: int = 0
    """Upper limit of the pairs whose fate is unknown."""
    windows: int = 0
    """Windows that the shadow's bound would have closed."""
    latency_ms: int = 0
    """The sum of their wall latencies, in milliseconds."""
    in_use_windows: int = 0
    """Windows that were closed."""
    in_use_latency_ms: int = 0
    """The sum of their wall latencies, in milliseconds."""

    def add(self, other: ShadowTally) -> None:
        """Add another one to this."""
        for field in fields(self):
            setattr(self, field.name, getattr(self, field.name) + getattr(other, field.name))


@dataclass(frozen=True, slots=True)
class ClosedUntil:
    """Up to where the windows of a query are closed, in microseconds."""

    query_id: str
    """The query."""
    shadow_us: int
    """By the shadow's bounds."""
    in_use_us: int
    """By the bounds in use."""


def tally(
    batches: Sequence[TriedBatch], ends_us: Int64s, closed: ClosedUntil | None, bound_ms: int | None
) -> tuple[dict[int, ShadowTally], ClosedUntil | None]:
    """Return what batches add to a shadow, by the start of their day (UTC), and up to where windows are closed then.

    Batches may be counted in any portions; the result is the same. What came before a query's first batch here is left
    out, since the shadow had no part in it.

    Args:
        batches: the batches, those of one query in their order.
        ends_us: the ends of the stream's windows, ascending and distinct, shape (windows,); empty without windows.
        closed: up to where windows are closed before them; None at the beginning.
        bound_ms: the shadow's bound, in milliseconds; None while it has recommended none: then the one in use.
    """
    days: dict[int, ShadowTally] = {}
    for query_id, run in groupby(batches, lambda batch: batch.query_id):
        some = list(run)
        if closed is None or closed.query_id != query_id:
            start_us = some[0].watermark_us or some[0].backlog_us
            closed = ClosedUntil(query_id, start_us, start_us)
        wall_us = np.array([batch.wall_us for batch in some], np.int64)
        in_use = closings(ends_us, _int64s(batch.watermark_us for batch in some), wall_us, closed.in_use_us)
        bounds_ms = [batch.in_use_bound_ms if bound_ms is None else bound_ms for batch in some]
        marks = (
            NO_BASE if batch.base_us is None else batch.base_us - of_batch_ms * 1_000
            for batch, of_batch_ms in zip(some, bounds_ms, strict=True)
        )
        shadow = closings(ends_us, _int64s(marks), wall_us, closed.shadow_us)
        closed = ClosedUntil(query_id, shadow.until_us, in_use.until_us)
        for number, (batch, of_batch_ms) in enumerate(zip(some, bounds_ms, strict=True)):
            added = ShadowTally(
                rows=batch.needs.pairs,
                late=late_under(batch.needs, of_batch_ms * 1_000),
                unknown_rows=batch.needs.unknown_rows,
                judged_rows=batch.judged.rows,
                late_min=batch.judged.late_min,
                late_max=batch.judged.late_max,
                unjudged_rows=batch.unjudged,
                windows=int(shadow.windows[number]),
                latency_ms=int(shadow.latency_us[number]) // 1_000,
                in_use_windows=int(in_use.windows[number]),
                in_use_latency_ms=int(in_use.latency_us[number]) // 1_000,
            )
            days.setdefault(edge_us(batch.seen_us, DAY_US), ShadowTally()).add(added)
    return days, closed


def _int64s(values: Iterable[int]) -> Int64s:
    return np.fromiter(values, np.int64)


@dataclass(frozen=True, slots=True)
class Closings:
    """Windows that a bound closed, by the batch that did; shape (batches,) each."""

    windows: Int64s
    """How many."""
    latency_us: Int64s
    """The sum of their wall latencies, in microseconds."""
    until_us: int
    """Windows that ended at or before this are closed, in microseconds."""


def closings(ends_us: Int64s, marks_us: Int64s, wall_us: Int64s, after_us: int) -> Closings:
    """Return which windows the batches of a query close: each by the first batch whose mark has reached its end.

    The marks may fall, but as in Spark the watermark does not follow them down.

    Args:
        ends_us: the ends of the stream's windows, ascending and distinct, shape (windows,).
        marks_us: the watermark by which each batch emits, in microseconds, shape (batches,), at least one.
        wall_us: when each batch ended, shape (batches,).
        after_us: windows that ended at or before this are closed already.
    """
    reached = np.maximum.accumulate(np.maximum(marks_us, after_us))
    ends = ends_us[(ends_us > after_us) & (ends_us <= reached[-1])]
    step = np.searchsorted(reached, ends, side="left")
    waited = np.maximum(wall_us[step] - ends, 0)
    windows, latency = np.zeros(len(marks_us), np.int64), np.zeros(len(marks_us), np.int64)
    np.add.at(windows, step, 1)
    np.add.at(latency, step, waited)
    return Closings(windows, latency, int(reached[-1]))


def late_under(needs: Needs, bound_us: int) -> int:
    """Return how many of the pairs with a known need a bound would have dropped."""
    return int(needs.counts[needs.need_us > bound_us].sum())
