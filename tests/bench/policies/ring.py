"""An order statistic of the last rows' needs: the watermark strategy that stream products ship.

DataSQRL's ``flink-sql-runner`` and Confluent Cloud for Flink keep some 4,096 latenesses and wait for their 95th
percentile, with a floor of 50 ms and not before 250 records (literature 1.8). At the target instead of 95 % it meets
the target about half of the time; at the order statistic that is above the target's quantile with 95 % confidence
it is the strongest simple baseline (literature 0.3).
"""

from __future__ import annotations

import math
from functools import lru_cache

from scipy.special import bdtrik

from tidemark.models.base.target import PPM
from tidemark.models.live.policy import Decision, Observation

from bench.policies.rows import LastRows, scores_of

RING_SIZE = 4_096
"""Rows in DataSQRL's ring."""
MIN_RECORDS = 250
"""Records before the first decision, as both products have it."""
FLOOR_US = 50_000
"""50 ms, both products' minimum bound. Literature S1 measured every ring with it, so it applies to all levels here."""


@lru_cache(maxsize=64)
def one_look_rank(rows: int, share: float) -> int | None:
    """Return the lowest rank that is at or above the share's quantile with 95 % confidence, at one look; None: none.

    This is the exact order statistic of the literature. What Tidemark certifies holds at every look.
    """
    rank = math.floor(float(bdtrik(0.95, rows, share))) + 2
    return rank if rank <= rows else None


class Ring:
    """The order statistic of rank ``ceil(n * share)`` of the last n needs.

    Args:
        share_ppm: the share in parts per million, strictly between 0 and 1,000,000.
        size: rows remembered.
        certified: take instead the lowest rank that is at or above the share's quantile with 95 % confidence; while
            the ring is too short for one, the maximum need.
        floor_us: the minimum bound, in microseconds.

    Raises:
        ValueError: when the share or the size is out of range.
    """

    __slots__ = ("_certified", "_floor_us", "_ring", "_share_ppm", "_size")

    def __init__(
        self,
        share_ppm: int,
        size: int = RING_SIZE,
        *,
        certified: bool = False,
        floor_us: int = FLOOR_US,
    ) -> None:
        if not 0 < share_ppm < PPM:
            raise ValueError(f"the share must lie between 0 and {PPM:,} ppm, both excluded, not {share_ppm}")
        self._share_ppm = share_ppm
        self._size = size
        self._certified = certified
        self._floor_us = floor_us
        self._ring = LastRows(size)

    @property
    def native(self) -> bool:
        """No: the bound moves."""
        return False

    def observe(self, seen: Observation) -> None:
        """Add the rows of a batch."""
        scores = scores_of(seen)
        if scores is not None:
            self._ring.add(scores)

    def decide(self, now_us: int, in_force_us: int) -> Decision:  # noqa: ARG002 - the policy's signature
        """Return the order statistic; no decision before the ring has the minimum number of records."""
        rows = len(self._ring)
        if rows < min(MIN_RECORDS, self._size):
            return Decision()
        return Decision(bound_us=max(self._ring.at_rank(self._rank(rows)), self._floor_us))

    def _rank(self, rows: int) -> int:
        if self._certified:
            return one_look_rank(rows, self._share_ppm / PPM) or rows
        return -(-rows * self._share_ppm // PPM)
