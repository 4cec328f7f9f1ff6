"""Batches that are set aside: their rows say nothing of the stream's delays, so their needs are unknown.

* *Excessive*: one of far more rows than the stream's rate explains over the time since the batch before it. It would
  outweigh a month of others, so nothing in it is judged. Where the rate has risen for good, the batches after it count.
* *Replayed*: one that lies behind newer rows by more than its bound, and by more than its query has run. Its rows were
  there before the query was, and come last by the order in which files are read: a first snapshot is often read in
  another one than that of event time. Spark drops such rows, and the ledger says so.

A backlog after an outage is neither: its rows come in their order, or in batches with rows of today.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tidemark.models.base.granules import SPARK_TICK_US
from tidemark.models.protocol.messages import Report

RECENT = 20
"""Newest batches with rows that a stream's rate is known by; half as many suffice, also for a new rate."""

TIMES, LEAST_ROWS = 1_000, 1_000_000
"""How many times as many rows as the rate explains are too many, and how many rows that takes at least.

Chosen: no peak reaches the one, and no load of a trickle that is tried out the other.
"""


def is_excessive(rows: int, seen_us: int, recent: Sequence[tuple[int, int]]) -> bool:
    """Return whether a batch has far more rows than the stream's rate explains.

    Args:
        seen_us: when it was triggered, in microseconds.
        recent: rows and trigger time of the newest ``RECENT`` batches with rows before it.
    """
    if rows < LEAST_ROWS or 2 * len(recent) < RECENT:
        return False
    counts, times_us = np.array(recent, np.int64).T
    gap_us = max(int(np.ptp(times_us)) // (len(recent) - 1), 1)
    return bool(rows > TIMES * np.median(counts) * max((seen_us - int(times_us.max())) / gap_us, 1))


def behind_us(report: Report, base_ms: int | None) -> int:
    """Return how far a whole batch lies behind the base, in microseconds; 0 where that is no more than its bound."""
    if base_ms is None or report.max_event_time_us is None:
        return 0
    found_us = base_ms * SPARK_TICK_US - report.max_event_time_us
    return found_us if found_us > report.bound_ms * 1_000 else 0
