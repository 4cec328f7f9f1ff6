"""Tracking: a bound that follows a quantile of the needs, for keys that are the rows' own times.

Where a row is judged by its own time there is no window whose rows could be missing, and the watermark moves with the
rows. The bound is the quantile of the needs that spends the budget, over a memory of a stated number of rows. A
quantile of past needs learns of longer delays only as they arrive, each a bound too late: so the bulk of the newest
needs is compared with the bulk remembered, and where delays as a whole have become longer, the quantile is stretched
alike before its rows come. The bound then widens while the watermark still stands, and nothing more is lost.

With scope ``partition`` each partition has its own bound against its own base: a partition that stalls in order holds
the least of the watermarks by itself.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from tidemark.models.backtest.setup import Setup
from tidemark.models.defaults import (
    BULK_SHARE,
    NEEDS_PER_BUDGET,
    SPENT_LEVEL,
    SPENT_SHARE,
    STRETCH_LEAST,
    STRETCH_ROWS,
    STRETCH_TRIGGERS,
)
from tidemark.models.duration import format_about
from tidemark.models.granules import SPARK_TICK_US
from tidemark.models.operators import Int64s
from tidemark.models.policies.groups import decision_of, scores_of
from tidemark.models.policies.policy import Decision, Seen
from tidemark.models.recommendation import Step
from tidemark.models.target import PPM

__all__ = ["Tracking"]

Float64s = NDArray[np.float64]

_GROWTH = 1.04
_LEAST = 1e-3
_BUCKETS = 400
"""Buckets of 4 % from a thousandth of a trigger: 1.6 kB for each memory of a partition. Values are interpolated."""


class _Needs:
    """Decaying counts of needs in triggers, of one stream or one partition."""

    def __init__(self, memory_rows: float) -> None:
        self._memory_rows = memory_rows
        self._remembered = np.zeros(_BUCKETS, np.float32)
        self._newest = np.zeros(_BUCKETS, np.float32)
        self.rows = 0
        self.late = 0
        self.bound = 0.0

    def add(self, need: Float64s, count: Int64s) -> None:
        rows = float(count.sum())
        with np.errstate(divide="ignore"):
            at = np.ceil(np.log(np.maximum(need, _LEAST) / _LEAST) / math.log(_GROWTH))
        new = np.bincount(np.minimum(at.astype(np.int64), _BUCKETS - 1), weights=count, minlength=_BUCKETS)
        if self.rows:
            self.late += int(count[need > self.bound].sum())
        self._remembered = (self._remembered * math.exp(-rows / self._memory_rows) + new).astype(np.float32)
        self._newest = (self._newest * 0.5 ** (1 / STRETCH_TRIGGERS) + new).astype(np.float32)
        self.rows += int(rows)

    def quantile(self, share: float) -> float:
        return _quantile(self._remembered, share)

    def stretch(self) -> float:
        """Return by what the bulk of the newest needs is longer than the bulk of those remembered, at least 1."""
        newest = float(self._newest.sum())
        if newest < STRETCH_ROWS:
            return 1.0
        before = np.maximum(self._remembered - self._newest, 0)
        if before.sum() < STRETCH_ROWS:
            return 1.0
        usual = _quantile(before, BULK_SHARE)
        if usual <= 0:
            return 1.0  # a bulk that was on time is not stretched, for nothing says by what measure
        ratio = _quantile(self._newest, BULK_SHARE) / usual
        return ratio if ratio > STRETCH_LEAST else 1.0


def _quantile(counts: NDArray[np.float32], share: float) -> float:
    """Return the ``share`` quantile in triggers, interpolated within its bucket; 0 in the first one."""
    below = np.cumsum(counts, dtype=np.float64)
    rank = share * below[-1]
    at = int(np.searchsorted(below, rank, side="left"))
    if at == 0:
        return 0.0
    inside = (rank - below[at - 1]) / max(float(counts[at]), 1e-9)
    return float(_LEAST * _GROWTH ** (at - 1 + min(inside, 1.0)))


class Tracking:
    """The live policy where rows are judged by their own time.

    Args:
        setup: the trigger, the target and the scope.
    """

    native = False

    def __init__(self, setup: Setup) -> None:
        self._scope = setup.scope
        self._trigger_us = setup.trigger_us
        self._budget = (PPM - setup.target_ppm) / PPM
        self._memory_rows = NEEDS_PER_BUDGET / self._budget
        self._groups: list[_Needs] = []

    def observe(self, seen: Seen) -> None:
        """Take what a batch showed."""
        for scores in scores_of(seen, self._scope):
            while len(self._groups) <= scores.group:
                self._groups.append(_Needs(self._memory_rows))
            self._groups[scores.group].add(scores.value_us / self._trigger_us, scores.count)

    def decide(self, now_us: int, in_force_us: int) -> Decision:  # noqa: ARG002 - one signature for every policy
        """Return the bound of the stream, or of each partition."""
        return decision_of([self._bound_us(group) for group in self._groups], self._scope)

    def _bound_us(self, needs: _Needs) -> int | None:
        if not needs.rows:
            return None
        spent = needs.late > SPENT_SHARE * self._budget * needs.rows
        share = 1 - self._budget * (SPENT_LEVEL if spent else 1.0)
        needs.bound = needs.quantile(share) * needs.stretch()
        return math.ceil(needs.bound * self._trigger_us / SPARK_TICK_US) * SPARK_TICK_US

    def explain(self) -> tuple[Step, ...]:
        """Return the reasons of the newest decision, first to last, of the partition with the widest bound."""
        known = [needs for needs in self._groups if needs.rows]
        if not known:
            return ()
        widest = max(known, key=lambda needs: needs.bound)
        bound_us = round(widest.bound * self._trigger_us)
        stretch = widest.stretch()
        spent = f"{widest.late:,} of {widest.rows:,} rows needed more than their bound"
        how = (
            "the newest delays are as long as those remembered"
            if stretch == 1
            else f"the newest delays are {stretch:.1f} times as long as those remembered, and the bound with them"
        )
        return (
            Step("budget", None, spent),
            Step("quantile", math.ceil(bound_us / 1_000), f"the bound is {format_about(bound_us)}"),
            Step("stretch", None, how),
        )
