"""Skew: how much of a stream's bound one partition causes.

The bound is the certified order statistic of the needs of all partitions, as in the first step of a recommendation.
The bound without one partition is that of the same share of the others' needs; the difference is what the partition
*costs*. A partition is *skewed* when its cost exceeds a share of the bound and an absolute amount. It stays skewed
until the cost is well below both, so that the state does not flap.

By design, no partition is called skewed:

* when there are only two: neither is the odd one, so three are needed;
* because of a handful of rows: the partition must have enough rows to certify the target by itself, and ``MIN_BEYOND``
  of them must need more than the bound that the others need;
* when all partitions are late: without any single one the bound hardly falls.

Limit: two partitions that are equally late hide each other. Without either one the bound stays the same, so neither is
called skewed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tidemark.models.base.confidence import certified_rank, min_events
from tidemark.models.base.target import PPM
from tidemark.models.evidence.partition_needs import PartitionNeeds

SKEW_SHARE_PPM = 200_000
"""Minimum share of the bound that a skewed partition costs, in parts per million.

Chosen: twice the narrowing that is worth a change (``NARROW_DEAD_BAND_PPM``). Lower, and the noise of a small stream's
slowest rows counts as skew; higher, and a partition that raises the latency of the whole stream is overlooked.
"""

SKEW_AMOUNT_MS = 1_000
"""Minimum cost of a skewed partition, in milliseconds. Chosen: nobody moves a partition for less."""

_RECOVERY_PPM = 500_000
"""Share of both thresholds below which a partition is no longer skewed, in parts per million.

Chosen: a bound is an order statistic of thousands of rows and varies by some percent, not by half.
"""

MIN_PARTITIONS = 3
"""Minimum number of partitions with rows: of two, neither is the odd one."""

MIN_BEYOND = 30
"""Minimum number of rows of a partition that need more than the bound without it.

Chosen: by Poisson the standard deviation of 30 is a fifth of it, so that they are no accident. A partition of ten rows
is never called skewed.
"""

AT_A_TIME = 4_000_000
"""Counts processed at a time: limits the memory for a stream with thousands of partitions to some 100 MB."""


@dataclass(frozen=True, slots=True)
class SkewRule:
    """The thresholds from which a partition counts as skewed."""

    share_ppm: int = SKEW_SHARE_PPM
    amount_ms: int = SKEW_AMOUNT_MS


@dataclass(frozen=True, slots=True)
class Effect:
    """The effect of one partition on the bound of its stream. None: unknown, for lack of evidence."""

    partition: str
    pairs: int
    """(Row, key) pairs of it with a known need."""
    beyond: int
    """How many of them need more than the bound without it; 0 when that is not known."""
    bound_ms: int | None
    """The bound that all partitions together need, in milliseconds."""
    without_ms: int | None
    """The bound that the others need, in milliseconds."""

    @property
    def costs_ms(self) -> int | None:
        """By how much the bound would fall without it, in milliseconds; negative when it would rise."""
        return None if self.bound_ms is None or self.without_ms is None else self.bound_ms - self.without_ms


def effects_of(
    needs: PartitionNeeds, target_ppm: int, confidence_ppm: int, rows_per_event: float = 1.0
) -> list[Effect]:
    """Return the effect of each partition on the bound, in the order of ``needs.names``.

    The bound is that of the certified rank. Without a partition it is that of the same share of the others' pairs, so
    that fewer pairs do not count as less certain.
    """
    edges, counts = needs.table()
    pairs = needs.pairs
    total = np.cumsum(counts.sum(axis=0))
    every = int(pairs.sum())
    rank = certified_rank(every, target_ppm / PPM, confidence_ppm / PPM, rows_per_event)
    bound_ms = None if rank is None else _whole_ms(edges[int(np.searchsorted(total, rank, side="left"))])
    others = (every - pairs).tolist()
    ranks = np.array([0 if rank is None else -(-some * rank // every) for some in others], np.int64)
    effects: list[Effect] = []
    step = max(AT_A_TIME // max(len(edges), 1), 1)
    for first in range(0, len(pairs), step):
        rows = slice(first, first + step)
        mine = np.cumsum(counts[rows], axis=1)
        # Where the others reach the rank; without a rank they never do.
        position = ((total - mine) < ranks[rows, None]).sum(axis=1)
        for offset, at in enumerate(position.tolist()):
            number, certified = first + offset, ranks[first + offset] > 0
            effects.append(
                Effect(
                    needs.names[number],
                    int(pairs[number]),
                    int(pairs[number] - mine[offset, at]) if certified else 0,
                    bound_ms,
                    _whole_ms(edges[at]) if certified else None,
                )
            )
    return effects


def is_skewed(
    effect: Effect,
    partitions: int,
    target_ppm: int,
    confidence_ppm: int,
    *,
    before: bool = False,
    rule: SkewRule = SkewRule(),
) -> bool:
    """Return whether a partition is skewed.

    Args:
        effect: its effect on the bound.
        partitions: how many partitions of the stream have rows.
        target_ppm: the completeness target, in parts per million.
        confidence_ppm: confidence with which it is certified, in parts per million.
        before: whether it was skewed so far; then it stays so until it costs less than half as much.
    """
    costs_ms, bound_ms = effect.costs_ms, effect.bound_ms
    if costs_ms is None or bound_ms is None or costs_ms <= 0:
        return False
    enough = min_events(target_ppm / PPM, confidence_ppm / PPM)
    if partitions < MIN_PARTITIONS or effect.pairs < enough or effect.beyond < MIN_BEYOND:
        return False
    part_ppm = _RECOVERY_PPM if before else PPM
    return (
        costs_ms * PPM >= rule.amount_ms * part_ppm
        and costs_ms * PPM * PPM >= bound_ms * rule.share_ppm * part_ppm
    )


def _whole_ms(need_us: float) -> int:
    # As in a recommendation: Spark's delay has whole milliseconds and, outside Live, cannot be negative.
    return max(int(np.ceil(need_us / 1_000)), 0)
