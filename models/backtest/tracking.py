"""Tracking: a bound that follows a quantile of the needs, for per-row engines and keys that are the rows' own times.

Where a row is judged by its own time against the row before it, the watermark has to move with the rows. The bound is
the quantile of the needs that spends the budget, over a memory of a stated number of rows, and spends less of it while
the account is overdrawn. A quantile of past needs follows longer delays only as they arrive, each a bound too late. So
the bulk of the newest needs is compared with the remembered bulk, and where delays as a whole have become longer, the
quantile is stretched by the same factor before its rows come. The bound then widens before the watermark moves, and no
more rows are lost.

With scope ``partition`` each partition has its own bound against its own base: a partition that stalls in order holds
the minimum of the watermarks by itself.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from tidemark.models.backtest.bounds import decision_of, scores_of
from tidemark.models.base.duration import format_about
from tidemark.models.base.granules import SPARK_TICK_US
from tidemark.models.base.operators import Int64s
from tidemark.models.base.target import PPM
from tidemark.models.live.policy import Decision, Observation, Setup
from tidemark.models.recommend.steps import DecisionStep, StepKind

_Float64s = NDArray[np.float64]

NEEDS_PER_BUDGET = 40.0
"""Late rows that the memory of needs holds on average: 4,000 rows at 99 %, 40,000 at 99.9 %.

Literature S1 and S5: a ring of 4,096 rows was the best of those that follow drift at 99 %.
"""

SPENT_LEVEL = 0.05
"""Minimum share of the budget that the quantile spends, however much is overdrawn. Less would be the maximum need."""

SPENT_GAIN = 5.0
"""How much the share of the budget that the quantile spends falls for each budget overdrawn.

Chosen: an account overdrawn by a fifth is repaid at once, and noise of some percent moves the bound by as little.
"""

SPENT_SHARE = 0.98
"""Share of the budget from which it counts as nearly spent."""

BULK_SHARE = 0.8
"""Quantile that represents the bulk of the delays. Higher is too noisy for few rows, lower sees less of a change."""

STRETCH_TRIGGERS = 2.0
"""Half-life of the newest needs, in triggers. On a five-fold step longer adapts too late; shorter is noise."""

STRETCH_ROWS = 100.0
"""Minimum number of rows to compare the bulk."""

STRETCH_MIN = 1.2
"""Minimum stretch that is applied. Three standard deviations of the bulk's quantile at 600 rows are 16 %."""

_GROWTH = 1.04
_MIN_NEED = 1e-3
_BUCKETS = 400
"""Buckets of 4 % from a thousandth of a trigger: 1.6 kB for each memory of a partition. Values are interpolated."""


class _Needs:
    """Decaying counts of needs in triggers, of the stream (one group) or of each partition.

    Arrays have shape (groups,), or (groups, buckets).
    """

    def __init__(self, memory_rows: float) -> None:
        self._memory_rows = memory_rows
        self._remembered = np.zeros((0, _BUCKETS), np.float32)
        self._newest = np.zeros((0, _BUCKETS), np.float32)
        self.rows = np.zeros(0, np.int64)
        self.late = np.zeros(0, np.int64)
        self.bound = np.zeros(0)

    def add(self, group: Int64s, need: _Float64s, count: Int64s) -> None:
        """Count rows, and those of them that their group's bound missed."""
        self._know(int(group.max()) + 1)
        groups = len(self.rows)
        at = np.ceil(np.log(np.maximum(need, _MIN_NEED) / _MIN_NEED) / math.log(_GROWTH)).astype(np.int64)
        cell = group * _BUCKETS + np.minimum(at, _BUCKETS - 1)
        new = np.bincount(cell, weights=count, minlength=groups * _BUCKETS).reshape(groups, _BUCKETS)
        rows = new.sum(axis=1)
        missed = (need > self.bound[group]) & (self.rows[group] > 0)
        self.late += np.bincount(group, weights=count * missed, minlength=groups).astype(np.int64)
        self.rows += rows.astype(np.int64)
        decay = np.exp(-rows / self._memory_rows)[:, None]
        self._remembered = (self._remembered * decay + new).astype(np.float32)
        decay = np.where(rows > 0, 0.5 ** (1 / STRETCH_TRIGGERS), 1.0)[:, None]
        self._newest = (self._newest * decay + new).astype(np.float32)

    def quantile(self, share: _Float64s) -> _Float64s:
        """Return the ``share`` quantile of each group in triggers."""
        return _quantile(self._remembered, share)

    def stretch(self) -> _Float64s:
        """Return the bulk of the newest needs over the remembered bulk, at least 1."""
        before = np.maximum(self._remembered - self._newest, 0)
        enough = np.minimum(self._newest.sum(axis=1), before.sum(axis=1)) >= STRETCH_ROWS
        usual = _quantile(before, BULK_SHARE)
        # A bulk that was on time is not stretched: there is no measure for it.
        ratio = _quantile(self._newest, BULK_SHARE) / np.where(usual > 0, usual, np.inf)
        stretch: _Float64s = np.where(enough & (ratio > STRETCH_MIN), ratio, 1.0)
        return stretch

    def _know(self, groups: int) -> None:
        new = groups - len(self.rows)
        if new > 0:
            nothing = np.zeros((new, _BUCKETS), np.float32)
            self._remembered = np.vstack([self._remembered, nothing])
            self._newest = np.vstack([self._newest, nothing])
            self.rows = np.append(self.rows, np.zeros(new, np.int64))
            self.late = np.append(self.late, np.zeros(new, np.int64))
            self.bound = np.append(self.bound, np.zeros(new))


def _quantile(counts: NDArray[np.float32], share: _Float64s | float) -> _Float64s:
    """Return the ``share`` quantile of each row in triggers, interpolated within its bucket; 0 in the first one."""
    below = np.cumsum(counts, axis=1, dtype=np.float64)
    rank = share * below[:, -1]
    at = np.argmax(below >= rank[:, None], axis=1)
    row = np.arange(len(counts))
    inside = (rank - below[row, np.maximum(at - 1, 0)]) / np.maximum(counts[row, at], 1e-9)
    quantile: _Float64s = np.where(at == 0, 0.0, _MIN_NEED * _GROWTH ** (at - 1 + np.minimum(inside, 1.0)))
    return quantile


class Tracking:
    """The live policy where rows are judged by their own time."""

    native = False

    def __init__(self, setup: Setup) -> None:
        self._scope = setup.scope
        self._trigger_us = setup.trigger_us
        self._budget = (PPM - setup.target_ppm) / PPM
        self._memory_rows = NEEDS_PER_BUDGET / self._budget
        self._needs = _Needs(self._memory_rows)

    def observe(self, seen: Observation) -> None:
        """Observe a batch."""
        scores = scores_of(seen, self._scope)
        if not scores:
            return
        group = np.repeat([one.group for one in scores], [len(one.count) for one in scores])
        need_us = np.concatenate([one.value_us for one in scores])
        self._needs.add(group, need_us / self._trigger_us, np.concatenate([one.count for one in scores]))

    def decide(self, now_us: int, in_force_us: int) -> Decision:  # noqa: ARG002 - one signature for every policy
        """Return the bound of the stream, or of each partition."""
        needs = self._needs
        if not len(needs.rows):
            return Decision()
        spent = needs.late / np.maximum(self._budget * needs.rows, 1e-9)
        level = np.clip(1 - SPENT_GAIN * (spent - SPENT_SHARE), SPENT_LEVEL, 1)
        share = 1 - self._budget * level
        needs.bound = needs.quantile(share) * needs.stretch()
        bound_us = np.ceil(needs.bound * self._trigger_us / SPARK_TICK_US).astype(np.int64) * SPARK_TICK_US
        bounds = zip(bound_us.tolist(), (needs.rows > 0).tolist(), strict=True)
        return decision_of([bound if seen else None for bound, seen in bounds], self._scope)

    def explain(self) -> tuple[DecisionStep, ...]:
        """Return the reasons of the newest decision, first to last, of the partition with the widest bound."""
        needs = self._needs
        if not needs.rows.any():
            return ()
        widest = int(needs.bound.argmax())
        bound_us = round(needs.bound[widest] * self._trigger_us)
        stretch = float(needs.stretch()[widest])
        spent = f"{needs.late[widest]:,} of {needs.rows[widest]:,} rows needed more than their bound"
        how = (
            "the newest delays are as long as the remembered ones"
            if stretch == 1
            else f"the newest delays are {stretch:.1f} times as long as the remembered ones, and so is the bound"
        )
        return (
            DecisionStep(StepKind.BUDGET, None, spent),
            DecisionStep(
                StepKind.QUANTILE, math.ceil(bound_us / 1_000), f"the bound is {format_about(bound_us)}"
            ),
            DecisionStep(StepKind.STRETCH, None, how),
        )
