"""Skew: how much of a stream's bound one partition is to blame for.

The bound is the certified order statistic of the needs of all partitions, as in the first step of a recommendation.
Take one partition away and count again: the difference is what the partition *costs*. It is *skewed* when it costs a
share of the bound and an amount, and is healed only well below both, so that it does not flicker.

What this does not say, on purpose:

* of two partitions which one is odd: without either the other is all there is, so three are needed;
* that a partition is skewed by a handful of rows: alone it must have rows enough to certify the target, and
  ``MIN_BEYOND`` of them must be beyond the bound that the others need;
* anything when the whole fleet is late: then without any one partition the bound hardly falls.

Two partitions that are late alike hide each other where either alone would keep the bound up: taking one away changes
nothing then, and neither is called skewed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tidemark.models.duration import format_about, format_duration
from tidemark.models.partition_needs import PartitionNeeds
from tidemark.models.quantile import certified_rank, certified_ranks, min_samples
from tidemark.models.target import PPM

__all__ = [
    "MIN_BEYOND",
    "MIN_PARTITIONS",
    "SKEW_AMOUNT_MS",
    "SKEW_SHARE_PPM",
    "Effect",
    "SkewRule",
    "effects_of",
    "is_skewed",
    "skew_text",
]

SKEW_SHARE_PPM = 200_000
"""Share of the bound that a skewed partition costs at the least, in parts per million.

Chosen: twice the narrowing that is worth a change (``NARROW_DEAD_BAND_PPM``). Lower, and the noise of a small stream's
last rows is called skew; higher overlooks what doubles nobody's latency but everybody's.
"""

SKEW_AMOUNT_MS = 1_000
"""Milliseconds that a skewed partition costs at the least. Chosen: nobody moves a partition for less."""

HEAL_PPM = 500_000
"""Share of both thresholds below which a skewed partition is healed, in parts per million.

Chosen: a bound is an order statistic of thousands of rows and wavers by some percent, not by half.
"""

MIN_PARTITIONS = 3
"""Partitions with rows that it takes to call one of them odd: of two nobody can tell which."""

MIN_BEYOND = 30
"""Rows of a partition that must need more than the bound without it.

Chosen: by Poisson 30 have a standard deviation of a fifth of themselves, so that they are no accident; a partition of
ten rows is never called skewed, whatever the target.
"""

AT_A_TIME = 4_000_000
"""Counts that are looked at together: bounds the memory of a stream with thousands of partitions to some 100 MB."""


@dataclass(frozen=True, slots=True)
class SkewRule:
    """From when on a partition counts as skewed."""

    share_ppm: int = SKEW_SHARE_PPM
    """Share of the bound that it costs, in parts per million."""
    amount_ms: int = SKEW_AMOUNT_MS
    """Milliseconds that it costs."""


@dataclass(frozen=True, slots=True)
class Effect:
    """What one partition does to the bound of its stream. None is unknown: too little evidence."""

    partition: str
    """Its name."""
    pairs: int
    """(Row, key) pairs of it with a known need."""
    beyond: int
    """How many of them need more than the bound without it; 0 when that is not known."""
    bound_ms: int | None
    """The bound that all partitions need together, in milliseconds."""
    without_ms: int | None
    """The bound that the others need, in milliseconds."""

    @property
    def costs_ms(self) -> int | None:
        """By how much the bound would fall without it, in milliseconds; negative when it would rise."""
        return None if self.bound_ms is None or self.without_ms is None else self.bound_ms - self.without_ms


def effects_of(needs: PartitionNeeds, target_ppm: int, confidence_ppm: int) -> list[Effect]:
    """Return what each partition does to the bound, in the order of ``needs.names``.

    Args:
        needs: the needs of all partitions over the same horizon.
        target_ppm: the completeness target, in parts per million.
        confidence_ppm: confidence with which it is certified, in parts per million.
    """
    share, confidence = target_ppm / PPM, confidence_ppm / PPM
    edges, counts = needs.table()
    pairs = needs.pairs
    total = np.cumsum(counts.sum(axis=0))
    every = int(pairs.sum())
    bound_ms = _bound_ms(edges, total, certified_rank(every, share, confidence))
    ranks = certified_ranks(every - pairs, share, confidence)
    found: list[Effect] = []
    step = max(AT_A_TIME // max(len(edges), 1), 1)
    for first in range(0, len(pairs), step):
        rows = slice(first, first + step)
        mine = np.cumsum(counts[rows], axis=1)
        # Where the others reach the rank; without a rank they never do.
        position = ((total - mine) < ranks[rows, None]).sum(axis=1)
        for offset, at in enumerate(position.tolist()):
            number, known = first + offset, ranks[first + offset] > 0
            found.append(
                Effect(
                    needs.names[number],
                    int(pairs[number]),
                    int(pairs[number] - mine[offset, at]) if known else 0,
                    bound_ms,
                    _whole_ms(edges[at]) if known else None,
                )
            )
    return found


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
        effect: what it does to the bound.
        partitions: how many partitions of the stream have rows.
        target_ppm: the completeness target, in parts per million.
        confidence_ppm: confidence with which it is certified, in parts per million.
        before: whether it was skewed so far; then it is until it costs less than half as much.
        rule: from when on it is.
    """
    costs_ms, bound_ms = effect.costs_ms, effect.bound_ms
    if costs_ms is None or bound_ms is None or costs_ms <= 0:
        return False
    enough = min_samples(target_ppm / PPM, confidence_ppm / PPM)
    if partitions < MIN_PARTITIONS or effect.pairs < enough or effect.beyond < MIN_BEYOND:
        return False
    part_ppm = HEAL_PPM if before else PPM
    return (
        costs_ms * PPM >= rule.amount_ms * part_ppm
        and costs_ms * PPM * PPM >= bound_ms * rule.share_ppm * part_ppm
    )


def skew_text(partition: str, costs_ms: int, without_ms: int) -> str:
    """Return what a partition costs as a sentence."""
    return (
        f"partition {partition!r} costs {format_about(costs_ms * 1_000)} of latency: "
        f"without it the bound would be {_bound(without_ms)}"
    )


def _bound(bound_ms: int) -> str:
    return format_about(bound_ms * 1_000) if bound_ms >= 1_000 else format_duration(bound_ms * 1_000)


def _bound_ms(edges: NDArray[np.float64], cumulative: NDArray[np.int64], rank: int | None) -> int | None:
    return None if rank is None else _whole_ms(edges[int(np.searchsorted(cumulative, rank, side="left"))])


def _whole_ms(need_us: float) -> int:
    # As a recommendation: Spark's delay has whole milliseconds and, outside Live, cannot be negative.
    return max(int(np.ceil(need_us / 1_000)), 0)
