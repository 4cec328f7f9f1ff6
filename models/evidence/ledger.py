"""The ledger: which rows Spark admitted and which it dropped as late, from counts and Spark's own rule.

Spark drops a row of batch n iff ``key_us <= 1000 * W(n-1)``, with W(n-1) the watermark of the batch before it in the
offset log, no-data batches included and across restarts (Spark 4.2, measured; ``late_watermark_ms`` of a report). Where
its operator drops none (``models.base.stateful``) no row is late. The ledger, not a model, says whether an SLO was met,
so it reports as unknown what it does not know: rows that could not be counted by granule, batches never reported, the
rows of a granule that the watermark cuts (an interval), and every row of a query whose operator is not known.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tidemark.models.base.granules import SPARK_TICK_US
from tidemark.models.base.operators import Int64s
from tidemark.models.evidence.key_counts import KeyCounts, key_counts, sum_runs
from tidemark.models.protocol.messages import Report


@dataclass(frozen=True, slots=True)
class Tally:
    """Counts of (row, key) pairs."""

    rows: int = 0
    late_min: int = 0
    """Pairs that were certainly late."""
    late_max: int = 0
    """Pairs that may have been late: more than ``late_min`` only where the watermark cut a granule."""

    def __add__(self, other: Tally) -> Tally:
        """Add two tallies."""
        return Tally(self.rows + other.rows, self.late_min + other.late_min, self.late_max + other.late_max)


@dataclass(frozen=True, slots=True)
class Judgement:
    """The fate of the rows of a report."""

    keys_us: Int64s
    """Keys in microseconds, ascending and distinct, shape (keys,): windows' ends, else a granule's highest key."""
    counts: Int64s
    """(Row, key) pairs of each, int64, shape (3, keys): that arrived, that were certainly late, that may have been."""
    unjudged_rows: int
    """Rows whose fate is unknown: not counted by granule, or judged by an unknown watermark."""
    corrected_min: int = 0
    """Late pairs that certainly counted in a later version of their window (``late=revise``)."""
    corrected_max: int = 0

    @property
    def total(self) -> Tally:
        """The sum of all."""
        return Tally(*self.counts.sum(axis=1).tolist())

    @property
    def first_key_us(self) -> int | None:
        """Lowest key in microseconds; None without any."""
        return int(self.keys_us[0]) if len(self.keys_us) else None

    @property
    def tallies(self) -> dict[int, Tally]:
        """The counts by key in microseconds, ascending."""
        return {
            key_us: Tally(*counts)
            for key_us, counts in zip(self.keys_us.tolist(), self.counts.T.tolist(), strict=True)
        }


def judge(report: Report, pairs: KeyCounts | None = None) -> Judgement:
    """Return what Spark did with the rows of ``report``; ``pairs`` are its (row, key) pairs if the caller has them."""
    unknown = report.late_watermark_ms is None and report.drops_late
    if unknown or report.contradiction is not None:
        nothing = np.empty(0, np.int64)
        return Judgement(nothing, np.empty((3, 0), np.int64), report.rows - report.null_rows)
    pairs = key_counts(report) if pairs is None else pairs
    late_min = late_max = np.zeros_like(pairs.counts)
    if report.drops_late:
        late_us = (report.late_watermark_ms or 0) * SPARK_TICK_US
        late_min, late_max = (
            pairs.counts * (pairs.last_us <= late_us),
            pairs.counts * (pairs.first_us <= late_us),
        )
    counts = np.stack([pairs.counts, late_min, late_max])
    corrected = _corrected(report, pairs, late_min, late_max)
    return Judgement(*sum_runs(pairs.last_us, counts), pairs.uncounted_rows, *corrected)


def _corrected(report: Report, pairs: KeyCounts, late_min: Int64s, late_max: Int64s) -> tuple[int, int]:
    """Return how many of the late pairs Spark did not drop, for certain and at most."""
    if report.final_watermark_ms is None:
        return 0, 0
    final_us = report.final_watermark_ms * SPARK_TICK_US
    return int(late_min[pairs.first_us > final_us].sum()), int(late_max[pairs.last_us > final_us].sum())


def effective_bound_ms(base_ms: int | None, watermark_ms: int) -> int | None:
    """Return how far the watermark actually trails the base, in milliseconds; None without a base or a watermark.

    It differs from the bound in use after a restart with another bound: the watermark never moves back, so a
    wider bound is in effect only after the base has moved on.
    """
    return None if base_ms is None or watermark_ms == 0 else base_ms - watermark_ms


class BaseTracker:
    """The base that a batch's late filter used, from the batches before it.

    The filter of batch n uses W(n-1), which covers the rows of batches up to n-2 (Spark 4.2, ``WatermarkTracker`` and
    ``PropagateWatermarkSimulator``; measured). Batches may be added more than once, and in any order as long as none
    is more than 1,000 behind the newest.
    """

    _REMEMBERED = 1_000

    def __init__(self) -> None:
        self._maxima_ms: dict[int, int] = {}

    def add(self, batch_id: int, max_event_time_us: int | None) -> None:
        """Add the maximum event time of a batch; None for a batch without rows."""
        if max_event_time_us is not None:
            base_ms = max_event_time_us // SPARK_TICK_US
            self._maxima_ms[batch_id] = max(base_ms, self._maxima_ms.get(batch_id, base_ms))
            if len(self._maxima_ms) > self._REMEMBERED:
                # A driver runs for months: the oldest is merged into the next, where it still counts.
                oldest, following = sorted(self._maxima_ms)[:2]
                self._maxima_ms[following] = max(self._maxima_ms.pop(oldest), self._maxima_ms[following])

    def late_base_ms(self, batch_id: int) -> int | None:
        """Return the base of ``batch_id``'s late filter in milliseconds, None when no earlier batch had rows."""
        return max((base for batch, base in self._maxima_ms.items() if batch <= batch_id - 2), default=None)
