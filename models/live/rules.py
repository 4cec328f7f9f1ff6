"""Rules: ways to close keys, run side by side over all arrivals, each with its own watermark, losses and latencies.

The tap counts before rows are dropped, so the losses of every rule are known, whichever is followed.
A rule has a *price*, a *memory* and a *hold*:

* the price says how many rows a wait of a tenth of a span must save to be worth it, as a multiple of the error budget
  of one key. One price for all times spends the budget where it buys most latency (equal marginal cost);
* the memory is the half-life of the straggler counts from which the rule predicts what a wait would save: it closes
  keys at the age where price and stragglers balance;
* with the hold it also waits for rows that are missing (``missing``), at most as long as they are worth at its price
  (a ski rental: it never costs more than twice what foresight would). With the *whole* hold it waits as long as
  anything is waited for: who gives up on a stall that ends has both waited and lost the rows.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from tidemark.models.base.operators import Int64s
from tidemark.models.live.ages import CLOSE_AFTER, UPPER, WAIT, ZERO, Float64s, Stragglers
from tidemark.models.live.cycles import Cycles, Rush
from tidemark.models.live.defaults import (
    CYCLE_PRICES,
    ELAPSED_PER_AGE,
    ELAPSED_SPANS,
    LONGEST_HOLD_MARGIN,
    LONGEST_HOLD_SHARE_OF_BUDGET,
    LONGEST_HOLD_SPANS,
    LONGEST_HOLD_SPANS_AFTER_STOP,
    MEMORIES,
    MISSED_FROM_AGE,
    PATIENT_PRICES,
    PRICE_WAIT_SPANS,
    PRICES,
)
from tidemark.models.live.learned import Arrays, checked, joined, part_of
from tidemark.models.live.policy import NO_BASE_US
from tidemark.models.live.waits import Waits, sums_below

_Number = TypeVar("_Number", bound=np.generic)

_KINDS = 3  # rows of all keys; without those of keys that missed rows; of all keys, by the partitions' clock
_HOLD = 1  # the kind of those that wait for missing rows, for what they are worth or as long as anything is waited for
_FAMILIES = [
    (memory, kind, whole)
    for memory in range(len(MEMORIES))
    for kind, whole in ((0, False), (_HOLD, False), (_HOLD, True), (2, False))
]
FAMILIES = len(_FAMILIES) + 1
"""A memory, a kind of rows, and how missing ones are held for; rules are numbered by family first, then by price.

The last one is that of the cycles: it closes no key before the best of the others does.
"""
FIRST_CYCLE_RULE = len(_FAMILIES) * len(PRICES)
"""The rules from this one on are those of the cycles."""
_MEMORY_OF_FAMILY, _KIND_OF_FAMILY, _WHOLE_OF_FAMILY = np.array(_FAMILIES).T
_CLOCK_OF_KIND = np.array([0, 0, 1])
_PRICES = np.array(PRICES)

_FREE_US = np.iinfo(np.int64).max // 2
"""Where a rule that waits for nothing must stay: nowhere."""


@dataclass(frozen=True, slots=True)
class Outlook:
    """What one rule predicts and does, for the reasons. Ages in triggers."""

    price: float
    """Rows that a wait of ``PRICE_WAIT_SPANS`` must save, as a multiple of a key's error budget."""
    memory: float
    """Half-life of its memory, in triggers."""
    holds: bool
    by_partitions: bool
    """Whether keys age by the partitions' clock, so that it waits for the slowest that delivers."""
    age: float
    """Age at which it closes keys that miss no rows."""
    late_rows_a_key: float
    """Predicted rows per key that come later."""
    usual_age: float
    """Age at which it closes keys when it waits for no rush."""
    rush: Rush | None
    """When most of the rows come for which it waits because they came in earlier periods."""


def triggers_before_any_close(span_triggers: float, budget_share: float) -> float:
    """Return the minimum age in triggers of a stream before any key is closed: a span for each nine after the first."""
    return ELAPSED_SPANS * span_triggers * max(-math.log10(budget_share) - 1, 0)


class RuleSet:
    """All rules of one stream."""

    def __init__(
        self, trigger_us: int, keys_per_trigger: float, span_triggers: float, budget_share: float
    ) -> None:
        self._trigger_us = trigger_us
        self._span = span_triggers
        self._price_wait = PRICE_WAIT_SPANS * span_triggers
        self._young = triggers_before_any_close(span_triggers, budget_share)
        self._keys_per_trigger = keys_per_trigger
        self._budget_share = budget_share
        self.rules = FAMILIES * len(PRICES)
        family = np.arange(FIRST_CYCLE_RULE) // len(PRICES)
        self._holds = np.flatnonzero(_KIND_OF_FAMILY[family] == _HOLD)
        self._holds_whole = _WHOLE_OF_FAMILY[family][self._holds] > 0
        self._memory, self._kind = _MEMORY_OF_FAMILY[family], _KIND_OF_FAMILY[family]
        self._clock = _CLOCK_OF_KIND[self._kind]
        self.price: Float64s = np.tile(_PRICES, FAMILIES)
        self._stragglers = Stragglers([span_triggers * m for m in MEMORIES], _KINDS, keys_per_trigger)
        self._cycles = Cycles(trigger_us, keys_per_trigger)
        self._followed = np.arange(len(PRICES))
        """For each price the rule that those of the cycles follow, shape (prices,)."""
        self._decided: deque[tuple[int, Int64s]] = deque()
        self._in_force = np.full(self.rules, NO_BASE_US, np.int64)
        self.watermark_us: Int64s = np.full(self.rules, NO_BASE_US, np.int64)
        """Newest watermark of each rule, shape (rules,)."""
        self.late: Float64s = np.zeros(self.rules)
        """Pairs that each rule would have lost so far, shape (rules,)."""
        self.at_stake: Float64s = np.zeros(self.rules)
        """Rows now missing from keys that each rule has closed: lost if they come, shape (rules,)."""
        self.to_come: Float64s = np.zeros(self.rules)
        """Rows still to come for keys that each rule has closed, as far as older keys got such rows, shape (rules,)."""
        self.to_come_by_cycle: Float64s = np.zeros(self.rules)
        """The same as far as they came in earlier periods, shape (rules,)."""
        self.late_share: Float64s | None = None
        """Share of all pairs that each rule of the cycles loses in a period, shape (prices,); None without a cycle."""
        self.pairs = 0
        self._age = np.zeros(self.rules)
        self._left = np.zeros(self.rules)
        patient = self.price < PRICES[CYCLE_PRICES + PATIENT_PRICES]
        patient[FIRST_CYCLE_RULE:] = True
        self.waits = Waits(patient, trigger_us)
        """The keys that are open, and how long keys have waited under each rule."""

    def advance(self, triggers: int, elapsed: float) -> None:
        """Let ``triggers`` pass; the stream is then ``elapsed`` triggers old."""
        self._stragglers.advance(triggers, elapsed)

    def learned(self) -> Arrays:
        """Return what is known of each rule and of stragglers, without the keys that are open."""
        own = {"late": self.late, "waited": self.waits.closed, "pairs": np.array(self.pairs)}
        return own | joined({"stragglers": self._stragglers.learned(), "cycles": self._cycles.learned()})

    def resume(self, learned: Arrays) -> None:
        """Go on with what an earlier run learned."""
        checked(learned, {"late": (self.rules,), "waited": (self.rules,), "pairs": ()})
        self._stragglers.resume(part_of(learned, "stragglers"))
        self._cycles.resume(part_of(learned, "cycles"))
        self.late, self.waits.closed = learned["late"].copy(), learned["waited"].copy()
        self.pairs = int(learned["pairs"])

    def judging_us(self, now_us: int) -> Int64s:
        """Return the watermark by which each rule judges the rows of a batch at ``now_us``, shape (rules,)."""
        while self._decided and self._decided[0][0] < now_us:
            self._in_force = np.maximum(self._in_force, self._decided.popleft()[1])
        return self._in_force

    def add(self, now_us: int, clock_us: Int64s, key_us: Int64s, count: Int64s) -> None:
        """Count the pairs of a batch by distinct keys, ascending, and what each rule loses of them."""
        in_force = self.judging_us(now_us)
        self.late += sums_below(key_us, count, in_force)
        self.pairs += int(count.sum())
        self.waits.open(key_us, has_rows=True)
        at, is_open = self.waits.places(key_us)
        rows = np.empty((_KINDS, len(count)))
        rows[:] = count
        if is_open.any():
            rows[1] *= ~(is_open & self.waits.missed[at])
        ages = (clock_us[_CLOCK_OF_KIND, None] - key_us) / self._trigger_us
        self._stragglers.add(ages, rows)
        self._cycles.add(int(clock_us[0]), ages[0], count)

    def close(self, now_us: int) -> None:
        """Close keys under the watermarks in force at ``now_us``."""
        in_force = self._in_force
        for force_us, watermark in self._decided:
            if force_us > now_us:
                break
            in_force = watermark  # it never moves back
        self.waits.close(now_us, in_force)

    def decide(
        self,
        now_us: int,
        in_force_us: int,
        clock_us: Int64s,
        missing: Float64s,
        *,
        elapsed: float,
        longest_hold: float,
    ) -> None:
        """Move every rule's watermark.

        Args:
            now_us: the stream's time at the decision, in microseconds.
            in_force_us: wall time from which it is in force, in microseconds.
            clock_us: the times by which keys have aged then, by the two clocks, in microseconds, shape (2,).
            missing: rows that each open key is missing, shape (keys,).
            elapsed: age of the stream, in triggers.
            longest_hold: maximum number of triggers for which missing rows are waited for.
        """
        rows_a_key = self.rows_a_key(elapsed)
        worth = self._price_wait / (_PRICES * self._budget_share * rows_a_key)  # triggers a row
        beyond = self._stragglers.late()
        # Waiting while no straggler came only costs, so only the ages after which one came need be looked at.
        came = np.flatnonzero((beyond[:, :, 1:] < beyond[:, :, :-1]).any(axis=(0, 1)))
        ages = np.concatenate([[0], came + 1])
        cost = worth[:, None] * beyond[:, :, None, ages]
        cost += WAIT[ZERO + ages]
        best = ages[cost.argmin(axis=3)][_MEMORY_OF_FAMILY, _KIND_OF_FAMILY].reshape(-1)
        self._left = self._with_cycles(beyond[self._memory, self._kind, best])
        self.to_come = self._with_cycles(self._to_come(best, elapsed))
        age = CLOSE_AFTER[ZERO + best]
        has_learned = elapsed >= np.maximum(ELAPSED_PER_AGE * age, self._young)
        closing_us = (clock_us[self._clock] - age * self._trigger_us).astype(np.int64) - 1
        required = np.where(has_learned, closing_us, NO_BASE_US)
        key_us = self.waits.key_us
        some_missing = bool(missing.any())
        if some_missing:
            age_then = (clock_us[0] - key_us) / self._trigger_us
            self.waits.missed |= (missing > 0) & ((now_us - key_us) / self._trigger_us >= MISSED_FROM_AGE)
            required = np.minimum(required, self._waited_for_us(age, age_then, missing, worth, longest_hold))
        self._age, required = self._with_cycles(age), self._with_cycles(required)
        self._wait_for_cycles(int(clock_us[0]), worth, required)
        self.watermark_us = np.maximum(self.watermark_us, required)
        self.to_come_by_cycle = self._cycles.to_come((clock_us[0] - self.watermark_us) / self._trigger_us)
        self.at_stake = np.zeros(self.rules)
        if some_missing:
            self.at_stake = sums_below(key_us, missing, self.watermark_us)
        self._decided.append((in_force_us, self.watermark_us))

    def follow(self, rules: NDArray[np.intp]) -> None:
        """Let the rules of the cycles follow these, of a price each, shape (prices,)."""
        self._followed = rules

    def _with_cycles(self, of_rules: NDArray[_Number]) -> NDArray[_Number]:
        """Return what is of each rule but those of the cycles, and of those what the rules have that they follow."""
        return np.concatenate([of_rules, of_rules[self._followed]])

    def _wait_for_cycles(self, clock_us: int, worth: Float64s, required: Int64s) -> None:
        """Let the rules of the cycles wait for what usually comes; ``required`` is changed, shape (rules,)."""
        self._cycles.reach(clock_us)
        self.late_share = None
        if not self._cycles.known:
            return
        usual = self._age[FIRST_CYCLE_RULE:]
        self.late_share = self._cycles.late_share(worth, usual)
        age = self._cycles.closing_age(clock_us, worth)
        closing_us = (clock_us - age * self._trigger_us).astype(np.int64) - 1
        required[FIRST_CYCLE_RULE:] = np.minimum(required[FIRST_CYCLE_RULE:], closing_us)
        self._age[FIRST_CYCLE_RULE:] = np.maximum(usual, age)

    def rows_a_key(self, elapsed: float) -> float:
        """Return the mean number of pairs per key so far."""
        return max(self.pairs / max(elapsed * self._keys_per_trigger, 1), 1e-9)

    def longest_hold(self, elapsed: float, *, stopped: bool) -> float:
        """Return the maximum number of triggers for which missing rows are waited for.

        It is as long as rows were ever seen to take, but at least so many spans: fewer once a partition has stopped,
        because a silence then need not be a stall.
        """
        rare = LONGEST_HOLD_SHARE_OF_BUDGET * self._budget_share * self.rows_a_key(elapsed)
        beyond = self._stragglers.late()[-1, 0]
        longest_seen = float(WAIT[ZERO + int(np.argmax(beyond <= rare))])
        spans = LONGEST_HOLD_SPANS_AFTER_STOP if stopped else LONGEST_HOLD_SPANS
        return max(LONGEST_HOLD_MARGIN * longest_seen, spans * self._span)

    def outlook(self, rule: int) -> Outlook:
        """Return what a rule does now."""
        own = rule if rule < FIRST_CYCLE_RULE else int(self._followed[rule % len(PRICES)])
        usual_age = max(float(self._age[own]), 0.0)
        memory, kind, _ = _FAMILIES[own // len(PRICES)]
        return Outlook(
            price=float(self.price[rule]),
            memory=MEMORIES[memory] * self._span,
            holds=kind == _HOLD,
            by_partitions=bool(_CLOCK_OF_KIND[kind]),
            age=max(float(self._age[rule]), 0.0),
            late_rows_a_key=float(self._left[rule]),
            usual_age=usual_age,
            rush=self._cycles.rush(usual_age) if rule != own else None,
        )

    def _to_come(self, closes_with: NDArray[np.intp], elapsed: float) -> Float64s:
        """Return the rows to come for keys of all ages from where each rule closes them up to ``elapsed``."""
        beyond = self._stragglers.late()[-1]
        ages = np.minimum(UPPER[ZERO : ZERO + beyond.shape[1]], elapsed)
        of_ages = (ages[1:] - ages[:-1]) * (beyond[:, 1:] + beyond[:, :-1]) / 2
        older = np.zeros(beyond.shape)
        older[:, :-1] = of_ages[:, ::-1].cumsum(axis=1)[:, ::-1]
        to_come: Float64s = self._keys_per_trigger * older[self._kind, closes_with]
        return to_come

    def _waited_for_us(
        self, age: Float64s, age_then: Float64s, missing: Float64s, worth: Float64s, longest: float
    ) -> Int64s:
        """Return the key below which each rule must stay to wait for missing rows, but those of cycles."""
        free = np.full(FIRST_CYCLE_RULE, _FREE_US, np.int64)
        candidates = np.flatnonzero((missing > 0) & (age_then <= longest))
        if not len(candidates):
            return free
        holds = self._holds
        limit = age[holds, None] + worth[holds % len(PRICES), None] * missing[candidates]
        waits = (age_then[candidates] <= limit) | self._holds_whole[:, None]
        first = self.waits.key_us[candidates[waits.argmax(axis=1)]] - 1
        free[holds] = np.where(waits.any(axis=1), first, free[holds])
        return free
