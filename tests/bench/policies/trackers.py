"""Online conformal trackers as policies: SF-OGD, SAOCP and DtACI, as published, one update a batch.

Each follows the quantile of the needs by its own past bounds, whether or not they were in force: a tap shows every
need. In a batch of many rows the gradient and the loss are means over its rows. Own implementations from the formulas:

* SF-OGD and SAOCP: Bhatnagar, Wang, Xiong and Bai, "Improved online conformal prediction via strongly adaptive online
  learning" (ICML 2023);
* DtACI: Gibbs and Candes, "Conformal inference for online prediction with arbitrary distribution shifts" (2022).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from tidemark.models.backtest.bounds import Scores, decision_of, scores_of
from tidemark.models.backtest.ring import MIN_RECORDS, RING_SIZE
from tidemark.models.backtest.rows import LastRows
from tidemark.models.base.granules import SPARK_TICK_US
from tidemark.models.base.target import PPM
from tidemark.models.live.policy import Decision, Observation, Scope

_Float64s = NDArray[np.float64]

CALIBRATION_BATCHES = 60
"""Batches with rows from whose maximum need SF-OGD and SAOCP take the size of their steps; before, nothing is decided.

Chosen: a minute at a trigger of a second. The paper takes a calibration set and says nothing of its size.
"""
SAOCP_LIFETIME = 8
"""Steps that the shortest-lived experts of SAOCP live, as in the paper."""
_DTACI_STEPS = np.geomspace(0.001, 0.128, 8)
_DTACI_INTERVAL = 100
"""DtACI's steps and the length of the interval over which its regret is bounded, as in the paper."""
_BEYOND = 1.5
"""Represents an infinite bound: times the ring's maximum score, as in ``conformal``."""

_EXPERT = ("bound", "squares", "gained", "bet", "steps", "lifetime", "prior")
"""What SAOCP keeps of an expert, in rows of one array."""
_BOUND, _STEPS, _LIFETIME, _PRIOR = (_EXPERT.index(name) for name in ("bound", "steps", "lifetime", "prior"))


class Tracker(Protocol):
    """Follows one base."""

    def add(self, scores: Scores) -> None:
        """Add the scores of a batch."""
        ...

    def bound_us(self) -> float | None:
        """Return the bound in microseconds; None while it is not known."""
        ...


class TrackerPolicy:
    """One tracker for each base.

    Args:
        make: makes a tracker for a share of rows that may be late, above 0 and below 1.
        target_ppm: the completeness target in parts per million, strictly between 0 and 1,000,000.
        scope: one bound for the stream, or one per partition from its own needs.

    Raises:
        ValueError: when the target is out of range.
    """

    __slots__ = ("_late_share", "_make", "_scope", "_trackers")

    def __init__(self, make: Callable[[float], Tracker], target_ppm: int, *, scope: Scope = "global") -> None:
        if not 0 < target_ppm < PPM:
            raise ValueError(
                f"the target must lie between 0 and {PPM:,} ppm, both excluded, not {target_ppm}"
            )
        self._make = make
        self._late_share = (PPM - target_ppm) / PPM
        self._scope = scope
        self._trackers = [make(self._late_share)]

    @property
    def native(self) -> bool:
        """No: the bound moves."""
        return False

    def observe(self, seen: Observation) -> None:
        """Update the trackers of the bases that have rows in the batch."""
        if self._scope == "partition":
            new = len(seen.base_us) - len(self._trackers)
            self._trackers += [self._make(self._late_share) for _ in range(new)]
        for scores in scores_of(seen, self._scope):
            self._trackers[scores.group].add(scores)

    def decide(self, now_us: int, in_force_us: int) -> Decision:  # noqa: ARG002 - the policy's signature
        """Return the bounds, in whole milliseconds; no decision before the first is known."""
        return decision_of([_whole(tracker.bound_us()) for tracker in self._trackers], self._scope)


class ScaleFreeGradient:
    """SF-OGD: gradient steps over the root of the sum of their squares.

    Args:
        late_share: the share of rows that may be late.
    """

    __slots__ = ("_bound_us", "_calibration", "_late_share", "_squares")

    def __init__(self, late_share: float) -> None:
        self._late_share = late_share
        self._calibration = _Calibration()
        self._bound_us = np.zeros(1)
        self._squares = np.zeros(1)

    def add(self, scores: Scores) -> None:
        """Add the scores of a batch."""
        scale_us = self._calibration.scale_us(scores)
        if scale_us is not None:
            _descend(
                self._bound_us,
                self._squares,
                self._late_share - _Rows(scores).above(self._bound_us),
                scale_us,
            )

    def bound_us(self) -> float | None:
        """Return the bound in microseconds; None during the calibration."""
        return float(self._bound_us[0]) if self._calibration.done else None


class StronglyAdaptive:
    """SAOCP: SF-OGD experts that begin at each step and live for a time, weighted by what they gained.

    The number of experts grows with the logarithm of the number of steps.

    Args:
        late_share: the share of rows that may be late.
    """

    __slots__ = ("_calibration", "_experts", "_late_share", "_step")

    def __init__(self, late_share: float) -> None:
        self._late_share = late_share
        self._calibration = _Calibration()
        self._experts = np.zeros((len(_EXPERT), 0))
        self._step = 0

    def add(self, scores: Scores) -> None:
        """Add the scores of a batch."""
        scale_us = self._calibration.scale_us(scores)
        if scale_us is None:
            return
        self._step += 1
        # The largest power of two that divides the step's number.
        lifetime = SAOCP_LIFETIME * (self._step & -self._step)
        prior = 1 / (self._step**2 * (1 + math.floor(math.log2(self._step))))
        new = np.array([self._prediction_us(), 0, 0, 0, 0, lifetime, prior])
        living = self._experts[_STEPS] <= self._experts[_LIFETIME]
        self._experts = np.column_stack([self._experts[:, living], new])
        bound_us, squares, gained, bet, steps, _, _ = self._experts
        rows, level = _Rows(scores), 1 - self._late_share
        lost = rows.loss(np.array([self._prediction_us()]), level)
        weight = self._weights()
        gain = (lost - rows.loss(bound_us, level)) / (scale_us * max(level, 1 - level))
        # Where experts agree, a gain is 0: what rounding leaves of it would decide the weights.
        gain = np.clip(np.round(gain, 9), np.where(weight > 0, -1.0, 0.0), 1.0)
        bet += gain * weight
        gained += gain
        steps += 1
        _descend(bound_us, squares, self._late_share - rows.above(bound_us), scale_us)

    def bound_us(self) -> float | None:
        """Return the bound in microseconds; None during the calibration."""
        return self._prediction_us() if self._calibration.done else None

    def _weights(self) -> _Float64s:
        _, _, gained, bet, steps, _, _ = self._experts
        weights: _Float64s = gained / np.maximum(steps, 1) * (1 + bet)
        return weights

    def _prediction_us(self) -> float:
        prior = self._experts[_PRIOR]
        if not len(prior):
            return 0.0
        share = prior * np.maximum(self._weights(), 0)
        if not share.sum():
            share = prior
        return float(self._experts[_BOUND] @ share / share.sum())


class DynamicallyTuned:
    """DtACI: adaptive conformal inference with eight steps at once, weighted by their losses, on a ring of needs.

    Args:
        late_share: the share of rows that may be late.
    """

    __slots__ = ("_late_share", "_levels", "_log_weights", "_rate", "_ring")

    def __init__(self, late_share: float) -> None:
        self._late_share = late_share
        self._ring = LastRows(RING_SIZE)
        experts = len(_DTACI_STEPS)
        self._levels = np.full(experts, late_share)
        self._log_weights = np.zeros(experts)
        share, rest = late_share, 1 - late_share
        losses = (rest**2 * share**3 + share**2 * rest**3) / 3
        interval = _DTACI_INTERVAL
        self._rate = math.sqrt(3 / interval) * math.sqrt((math.log(interval * experts) + 2) / losses)

    def add(self, scores: Scores) -> None:
        """Add the scores of a batch."""
        if len(self._ring) > 1 / self._late_share:
            # The largest level at which a bound would have admitted each row.
            level = 1 - self._ring.below(scores.value_us) / len(self._ring)
            losses = np.array(
                [_pinball(level, each, self._late_share, scores.count) for each in self._levels]
            )
            self._weigh(losses)
            missed = np.array([np.average(each > level, weights=scores.count) for each in self._levels])
            self._levels = np.clip(self._levels + _DTACI_STEPS * (self._late_share - missed), 0, 1)
        self._ring.add(scores)

    def bound_us(self) -> float | None:
        """Return the bound in microseconds; None before the ring has the minimum number of records."""
        rows = len(self._ring)
        if rows < MIN_RECORDS:
            return None
        level = float(np.exp(self._log_weights) @ self._levels / np.exp(self._log_weights).sum())
        if level <= 0:
            return _BEYOND * self._ring.maximum
        return float(self._ring.at_rank(min(math.ceil((1 - level) * rows) + 1, rows)))

    def _weigh(self, losses: _Float64s) -> None:
        mixed = 1 / (2 * _DTACI_INTERVAL)
        weights = self._log_weights - self._rate * losses
        weights -= weights.max()
        total = math.log(np.exp(weights).sum())
        weights = np.logaddexp(weights + math.log(1 - mixed), total + math.log(mixed / len(losses)))
        self._log_weights = weights - math.log(np.exp(weights).sum())


class _Calibration:
    """The size of the steps: root three times the maximum need of the first batches."""

    __slots__ = ("_batches", "_max_us")

    def __init__(self) -> None:
        self._batches = 0
        self._max_us = SPARK_TICK_US

    @property
    def done(self) -> bool:
        return self._batches >= CALIBRATION_BATCHES

    def scale_us(self, scores: Scores) -> float | None:
        """Return the size once it is known, else learn from the scores."""
        if self._batches < CALIBRATION_BATCHES:
            self._batches += 1
            self._max_us = max(self._max_us, scores.max_us)
        # The last batch of the calibration is the first that is learned from, so that a bound is known with it.
        return math.sqrt(3) * self._max_us if self.done else None


class _Rows:
    """The rows of a batch, for many bounds at once."""

    def __init__(self, scores: Scores) -> None:
        self._value_us = scores.value_us
        self._count = np.concatenate([[0], np.cumsum(scores.count)])
        self._sum_us = np.concatenate([[0.0], np.cumsum(scores.count * scores.value_us.astype(np.float64))])

    def above(self, bound_us: _Float64s) -> _Float64s:
        """Return the share of the rows above each bound, shape (bounds,)."""
        within = self._count[np.searchsorted(self._value_us, bound_us, side="right")]
        share: _Float64s = 1 - within / self._count[-1]
        return share

    def loss(self, bound_us: _Float64s, level: float) -> _Float64s:
        """Return the mean pinball loss of each bound, shape (bounds,)."""
        at = np.searchsorted(self._value_us, bound_us, side="right")
        within, within_us = self._count[at], self._sum_us[at]
        rows, sum_us = self._count[-1], self._sum_us[-1]
        above_us = (sum_us - within_us) - (rows - within) * bound_us
        loss: _Float64s = (level * above_us + (1 - level) * (within * bound_us - within_us)) / rows
        return loss


def _descend(bound_us: _Float64s, squares: _Float64s, gradient: _Float64s, scale_us: float) -> None:
    """Move the bounds by one step, in place."""
    # The first step has full size however small its gradient: what rounding leaves of 0 must not make one.
    gradient = np.round(gradient, 12)
    squares += gradient**2
    move_us = scale_us / math.sqrt(3) * gradient / np.sqrt(np.where(squares > 0, squares, 1))
    np.maximum(0, bound_us - move_us, out=bound_us)


def _pinball(value: _Float64s, quantile: float, level: float, count: NDArray[np.int64]) -> float:
    above = value - quantile
    return float(np.average(np.where(above >= 0, level * above, (level - 1) * above), weights=count))


def _whole(bound_us: float | None) -> int | None:
    return None if bound_us is None else math.ceil(bound_us / SPARK_TICK_US) * SPARK_TICK_US
