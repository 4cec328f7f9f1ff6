"""Spark's batches under a policy: which slots hold one, and which watermark is in force in each.

Batch n of slot k runs at the slot's end. A row of it is late iff its key is at or below W(n-1); it emits what is at or
below W(n). A slot without arrivals holds a batch only when the batch before it, in the slot before, moved the
watermark, or when Live did.

*Native*, *restart*: W(n+1) = max(W(n), base - L), the base over the batches of this run of the query. *Live*: what is
required at the end of a slot is in force in the next slot's batch. The watermark moves only when that closes something,
i.e. when a key that has arrived lies above it and at or below what is required, as in the driver (``live/control``). So
an idle job does not run batches for ever, not even when what is required follows the clock. There is no ceiling here:
only Live moves the watermark.
After the last arrival nothing more is decided; earlier decisions still take effect.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tidemark.models.backtest.arrivals import (
    Arrivals,
    running_max,
    shifted,
    tap_counts,
)
from tidemark.models.base.granules import SPARK_TICK_US
from tidemark.models.base.operators import Int64s
from tidemark.models.evidence.needs import needs_us
from tidemark.models.live.policy import NO_BASE_US, BoundPolicy, Decision, Observation, Setup

NO_BOUND_US = -(2**63)
"""The bound where none is in force."""

_DELAY = 2
"""W(n-1) follows the batches up to n-2."""


@dataclass(frozen=True, slots=True)
class Batches:
    """The batches of a run, arrays of shape (batches,) and int64 unless said otherwise; times in microseconds."""

    slot: Int64s
    """Slot of each batch, ascending."""
    bound_us: Int64s
    watermark_us: Int64s
    """W(n)."""
    next_watermark_us: Int64s
    """W(n+1) as it is known at the end of the batch; a restart restores it."""
    base_us: Int64s
    """Maximum event time of the stream after the batch, in whole milliseconds."""
    of_occupied: Int64s
    """Index of the batch that holds the rows of each occupied slot, shape (occupied,)."""
    bound_changes: int


@dataclass(frozen=True, slots=True)
class NativeBases:
    """The batches under any constant bound: the watermark moves exactly when the base does."""

    slot: Int64s
    """Slot of each batch, shape (batches,)."""
    base_us: Int64s
    """Base after each batch, shape (batches,). W(n) is that of batch n-1 less the bound."""
    of_occupied: Int64s
    """Index of the batch of each occupied slot, shape (occupied,)."""


def native_bases(arrivals: Arrivals) -> NativeBases:
    """Return the batches of ``arrivals`` under any constant bound."""
    maxima = arrivals.maxima
    value = maxima.event_time_us // SPARK_TICK_US * SPARK_TICK_US
    base = running_max(_stream_maxima(arrivals, value))
    moved = base > shifted(base, 1)
    slot = np.union1d(arrivals.occupied, arrivals.occupied[moved] + 1)
    of_occupied = np.searchsorted(slot, arrivals.occupied)
    after = np.full(len(slot), NO_BASE_US, np.int64)
    after[of_occupied] = base
    return NativeBases(slot, running_max(after), of_occupied)


def native_batches(arrivals: Arrivals, bound_us: int) -> Batches:
    """Return the batches under one constant bound of whole milliseconds, at least 0."""
    native = native_bases(arrivals)
    has_base = native.base_us > NO_BASE_US
    after = np.where(has_base, native.base_us - bound_us, NO_BASE_US)
    base = np.full(len(native.slot), NO_BASE_US, np.int64)
    base[native.of_occupied] = _stream_maxima(
        arrivals, arrivals.maxima.event_time_us // SPARK_TICK_US * SPARK_TICK_US
    )
    return Batches(
        slot=native.slot,
        bound_us=np.full(len(native.slot), bound_us, np.int64),
        watermark_us=shifted(after, 1),
        next_watermark_us=after,
        base_us=running_max(base),
        of_occupied=native.of_occupied,
        bound_changes=0,
    )


class DecisionInForce:
    """The newest decision, in force until another one is made."""

    def __init__(self) -> None:
        self._decision = Decision()
        self.bound_changes = 0

    @property
    def bound_us(self) -> int:
        """The bound, ``NO_BOUND_US`` when the decision is of another kind."""
        return NO_BOUND_US if self._decision.bound_us is None else self._decision.bound_us

    @property
    def decision(self) -> Decision:
        """The decision."""
        return self._decision

    def take(self, decision: Decision) -> None:
        """Put ``decision`` in force unless it is empty.

        Raises:
            ValueError: when it gives both bound and watermark.
        """
        before = self._decision
        if decision == Decision():
            return
        if decision.bound_us is not None and decision.watermark_us is not None:
            raise ValueError("a decision gives a bound or a watermark, not both")
        if decision.bound_us is not None and before.bound_us is not None:
            self.bound_changes += decision.bound_us != before.bound_us
        self._decision = decision

    def watermark_us(self, base_us: int) -> int:
        """Return the watermark decided, ``NO_BASE_US`` without one; ``base_us`` is the stream's maximum event time."""
        decision = self._decision
        if decision.watermark_us is not None:
            return decision.watermark_us
        if decision.bound_us is None or base_us == NO_BASE_US:
            return NO_BASE_US
        return base_us - decision.bound_us


class _Observer:
    """What the policy observes of each batch, and the bases that its late filter can have used."""

    def __init__(self, arrivals: Arrivals, setup: Setup) -> None:
        self._shown = tap_counts(arrivals, setup)
        edges = np.append(arrivals.occupied, arrivals.slots)
        self._shown_from = np.searchsorted(self._shown.slot, edges).tolist()
        self._maxima = arrivals.maxima
        self._maxima_from = np.searchsorted(arrivals.maxima.occupied, np.arange(len(edges))).tolist()
        self.maxima_us = np.full(arrivals.partitions, NO_BASE_US, np.int64)
        self._partitions = 0  # seen so far
        self.base_us = NO_BASE_US
        self._known = deque([self.base_us] * _DELAY, _DELAY)

    def batch(self, first: int, last: int, now_us: int) -> Observation:
        """Return the batch with the rows of the occupied slots from ``first`` to before ``last``."""
        base = self._known[0]
        if first == last:
            self._known.append(self._known[-1])
            return Observation(now_us)
        low, high = self._maxima_from[first], self._maxima_from[last]
        self.maxima_us = self.maxima_us.copy()
        np.maximum.at(self.maxima_us, self._maxima.partition[low:high], self._maxima.event_time_us[low:high])
        self._partitions = max(self._partitions, int(self._maxima.partition[low:high].max()) + 1)
        self.base_us = int(self.maxima_us.max()) // SPARK_TICK_US * SPARK_TICK_US
        self._known.append(self.base_us)
        shown = self._shown.joined(self._shown_from[first], self._shown_from[last])
        return Observation(
            now_us=now_us,
            partition=shown.partition.astype(np.int64),
            key_us=shown.key_us,
            event_us=shown.event_us,
            count=shown.count,
            need_us=needs_us(shown.key_us, base, SPARK_TICK_US),
            base_us=self.maxima_us[: self._partitions].copy(),
        )


class _Log:
    """Collects the batches of a run."""

    def __init__(self, arrivals: Arrivals) -> None:
        self._rows: list[tuple[int, int, int, int, int]] = []
        self._of_occupied = np.empty(len(arrivals.occupied), np.int64)

    def add(self, occupied: slice, *batch: int) -> None:
        """Add ``slot, bound, watermark, next watermark, base`` of a batch, and the occupied slots it holds."""
        self._of_occupied[occupied] = len(self._rows)
        slot, bound, watermark, after, base = batch
        self._rows.append((slot, bound, watermark, after, base))

    def batches(self, bound_changes: int) -> Batches:
        """Return all batches."""
        slot, bound, watermark, after, base = np.array(self._rows, np.int64).T
        return Batches(slot, bound, watermark, after, base, self._of_occupied, bound_changes)


class _Waiting:
    """Which keys have arrived by a slot."""

    def __init__(self, arrivals: Arrivals) -> None:
        self._keys = arrivals.keys_us
        self._first_slot = np.empty(len(self._keys), np.int64)
        self._first_slot[arrivals.key_index[::-1]] = arrivals.slot[::-1]
        start = np.searchsorted(arrivals.slot, arrivals.occupied)
        self.max_us: list[int] = running_max(np.maximum.reduceat(arrivals.key_us, start)).tolist()
        """Highest key by each occupied slot."""

    def between(self, above_us: int, until_us: int, slot: int) -> bool:
        """Whether a key in (above, until] arrived before ``slot``."""
        low, high = np.searchsorted(self._keys, [above_us, until_us], side="right")
        return bool((self._first_slot[low:high] < slot).any())


def live_batches(
    arrivals: Arrivals, setup: Setup, policy: BoundPolicy, on_slot: Callable[[int], object]
) -> Batches:
    """Return the batches of a query whose watermark follows what the policy requires."""
    observer, log, waiting = _Observer(arrivals, setup), _Log(arrivals), _Waiting(arrivals)
    occupied, trigger = arrivals.occupied.tolist(), setup.trigger_us
    newest = DecisionInForce()
    mark, bound = NO_BASE_US, NO_BOUND_US  # in force in the next batch
    wanted, is_open, moved = NO_BASE_US, False, False
    slot, done = 0, 0
    while True:
        now = arrivals.first_us + (slot + 1) * trigger
        after = done + (done < len(occupied) and occupied[done] == slot)
        executed, ran_under, ran_with = after > done or moved, mark, bound
        span = slice(done, after)
        if executed:
            seen = observer.batch(done, after, now)
            done = after
            on_slot(slot)
            policy.observe(seen)
        if slot < arrivals.slots and (executed or is_open):
            newest.take(policy.decide(now, now + trigger))
            required = newest.watermark_us(int(observer.maxima_us.max()))
            wanted = max(wanted, required // SPARK_TICK_US * SPARK_TICK_US)
        is_open = waiting.max_us[done - 1] > wanted
        moved = wanted > mark and waiting.between(mark, wanted, slot + 1)
        if moved:
            mark, bound = wanted, newest.bound_us
        if executed:
            log.add(span, slot, ran_with, ran_under, mark, observer.base_us)
        following = occupied[done] if done < len(occupied) else None
        if following is not None:
            slot = slot + 1 if moved or is_open else following
        elif moved:
            slot += 1
        else:
            return log.batches(newest.bound_changes)


def restart_batches(
    arrivals: Arrivals, setup: Setup, policy: BoundPolicy, on_slot: Callable[[int], object]
) -> Batches:
    """Return the batches of a query that is restarted for every change of its bound.

    Raises:
        ValueError: when the policy decides what a plan cannot hold.
    """
    observer, log = _Observer(arrivals, setup), _Log(arrivals)
    occupied, trigger = arrivals.occupied.tolist(), setup.trigger_us
    down_slots = max(-(-setup.restart_cost_us // trigger), 1)
    first = arrivals.first_us
    bound = _plan_bound(policy.decide(first, first), None)
    mark, restarts = NO_BASE_US, 0
    base = NO_BASE_US  # maximum event time of this run of the query
    slot, done = 0, 0
    while True:
        now = first + (slot + 1) * trigger
        after = bisect_right(occupied, slot, done)
        seen = observer.batch(done, after, now)
        low, high = np.searchsorted(arrivals.maxima.occupied, [done, after])
        base = int(arrivals.maxima.event_time_us[low:high].max(initial=base))
        read = mark
        if bound is not None and base > NO_BASE_US:
            read = max(mark, base // SPARK_TICK_US * SPARK_TICK_US - bound)
        on_slot(slot)
        policy.observe(seen)
        decided = bound
        if slot < arrivals.slots:
            decided = _plan_bound(policy.decide(now, now + setup.restart_cost_us), bound)
        restarted = decided != bound
        in_force = NO_BOUND_US if bound is None else bound
        log.add(slice(done, after), slot, in_force, mark, read, observer.base_us)
        # The checkpoint restores the move (measured), but not the no-data batch that would have followed it.
        moved, mark, done, bound = read > mark and not restarted, read, after, decided
        ready = slot + 1
        if restarted:
            restarts += 1
            ready = slot + down_slots
            base = NO_BASE_US
        if moved:
            slot = ready
        elif done < len(occupied):
            slot = max(occupied[done], ready)
        else:
            return log.batches(restarts)


def _plan_bound(decision: Decision, bound_us: int | None) -> int | None:
    if decision.watermark_us is not None:
        raise ValueError(
            "a restart can only change the bound of the plan: this policy moves the watermark itself, which only "
            "mode 'live' can do"
        )
    return bound_us if decision.bound_us is None else plan_bound_us(decision.bound_us)


def plan_bound_us(bound_us: int) -> int:
    """Return the bound as Spark's plan can hold it: whole milliseconds, rounded up, at least 0."""
    return max(-(-bound_us // SPARK_TICK_US) * SPARK_TICK_US, 0)


def _stream_maxima(arrivals: Arrivals, value_us: Int64s) -> Int64s:
    maxima = np.full(len(arrivals.occupied), NO_BASE_US, np.int64)
    np.maximum.at(maxima, arrivals.maxima.occupied, value_us)
    return maxima
