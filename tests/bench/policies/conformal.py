"""Adaptive conformal inference: a ring's order statistic whose level follows the misses.

Gibbs and Candes, "Adaptive conformal inference under distribution shift" (NeurIPS 2021): after each step
``alpha <- alpha + gamma * (target_alpha - err)``, and the next step takes the (1 - alpha) quantile of past scores. Over
time the mean of ``err`` tends to the target for any data. The constants are those of literature S1: one step per tick
(here: a batch with rows), ``err`` its share of missed rows, gamma 0.05, a ring of 4,096; where theory requires an
infinite bound (alpha at or below 0), 1.5 times the ring's maximum.
"""

from __future__ import annotations

from fractions import Fraction

from tidemark.models.backtest.bounds import Scores, decision_of, scores_of
from tidemark.models.backtest.ring import MIN_RECORDS, RING_SIZE
from tidemark.models.backtest.rows import LastRows
from tidemark.models.base.granules import SPARK_TICK_US
from tidemark.models.base.target import PPM
from tidemark.models.live.policy import Decision, Observation, Scope

GAMMA = 0.05
"""Step of the level for a whole tick missed (S1): after a fivefold step of delays it is back in line in 10 s (S4)."""
_BEYOND = Fraction(3, 2)
"""Represents an infinite bound: times the ring's maximum score (S1)."""


class AdaptiveConformal:
    """One level and one ring for each base.

    Args:
        target_ppm: the completeness target in parts per million, strictly between 0 and 1,000,000.
        size: rows remembered.
        gamma: how far the level moves, in (0, 1].
        scope: one bound for the stream, or one per partition with its own level, from its own needs.

    Raises:
        ValueError: when an argument is out of range.
    """

    __slots__ = ("_bases", "_gamma", "_scope", "_size", "_target_ppm")

    def __init__(
        self, target_ppm: int, size: int = RING_SIZE, *, gamma: float = GAMMA, scope: Scope = "global"
    ) -> None:
        if not 0 < target_ppm < PPM:
            raise ValueError(
                f"the target must lie between 0 and {PPM:,} ppm, both excluded, not {target_ppm}"
            )
        if not 0 < gamma <= 1:
            raise ValueError(f"gamma must be above 0 and at most 1, not {gamma}")
        self._target_ppm = target_ppm
        self._size = size
        self._gamma = gamma
        self._scope = scope
        self._bases = [_Base(target_ppm, size)]

    @property
    def native(self) -> bool:
        """No: the bound moves."""
        return False

    def observe(self, seen: Observation) -> None:
        """Move the levels by the rows that the bounds in force missed, then add the rows of the batch."""
        if self._scope == "partition":
            missing = len(seen.base_us) - len(self._bases)
            self._bases += [_Base(self._target_ppm, self._size) for _ in range(missing)]
        for scores in scores_of(seen, self._scope):
            self._bases[scores.group].observe(seen.now_us, scores, self._gamma)

    def decide(self, now_us: int, in_force_us: int) -> Decision:  # noqa: ARG002 - the policy's signature
        """Return the order statistics at the levels; no decision before a ring has the minimum number of records."""
        decision = decision_of([base.bound_us() for base in self._bases], self._scope)
        if decision.bounds_us is not None:
            bounds = decision.bounds_us.tolist()
        elif decision.bound_us is not None:
            bounds = [decision.bound_us]
        else:
            return decision
        for base, bound_us in zip(self._bases, bounds, strict=True):
            base.will_be_in_force(in_force_us, bound_us)
        return decision


class _Base:
    """Level, ring, and the bounds that are or will be in force."""

    __slots__ = ("_alpha", "_bounds", "_ring", "_size", "_target_alpha")

    def __init__(self, target_ppm: int, size: int) -> None:
        self._target_alpha = (PPM - target_ppm) / PPM
        self._alpha = self._target_alpha
        self._ring = LastRows(size)
        self._size = size
        self._bounds: list[tuple[int, int]] = []
        """(in force from, bound): the one in force and those decided but not yet in force, where the bound changes."""

    def observe(self, now_us: int, scores: Scores, gamma: float) -> None:
        while len(self._bounds) > 1 and self._bounds[1][0] <= now_us:
            self._bounds.pop(0)
        # Before the first decision is in force, missed rows are not due to this policy.
        if self._bounds and self._bounds[0][0] <= now_us:
            missed = scores.share_above(self._bounds[0][1])
            self._alpha += gamma * (self._target_alpha - missed)
        self._ring.add(scores)

    def bound_us(self) -> int | None:
        rows = len(self._ring)
        if rows < min(MIN_RECORDS, self._size):
            return None
        if self._alpha <= 0:
            ticks = -(-_BEYOND * self._ring.maximum // SPARK_TICK_US)
            return int(ticks) * SPARK_TICK_US
        # ceil(n q), in the form that is exact at the level where it starts: 0.99 of 100 rows is rank 99, not 100.
        rank = rows - int(rows * self._alpha + 1e-9)
        return self._ring.at_rank(min(max(rank, 1), rows))

    def will_be_in_force(self, from_us: int, bound_us: int) -> None:
        # A later decision that is in force no later replaces earlier ones that are not in force yet.
        while self._bounds and self._bounds[-1][0] >= from_us:
            self._bounds.pop()
        if not self._bounds or self._bounds[-1][1] != bound_us:
            self._bounds.append((from_us, bound_us))
