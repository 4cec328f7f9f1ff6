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

import numpy as np
from numpy.typing import NDArray

from tidemark.models.base.operators import Int64s
from tidemark.models.live.ages import CLOSE_AFTER, UPPER, WAIT, ZERO, Float64s, Stragglers
from tidemark.models.live.defaults import (
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

_Bools = NDArray[np.bool_]

_KINDS = 3  # rows of all keys; without those of keys that missed rows; of all keys, by the partitions' clock
_HOLD = 1  # the kind of those that wait for missing rows, for what they are worth or as long as anything is waited for
_FAMILIES = [
    (memory, kind, whole)
    for memory in range(len(MEMORIES))
    for kind, whole in ((0, False), (_HOLD, False), (_HOLD, True), (2, False))
]
FAMILIES = len(_FAMILIES)
"""A memory, a kind of rows, and how missing ones are held for; rules are numbered by family first, then by price."""
_MEMORY_OF_FAMILY, _KIND_OF_FAMILY, _WHOLE_OF_FAMILY = np.array(_FAMILIES).T
_CLOCK_OF_KIND = np.array([0, 0, 1])

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
        prices = len(PRICES)
        self.rules = FAMILIES * prices
        self._family = np.arange(self.rules) // prices
        self._holds = _KIND_OF_FAMILY[self._family] == _HOLD
        self._holds_whole = _WHOLE_OF_FAMILY[self._family] > 0
        self._clock = _CLOCK_OF_KIND[_KIND_OF_FAMILY[self._family]]
        self._memory = _MEMORY_OF_FAMILY[self._family]
        self.price: Float64s = np.tile(np.array(PRICES), FAMILIES)
        self._patient = self.price < PRICES[PATIENT_PRICES]
        self._stragglers = Stragglers([span_triggers * m for m in MEMORIES], _KINDS, keys_per_trigger)
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
        self.pairs = 0
        self._waited = np.zeros(self.rules)
        self._age = np.zeros(self.rules)
        self._left = np.zeros(self.rules)
        # Open keys: those that some rule has not closed yet.
        self.key_us: Int64s = np.empty(0, np.int64)
        """Keys that some rule has not closed, ascending, shape (keys,)."""
        self._closed: _Bools = np.zeros((0, self.rules), bool)
        self._missed: _Bools = np.zeros(0, bool)
        self._has_rows: _Bools = np.zeros(0, bool)
        self.done_us = NO_BASE_US
        """Keys up to this one are closed under every rule."""
        self.settled_us = NO_BASE_US
        """Keys up to this one are closed under every rule but the patient ones: nobody waits for rows they miss."""

    def advance(self, triggers: int, elapsed: float) -> None:
        """Let ``triggers`` pass; the stream is then ``elapsed`` triggers old."""
        self._stragglers.advance(triggers, elapsed)

    def learned(self) -> Arrays:
        """Return what is known of each rule and of stragglers, without the keys that are open."""
        own = {"late": self.late, "waited": self._waited, "pairs": np.array(self.pairs)}
        return own | joined({"stragglers": self._stragglers.learned()})

    def resume(self, learned: Arrays) -> None:
        """Go on with what an earlier run learned."""
        checked(learned, {"late": (self.rules,), "waited": (self.rules,), "pairs": ()})
        self._stragglers.resume(part_of(learned, "stragglers"))
        self.late, self._waited = learned["late"].copy(), learned["waited"].copy()
        self.pairs = int(learned["pairs"])

    def judging_us(self, now_us: int) -> Int64s:
        """Return the watermark by which each rule judges the rows of a batch at ``now_us``, shape (rules,)."""
        while self._decided and self._decided[0][0] < now_us:
            self._in_force = np.maximum(self._in_force, self._decided.popleft()[1])
        return self._in_force

    def add(self, now_us: int, clock_us: Int64s, key_us: Int64s, count: Int64s) -> None:
        """Count the pairs of a batch by distinct keys, ascending, and what each rule loses of them."""
        in_force = self.judging_us(now_us)
        # Keys ascend, so the late ones under a watermark are a prefix.
        self.late += np.concatenate([[0], np.cumsum(count)])[
            np.searchsorted(key_us, in_force, side="right")
        ].astype(np.float64)
        self.pairs += int(count.sum())
        self.expect(key_us)
        at = np.minimum(np.searchsorted(self.key_us, key_us), max(len(self.key_us) - 1, 0))
        is_open = self.key_us[at] == key_us if len(self.key_us) else np.zeros(len(key_us), bool)
        rows = np.stack([count, count, count]).astype(np.float64)
        if is_open.any():
            self._has_rows[at[is_open]] = True
            rows[1] *= ~(is_open & self._missed[at])
        self._stragglers.add((clock_us[_CLOCK_OF_KIND, None] - key_us) / self._trigger_us, rows)

    def expect(self, key_us: Int64s) -> None:
        """Open keys whose rows have come or are missing; distinct ones, ascending, shape (keys,)."""
        new = key_us[key_us > self.done_us]
        if len(self.key_us) and len(new):
            at = np.minimum(np.searchsorted(self.key_us, new), len(self.key_us) - 1)
            new = new[self.key_us[at] != new]
        if not len(new):
            return
        keys = np.concatenate([self.key_us, new])
        order = np.argsort(keys, kind="stable")
        count = len(new)
        self.key_us = keys[order]
        self._closed = np.vstack([self._closed, np.zeros((count, self.rules), bool)])[order]
        self._missed = np.concatenate([self._missed, np.zeros(count, bool)])[order]
        self._has_rows = np.concatenate([self._has_rows, np.zeros(count, bool)])[order]

    def emit(self, now_us: int) -> None:
        """Close keys under the watermarks in force at ``now_us``."""
        if not len(self.key_us):
            return
        in_force = self._in_force
        for force_us, watermark in self._decided:
            if force_us > now_us:
                break
            in_force = np.maximum(in_force, watermark)
        # Keys ascend, so under the highest watermark those that are closed by any rule are a prefix.
        if self.key_us[0] > in_force.max():
            return
        new = (self.key_us[:, None] <= in_force[None, :]) & ~self._closed
        if not new.any():
            return
        self._waited += (np.maximum((now_us - self.key_us) / self._trigger_us, 0) * self._has_rows) @ new
        self._closed |= new
        settled = (self._closed | self._patient).all(axis=1)
        if settled.any():
            self.settled_us = max(self.settled_us, int(self.key_us[settled].max()))
        done = self._closed.all(axis=1)
        if done.any():
            self.done_us = max(self.done_us, int(self.key_us[done].max()))
            left = ~done
            self.key_us, self._closed = self.key_us[left], self._closed[left]
            self._missed, self._has_rows = self._missed[left], self._has_rows[left]

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
        worth = self._price_wait / (self.price * self._budget_share * rows_a_key)  # triggers a row
        # After the last straggler waiting only costs, so the ages beyond need not be looked at.
        beyond = self._stragglers.late()[_MEMORY_OF_FAMILY, _KIND_OF_FAMILY]
        cost = worth.reshape(FAMILIES, -1, 1) * beyond[:, None, :]
        cost += WAIT[ZERO : ZERO + beyond.shape[1]]
        best = cost.argmin(axis=2).ravel()
        self._age = np.where(best == 0, CLOSE_AFTER[ZERO], CLOSE_AFTER[best + ZERO])
        self._left = beyond[self._family, best]
        self.to_come = self._to_come(best, elapsed)
        has_learned = elapsed >= np.maximum(ELAPSED_PER_AGE * self._age, self._young)
        closing_us = (clock_us[self._clock] - self._age * self._trigger_us).astype(np.int64) - 1
        required = np.where(has_learned, closing_us, NO_BASE_US)
        if len(self.key_us):
            age_then = (clock_us[0] - self.key_us) / self._trigger_us
            self._missed |= (missing > 0) & ((now_us - self.key_us) / self._trigger_us >= MISSED_FROM_AGE)
            waited_for_us = self._waited_for_us(age_then, missing, worth, longest_hold)
            required = np.minimum(required, waited_for_us)
        self.watermark_us = np.maximum(self.watermark_us, required)
        self.at_stake = np.zeros(self.rules)
        if missing.any():
            self.at_stake = missing @ (self.key_us[:, None] <= self.watermark_us[None, :])
        self._decided.append((in_force_us, self.watermark_us))

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

    def latency(self, now_us: int) -> Float64s:
        """Return each rule's latencies so far in triggers, summed over keys, open ones included, shape (rules,)."""
        if not len(self.key_us):
            return self._waited.copy()
        waiting = np.maximum((now_us - self.key_us) / self._trigger_us, 0) * self._has_rows
        total: Float64s = self._waited + waiting @ ~self._closed
        return total

    def outlook(self, rule: int) -> Outlook:
        """Return what a rule does now."""
        return Outlook(
            price=float(self.price[rule]),
            memory=MEMORIES[self._memory[rule]] * self._span,
            holds=bool(self._holds[rule]),
            by_partitions=bool(_CLOCK_OF_KIND[_KIND_OF_FAMILY[self._family[rule]]]),
            age=max(float(self._age[rule]), 0.0),
            late_rows_a_key=float(self._left[rule]),
        )

    def _to_come(self, closes_with: NDArray[np.intp], elapsed: float) -> Float64s:
        """Return the rows to come for keys of all ages from where each rule closes them up to ``elapsed``."""
        beyond = self._stragglers.late()[-1]
        ages = np.minimum(UPPER[ZERO : ZERO + beyond.shape[1]], elapsed)
        of_ages = np.diff(ages, prepend=ages[0]) * (beyond + np.roll(beyond, 1, axis=1)) / 2
        older = np.zeros((len(beyond), beyond.shape[1] + 1))
        older[:, :-1] = np.cumsum(of_ages[:, ::-1], axis=1)[:, ::-1]
        to_come: Float64s = self._keys_per_trigger * older[_KIND_OF_FAMILY[self._family], closes_with + 1]
        return to_come

    def _waited_for_us(
        self, age_then: Float64s, missing: Float64s, worth: Float64s, longest: float
    ) -> Int64s:
        """Return the key below which each rule must stay to wait for missing rows, shape (rules,)."""
        free = np.full(self.rules, _FREE_US, np.int64)
        candidates = np.flatnonzero((missing > 0) & (age_then <= longest))
        if not len(candidates):
            return free
        holds = np.flatnonzero(self._holds)
        limit = self._age[holds, None] + worth[holds, None] * missing[candidates]
        waits = (age_then[candidates] <= limit) | self._holds_whole[holds, None]
        first = self.key_us[candidates[waits.argmax(axis=1)]] - 1
        free[holds] = np.where(waits.any(axis=1), first, free[holds])
        return free
