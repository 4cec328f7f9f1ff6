"""The base that a batch's late filter used, and what its rows' needs are against it.

The filter of batch n uses the watermark W(n-1), which covers the rows of batches up to n-2 of the query, over restarts
(see ``BaseTracker``). A driver knows only the batches of its own run; earlier reports tell of those before it. So the
base is the maximum of what the report and earlier reports say. There are three outcomes:

* it is known: the rows have needs;
* it is unknown because there was none yet: the filter of a query's first batches has no watermark, so their
  rows are admitted under any bound. They have no need and are left out of the sketch, but not out of the ledger;
* it is unknown although the filter had one: the needs of those rows are *unknown*, and are counted as such.

Misdated rows (``tidemark.models.evidence.misdated``) have no need either: no bound is for them.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from tidemark.models.base.granules import SPARK_TICK_US
from tidemark.models.base.operators import Int64s
from tidemark.models.evidence.key_counts import KeyCounts, key_counts
from tidemark.models.evidence.ledger import judge
from tidemark.models.evidence.misdated import Clocks, separate_misdated
from tidemark.models.protocol.messages import Report

_FIRST_JUDGED_BATCH = 2
"""First batch whose late filter can know a row: that of batch 2 uses W(1), which covers batch 0."""


def _nothing() -> Int64s:
    return np.empty(0, np.int64)


@dataclass(frozen=True, slots=True)
class Needs:
    """The needs of one report's rows, as far as they are known."""

    base_ms: int | None
    """The base they were counted against, in milliseconds; None when none is known."""
    need_us: Int64s = field(default_factory=_nothing)
    """Needs in microseconds, by partition after partition, shape (n,)."""
    counts: Int64s = field(default_factory=_nothing)
    parts: Int64s = field(default_factory=_nothing)
    """Position of each one's partition in ``partitions``, shape (n,)."""
    partitions: tuple[str, ...] = ()
    unknown_rows: int = 0
    """Rows whose need is unknown: not counted by granule, or filtered against an unknown base."""
    early_rows: int = 0
    """Rows that arrived before the filter had a watermark: no bound could have made them late."""
    misdated_rows: int = 0
    """Rows whose event time no delay explains: they have no need."""
    misdated_late: int = 0
    """(Row, key) pairs of them that were certainly late, and those that only a watermark of wrong clocks dropped."""
    misdated_pairs: int = 0
    """(Row, key) pairs that no bound is judged by: of misdated rows, and those others."""

    @property
    def pairs(self) -> int:
        """(Row, key) pairs with a known need."""
        return int(self.counts.sum())

    @property
    def by_partition(self) -> dict[str, tuple[Int64s, Int64s]]:
        """By partition ``(need_us, count)``, shape (counts of the partition,) each."""
        order = np.argsort(self.parts, kind="stable")
        edges = np.searchsorted(self.parts[order], np.arange(1, len(self.partitions)))
        needs, counts = np.split(self.need_us[order], edges), np.split(self.counts[order], edges)
        return dict(zip(self.partitions, zip(needs, counts, strict=True), strict=False))


def floor_ms(time_us: int) -> int:
    """Return the whole milliseconds at or before ``time_us``, as Spark rounds event times into watermarks."""
    return time_us // SPARK_TICK_US


def late_base_ms(reported_ms: int | None, earlier_us: int | None) -> int | None:
    """Return the base of a batch's late filter in milliseconds, None when it is not known.

    Args:
        reported_ms: the base in the report, which covers the batches of its own run only.
        earlier_us: maximum event time, in microseconds, of the reports of the same query with batch ids up to
            ``batch_id - 2``; None when there is none.
    """
    bases_ms = [] if earlier_us is None else [floor_ms(earlier_us)]
    if reported_ms is not None:
        bases_ms.append(reported_ms)
    return max(bases_ms, default=None)


def needs_against(
    report: Report, base_ms: int | None, pairs: KeyCounts | None = None, clocks: Clocks | None = None
) -> Needs:
    """Return the needs of the report's rows against the base of its late filter; unknown if rows are not judged.

    Where a granule's rows have different keys (row-level, sessions) the lowest one is taken, so that no need is too
    small.

    Args:
        base_ms: the base, without rows of wrong clocks, in milliseconds; None when it is not known.
        pairs: its (row, key) pairs, if the caller has them.
        clocks: its clocks; None when they are not known.
    """
    timed_rows = report.rows - report.null_rows
    if report.contradiction is not None:
        return Needs(None, unknown_rows=timed_rows)  # the keys of another operator would be wrong
    separated = separate_misdated(report, base_ms, clocks=clocks)
    if separated is None:
        return _plausible_needs(report, base_ms, pairs, timed_rows)
    plausible, wrong = separated
    misdated_rows = int(wrong.counts.sum())
    needs = _plausible_needs(report, base_ms, key_counts(report, plausible), timed_rows - misdated_rows)
    judged = judge(report, key_counts(report, wrong)).total
    return replace(
        needs,
        misdated_rows=misdated_rows,
        misdated_late=needs.misdated_late + judged.late_min,
        misdated_pairs=needs.misdated_pairs + judged.rows,
    )


def _plausible_needs(report: Report, base_ms: int | None, pairs: KeyCounts | None, timed_rows: int) -> Needs:
    if base_ms is not None:
        pairs = key_counts(report) if pairs is None else pairs
        need_us = needs_us(pairs.first_us, base_ms * SPARK_TICK_US, SPARK_TICK_US)
        lost = _lost_to_clocks(report, base_ms, pairs, need_us)
        return Needs(
            base_ms,
            need_us,
            pairs.counts,
            pairs.parts,
            pairs.partitions,
            unknown_rows=pairs.uncounted_rows,
            misdated_late=lost,
            misdated_pairs=lost,
        )
    # Spark's watermark is 0 before it has read a row.
    if report.batch_id < _FIRST_JUDGED_BATCH or report.late_watermark_ms == 0:
        return Needs(None, early_rows=timed_rows)
    return Needs(None, unknown_rows=timed_rows)


def _lost_to_clocks(report: Report, base_ms: int, pairs: KeyCounts, need_us: Int64s) -> int:
    """Return how many pairs the watermark dropped though the bound admits them: it follows a clock that is ahead."""
    late_ms, drops = report.late_watermark_ms or 0, report.output_mode != "complete"
    follows = (report.late_base_ms or 0) > base_ms or (report.live is None and late_ms > base_ms)
    if not follows or not drops:
        return 0
    dropped = (pairs.last_us <= late_ms * SPARK_TICK_US) & (need_us <= report.bound_ms * SPARK_TICK_US)
    return int(pairs.counts[dropped].sum())


def needs_us(key_us: Int64s, base_us: Int64s | int, tick_us: int) -> Int64s:
    """Return for each key the smallest multiple of ``tick_us`` that admits it against its base, shape (n,)."""
    return ((base_us - key_us) // tick_us + 1) * tick_us
