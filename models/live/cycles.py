"""Cycles: which late rows come at which time of the hour, of the day and of the week.

An upload every evening says nothing of the rest of the day, so what is late has a profile by the phase of the period at
which it *comes* and by the age of its key. With it a wait is judged by what comes until then: a key is worth waiting
for if some moment within a period brings more rows, at the price of a rule, than the wait until then costs. The profile
forgets by half in a period, so what happened once is expected less each time that it does not come again.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tidemark.models.base.operators import Int64s
from tidemark.models.live.ages import Float64s
from tidemark.models.live.defaults import MISSING_DEVIATIONS
from tidemark.models.live.learned import Arrays, checked, joined, part_of

_HOUR_US = 3_600_000_000
PERIODS_US = (_HOUR_US, 24 * _HOUR_US, 168 * _HOUR_US)
"""The periods, from midnight and from Thursday, UTC."""

PHASES = 48
"""Parts of a period: of a day, half an hour."""

_GROWTH = 1.1
"""Ratio of one age to the next at which a profile is kept, from a trigger on."""

_LONGEST_AGE = 1.5
"""Oldest age with a bucket of its own, in periods: what was held back for one comes within half of the next."""

_LEFT_AFTER_A_PERIOD = 0.5
"""What is left of the rows of a phase when it comes again."""

_TWO_PERIODS = 1 + _LEFT_AFTER_A_PERIOD
"""Weight of a phase that was seen twice: from then on what comes for the first time is believed when it comes again."""

_SEEN_SHARE = 0.75
"""Share of the phases that must have been seen."""

_MAX_OPEN_KEYS = 20_000
"""Limits the keys that are kept open for a cycle, and so what a batch costs."""

_RUSH_FACTOR = 2.0
"""Multiple of what a phase gets in the mean from which on, but for chance, its late rows are a rush.

Chosen. Other late rows come at any time, and the rules without a cycle know them better.
"""

_AGES_A_GROUP = 7
"""Buckets that are judged together: their ages differ by a factor of two."""

_KEPT_SHARE = 0.5
"""Share of the rows of rushes that must have come again for the cycle to be believed. Chosen: as often as not."""

_Indices = NDArray[np.intp]
_Profile = NDArray[np.floating]


@dataclass(frozen=True, slots=True)
class Rush:
    """The part of a period in which most late rows come."""

    period_us: int
    begin_us: int
    """From the beginning of the period, in microseconds."""
    end_us: int
    """The same; less than ``begin_us`` where the period ends meanwhile."""
    share: float
    """Late rows that come then, as a share of all pairs."""


class Cycle:
    """The late rows of a stream by the phase of one period.

    Args:
        period_us: the period, in microseconds.
        trigger_us: Spark's trigger, the unit of ages, in microseconds.
        keys_per_trigger: keys that end in a trigger.
    """

    def __init__(self, period_us: int, trigger_us: int, keys_per_trigger: float) -> None:
        self._phase_us = period_us // PHASES
        self._phase = self._phase_us / trigger_us
        self._trigger_us, self._keys_per_trigger = trigger_us, keys_per_trigger
        steps = max(math.ceil(math.log(_LONGEST_AGE * PHASES * self._phase, _GROWTH)), 1)
        self._age: Float64s = np.append(0.0, _GROWTH ** np.arange(steps + 1))
        """Lower edges of the buckets of age, in triggers, shape (ages,)."""
        self._keys = np.diff(self._age, append=2 * self._age[-1]) * keys_per_trigger
        """Keys whose age is within each bucket at one moment, shape (ages,)."""
        brief = self._age[(self._age > 0) & (self._age < self._phase / 2)]
        self._waits: Float64s = np.append(brief, self._phase * np.arange(1, PHASES + 1))
        """For how long a key may wait from now on, in triggers, shape (waits,)."""
        self._steps = np.diff(self._waits, prepend=0.0)
        middle = self._waits - self._steps / 2
        self._phases_later: _Indices = (middle // self._phase).astype(np.intp)
        then = self._age.searchsorted(self._age[:, None] + middle, side="right") - 1
        self._age_then: NDArray[np.int16] = then.astype(np.int16)
        """The bucket of a key of each age in the middle of each wait, shape (ages, waits)."""
        self._rows: _Profile = np.zeros((PHASES, len(self._age)), np.float32)
        """Late rows by phase of their batch and age of their key, shape (PHASES, ages)."""
        self._pairs = np.zeros(PHASES)
        self._weight = np.zeros(PHASES)
        """How often each phase was seen, by weights that fade, shape (PHASES,)."""
        self._late_before: Float64s | None = None
        """Late pairs by age before the phase that runs; None where it was not seen from its beginning."""
        self._pairs_before = 0
        self._number: int | None = None
        self._worth: _Profile = np.zeros((PHASES, len(self._age)), np.float32)
        """Rows a trigger that the best wait brings to a key, from the beginning of each phase, shape (PHASES, ages)."""
        self._group = np.arange(len(self._age)) // _AGES_A_GROUP
        self._rushes: _Profile = np.zeros_like(self._rows)
        """Late rows of a period that come in rushes, of the same shape."""
        self._promised_before: _Profile = np.zeros(-(-len(self._age) // _AGES_A_GROUP))
        """Rows that rushes were to bring in the phase before, shape (groups,)."""
        self._came: _Profile = np.zeros((3, len(self._promised_before)))
        """Late rows of the last three phases, shape (3, groups)."""
        self._promised = self._kept = 0.0
        """Rows that rushes were to bring, and those of them that came; the rushes of the first period count as both."""
        self.is_known = False
        """Whether each phase was seen, and rushes are to come that have come again as often as not."""
        self._late_share: tuple[Float64s, Float64s] | None = None
        self._to_come = np.zeros(len(self._age))
        """Rows that come within a period for all keys that are older than each age by now, shape (ages,)."""

    def learned(self) -> Arrays:
        """Return the profile."""
        own = {"pairs": self._pairs, "weight": self._weight, "kept": np.array([self._kept, self._promised])}
        return own | {"rows": self._rows}

    def resume(self, learned: Arrays) -> None:
        """Go on with a profile."""
        shapes = {"rows": self._rows.shape, "pairs": (PHASES,), "weight": (PHASES,), "kept": (2,)}
        checked(learned, shapes)
        self._rows = learned["rows"].astype(np.float32)
        self._pairs, self._weight = learned["pairs"].copy(), learned["weight"].copy()
        self._kept, self._promised = learned["kept"].tolist()

    @property
    def _seen(self) -> Float64s:
        """Weights of the phases, one for what was never seen: nothing came then as far as is known."""
        return np.where(self._weight > 0, self._weight, 1.0)

    @property
    def ages(self) -> int:
        """Number of buckets of age."""
        return len(self._age)

    def buckets(self, age: Float64s) -> _Indices:
        """Return the bucket of each age in triggers, at least 0; those of a shorter period are the first."""
        return self._age.searchsorted(age, side="right") - 1

    def reach(self, now_us: int, late: Float64s, pairs: int) -> None:
        """Go on to the phase of a moment.

        Args:
            now_us: the moment, in microseconds.
            late: late pairs so far by bucket of age, shape (ages of the longest period,).
            pairs: all pairs so far.
        """
        number, before = now_us // self._phase_us, self._number
        if before is not None and number <= before:
            return
        late = np.append(late[: len(self._age) - 1], late[len(self._age) - 1 :].sum())
        if before is not None:
            if self._late_before is not None:
                self._learn(before, late - self._late_before, pairs - self._pairs_before)
            # What was not seen from its beginning on, at a start or when the clock stood, shows nothing.
            self._late_before = late if number == before + 1 else None
            self._pairs_before = pairs
        self._number = number
        # A job that starts anew at the same time of each period never sees that phase.
        if np.count_nonzero(self._weight) < _SEEN_SHARE * PHASES:
            return
        self._rushes = self._find_rushes()
        if self._promised < 1:  # of what faded away no row is left
            self._promised = float(self._rushes.sum())
            self._kept = self._promised if self._weight.max() < _TWO_PERIODS else 0.0
        self.is_known = self._promised > 0 and self._kept >= _KEPT_SHARE * self._promised
        if self._promised:
            # What has changed in a phase changes those before it too; later it is little.
            is_young = not self._worth.any() or self._weight.max() <= _TWO_PERIODS
            self._look_ahead(number + np.arange(PHASES if is_young else 1))
            self._late_share = None

    def _learn(self, number: int, rows: Float64s, pairs: int) -> None:
        at = number % PHASES
        # As a rush may come a phase early or late, what a phase promised is compared once the next one has passed.
        promised, self._promised_before = self._promised_before, self._by_group(self._rushes[at])
        self._came = np.vstack([self._came[1:], self._by_group(rows)])
        came = self._came.sum(axis=0)
        left = _LEFT_AFTER_A_PERIOD ** (1 / PHASES)
        self._promised = self._promised * left + float(promised.sum())
        self._kept = self._kept * left + float(np.minimum(promised, came).sum())
        self._rows[at] = self._rows[at] * _LEFT_AFTER_A_PERIOD + rows
        self._pairs[at] = self._pairs[at] * _LEFT_AFTER_A_PERIOD + pairs
        self._weight[at] = self._weight[at] * _LEFT_AFTER_A_PERIOD + 1

    def _by_group(self, rows: _Profile) -> _Profile:
        """Return rows by group of ages, from rows by age, shape (..., groups)."""
        sums: _Profile = np.add.reduceat(rows, np.arange(0, len(self._age), _AGES_A_GROUP), axis=-1)
        return sums

    def _find_rushes(self) -> _Profile:
        rows = self._rows / self._seen[:, None]
        grouped = self._by_group(rows)
        mean = grouped.mean(axis=0)
        is_rush = grouped > _RUSH_FACTOR * mean + MISSING_DEVIATIONS * np.sqrt(mean + 1)
        rushes: _Profile = rows * is_rush[:, self._group]
        return rushes

    def _look_ahead(self, numbers: _Indices) -> None:
        """Foresee what comes for keys of each age from the beginning of some phases on; the first one begins now."""
        of_a_key = self._rushes / (self._phase * self._keys)
        phase = (numbers[:, None] + self._phases_later) % PHASES
        until = np.cumsum(of_a_key[phase[:, None, :], self._age_then] * self._steps, axis=2)
        self._worth[numbers % PHASES] = (until / self._waits).max(axis=2)
        self._to_come = np.cumsum((until[0, :, -1] * self._keys)[::-1])[::-1]

    def closing_age(self, now_us: int, triggers_a_row: Float64s) -> Float64s:
        """Return the age at which keys close now, by what a row is worth, shape (prices,).

        What is worth waiting for at the beginning of a phase is waited for to its end.
        """
        passed = now_us % self._phase_us / self._trigger_us
        age = self._closing_age(self._worth[now_us // self._phase_us % PHASES], triggers_a_row)
        return np.where(age > 0, np.minimum(age + passed, _MAX_OPEN_KEYS / self._keys_per_trigger), 0)

    def _closing_age(self, worth: _Profile, triggers_a_row: Float64s) -> Float64s:
        """Return the same for the worth of waiting by phase and age, shape (..., ages): of shape (..., prices)."""
        waits = worth[..., None, :] * triggers_a_row[:, None] > 1
        oldest = len(self._age) - waits[..., ::-1].argmax(axis=-1)
        upper = np.append(self._age, self._age[-1] * _GROWTH)
        age: Float64s = np.where(waits.any(axis=-1), upper[oldest], 0.0)
        return age

    def rush(self, age: float) -> Rush | None:
        """Return when most rows come for keys that are older than ``age`` triggers; None where none do."""
        late = self._rushes[:, self._age.searchsorted(age) :].sum(axis=1)
        if not late.any():
            return None
        first = last = int(late.argmax())
        busy = late > 0
        while busy[(first - 1) % PHASES] and last - first < PHASES - 1:
            first -= 1
        while busy[(last + 1) % PHASES] and last - first < PHASES - 1:
            last += 1
        share = late[np.arange(first, last + 1) % PHASES].sum() / self._pairs_a_period
        period_us = PHASES * self._phase_us
        begin_us, end_us = first % PHASES * self._phase_us, (last + 1) % PHASES * self._phase_us
        return Rush(period_us, begin_us, end_us or period_us, float(share))

    @property
    def _pairs_a_period(self) -> float:
        return max(float((self._pairs / self._seen).sum()), 1.0)

    def late_share(self, triggers_a_row: Float64s, usual_age: Float64s) -> Float64s:
        """Return the share of all pairs that is lost in a period by what a row is worth, shape (prices,).

        Args:
            triggers_a_row: what a row is worth, in triggers, shape (prices,).
            usual_age: the age at which keys close in any phase at the earliest, in triggers, shape (prices,).

        It is found anew with each phase, and when the usual ages change.
        """
        if self._late_share is None or not np.array_equal(self._late_share[0], usual_age):
            self._late_share = usual_age, self._find_late_share(triggers_a_row, usual_age)
        return self._late_share[1]

    def _find_late_share(self, triggers_a_row: Float64s, usual_age: Float64s) -> Float64s:
        age = np.maximum(self._closing_age(self._worth, triggers_a_row), usual_age)
        # What has closed stays closed: from phase to phase the oldest open key ages by no more than has passed.
        passed = self._phase * np.arange(2 * PHASES)[:, None]
        open_age = (np.minimum.accumulate(np.tile(age, (2, 1)) - passed) + passed)[PHASES:]
        rows = self._rows / self._seen[:, None]
        older = np.zeros((PHASES, len(self._age) + 1))
        older[:, :-1] = np.cumsum(rows[:, ::-1], axis=1)[:, ::-1]
        # A key closes after a batch, so what comes in the trigger after its age is still admitted.
        lost = older[np.arange(PHASES)[:, None], self._age.searchsorted(open_age + 1)].sum(axis=0)
        share: Float64s = lost / self._pairs_a_period
        return share

    def to_come(self, age: Float64s) -> Float64s:
        """Return how many rows still come within a period for keys older than ``age`` triggers, of its shape."""
        return np.interp(age, self._age, self._to_come)


class Cycles:
    """The cycles of a stream, one for each period.

    Args:
        trigger_us: Spark's trigger, the unit of ages, in microseconds.
        keys_per_trigger: keys that end in a trigger.
    """

    def __init__(self, trigger_us: int, keys_per_trigger: float) -> None:
        # Where keys or batches are further apart than phases, all rows would come in rushes.
        coarsest_us = PHASES * trigger_us * max(1.0, 1 / keys_per_trigger)
        periods_us = [period_us for period_us in PERIODS_US if period_us >= coarsest_us]
        self._cycles = [Cycle(period_us, trigger_us, keys_per_trigger) for period_us in periods_us]
        self.known: list[Cycle] = []
        """The cycles that are known, the longest last."""
        self._late = np.zeros(self._cycles[-1].ages if self._cycles else 0)
        self._pairs = 0

    def learned(self) -> Arrays:
        """Return the profiles."""
        return joined({str(number): cycle.learned() for number, cycle in enumerate(self._cycles)})

    def resume(self, learned: Arrays) -> None:
        """Go on with profiles."""
        for number, cycle in enumerate(self._cycles):
            cycle.resume(part_of(learned, str(number)))

    def add(self, now_us: int, age: Float64s, count: Int64s) -> None:
        """Count the pairs of a batch by the age of their keys in triggers, shape (counts,) each."""
        if not self._cycles:
            return
        self.reach(now_us)
        is_late = age >= 0
        self._late += np.bincount(self._cycles[-1].buckets(age[is_late]), count[is_late], len(self._late))
        self._pairs += int(count.sum())

    def reach(self, now_us: int) -> None:
        """Go on to a moment."""
        for cycle in self._cycles:
            cycle.reach(now_us, self._late, self._pairs)
        self.known = [cycle for cycle in self._cycles if cycle.is_known]

    def closing_age(self, now_us: int, triggers_a_row: Float64s) -> Float64s:
        """Return the age at which keys close now so that no cycle loses what is worth waiting for, shape (prices,)."""
        none = np.zeros(len(triggers_a_row))
        ages = [cycle.closing_age(now_us, triggers_a_row) for cycle in self.known]
        oldest: Float64s = np.max([none, *ages], axis=0)
        return oldest

    def late_share(self, triggers_a_row: Float64s, usual_age: Float64s) -> Float64s | None:
        """Return the share of all pairs lost in the period that is known and loses most, shape (prices,); or None.

        Args:
            triggers_a_row: what a row is worth, in triggers, shape (prices,).
            usual_age: the age at which keys close in any phase at the earliest, in triggers, shape (prices,).
        """
        shares = [cycle.late_share(triggers_a_row, usual_age) for cycle in self.known]
        return np.max(shares, axis=0) if shares else None

    def rush(self, age: float) -> Rush | None:
        """Return when most rows come for keys that are older than ``age`` triggers, by the longest cycle."""
        return self.known[-1].rush(age) if self.known else None

    def to_come(self, age: Float64s) -> Float64s:
        """Return how many rows still come for keys older than ``age`` triggers, of its shape.

        By the cycle of which most come: of its first period a week knows only the days that have passed.
        """
        none = np.zeros(age.shape)
        most: Float64s = np.max([none, *(cycle.to_come(age) for cycle in self.known)], axis=0)
        return most
