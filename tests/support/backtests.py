"""Slow, literal simulations for tests of the backtest: one row, one slot and one batch at a time, in plain integers.

Nothing here shares code with ``models.backtest``, so that agreement is evidence.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tidemark.models.backtest.arrivals import Arrivals
from tidemark.models.backtest.arrivals_builder import ArrivalsBuilder
from tidemark.models.base.operators import Int64s, RowLevel, SessionWindow, TimeWindow
from tidemark.models.live.policy import NO_BASE_US, Decision, Observation, Setup

__all__ = [
    "Fixed",
    "Recorder",
    "Row",
    "Simulated",
    "arrivals_of",
    "assert_same",
    "granule_start",
    "keys_of",
    "literal_live",
    "literal_native",
    "literal_restart",
    "random_rows",
    "scored_keys",
]

Row = tuple[int, int, int]
"""Event time, arrival time, partition."""
NEVER = NO_BASE_US


@dataclass
class Simulated:
    """The result of a simulation."""

    batches: list[tuple[int, int]] = field(default_factory=list)
    """Slot and watermark in force of each batch."""
    late: Counter[tuple[int, int]] = field(default_factory=Counter)
    """Late pairs by (minute, key)."""
    emitted: dict[int, int] = field(default_factory=dict)
    """Wall time at which each key was closed."""
    bounds: list[int | None] = field(default_factory=list)
    """Bound in force in each batch."""


class Fixed:
    """A constant bound that Spark follows by itself."""

    native = True

    def __init__(self, bound_us: int) -> None:
        self.bound_us = bound_us

    def observe(self, seen: Observation) -> None:  # noqa: ARG002 - a policy's signature
        raise AssertionError("a native policy is not shown anything")

    def decide(self, now_us: int, in_force_us: int) -> Decision:  # noqa: ARG002 - a policy's signature
        return Decision(bound_us=self.bound_us)


class Recorder:
    """Changes its decision at random, seeded by all it has seen, and records what it saw.

    Two engines that show it different things, or ask it at different times, soon disagree in everything.
    """

    native = False

    def __init__(self, seed: int, kinds: tuple[str, ...], reach_us: int) -> None:
        self.story: list[Any] = []
        self._seed, self._kinds, self._reach = seed, kinds, reach_us
        self._digest = b""

    def observe(self, seen: Observation) -> None:
        counts: Counter[tuple[int, ...]] = Counter()
        columns = (seen.partition, seen.event_us, seen.key_us, seen.need_us, seen.count)
        shown = list(zip(*(column.tolist() for column in columns[:3]), strict=True))
        assert shown == sorted(shown)
        for *what, count in zip(*(column.tolist() for column in columns), strict=True):
            counts[tuple(what)] += count
        self._tell(("saw", seen.now_us, sorted(counts.items()), seen.base_us.tolist()))

    def decide(self, now_us: int, in_force_us: int) -> Decision:
        self._tell(("asked", now_us, in_force_us))
        dice = np.random.default_rng([self._seed, *self._digest[:8]])
        kind = dice.choice([*self._kinds, "nothing"])
        reach = self._reach
        match kind:
            case "bound":
                return Decision(bound_us=int(dice.integers(-reach // 4, reach)))
            case "watermark":
                return Decision(watermark_us=int(now_us - dice.integers(-reach // 2, 2 * reach)))
            case _:
                return Decision()

    def _tell(self, what: object) -> None:
        self.story.append(what)
        self._digest = hashlib.sha256(self._digest + repr(what).encode()).digest()


def random_rows(
    dice: np.random.Generator, rows: int, span: int, delay: int, partitions: int = 1
) -> list[Row]:
    """Return rows whose arrivals spread over ``span``, in order, with delays up to ``delay`` and a few far longer."""
    arrival = np.sort(dice.integers(0, span, rows)) + 100 * span
    behind = dice.integers(0, delay + 1, rows) * np.where(dice.random(rows) < 0.2, 3, 1)
    seen: dict[int, int] = {}
    # Partitions are numbered in order of appearance.
    part = [seen.setdefault(name, len(seen)) for name in dice.integers(0, partitions, rows).tolist()]
    return [
        (int(when - late), int(when), index) for when, late, index in zip(arrival, behind, part, strict=True)
    ]


def arrivals_of(rows: list[Row], setup: Setup, partitions: int, cuts: tuple[int, ...] = ()) -> Arrivals:
    """Return the rows counted, in parts cut at the given rows."""
    builder = ArrivalsBuilder(setup)
    table = np.array(rows, np.int64).reshape(-1, 3)
    for part in np.split(table, list(cuts)):
        builder.add(part[:, 0], part[:, 1], part[:, 2], partitions)
    return builder.build()


def keys_of(event_us: int, operator: TimeWindow | SessionWindow | RowLevel) -> list[int]:
    """Return the keys of one row."""
    if isinstance(operator, RowLevel):
        return [event_us]
    if isinstance(operator, SessionWindow):
        return [event_us + operator.gap_us]
    start = (event_us - operator.start_us) // operator.slide_us * operator.slide_us + operator.start_us
    keys = []
    while start + operator.size_us > event_us:
        keys.append(start + operator.size_us)
        start -= operator.slide_us
    return keys


def scored_keys(rows: list[Row], setup: Setup) -> list[int]:
    """Return the keys that are scored, ascending."""
    until = np.quantile(np.array([event for event, _, _ in rows]), 0.98)
    # Between two rows numpy's product may fall a hair short of a whole number.
    return sorted(
        {key for event, _, _ in rows for key in keys_of(event, setup.operator) if key <= until + 1e-6}
    )


def _slots(rows: list[Row], trigger_us: int) -> dict[int, list[Row]]:
    found: dict[int, list[Row]] = {}
    for row in rows:
        found.setdefault((row[1] - rows[0][1]) // trigger_us, []).append(row)
    return found


def _floor_ms(time_us: int) -> int:
    return time_us - time_us % 1_000


def _need(key: int, base: int, tick: int) -> int:
    """The smallest multiple of the tick with ``key > base - need``."""
    need = base - key + 1
    return need + -need % tick


def _granule(setup: Setup) -> int:
    """The width of a cohort: a tenth of the slide (or the next coarser part in whole milliseconds), or trigger."""
    operator = setup.operator
    if not isinstance(operator, TimeWindow):
        return max(1_000, _floor_ms(setup.trigger_us // 10))
    grid = math.gcd(operator.size_us, operator.slide_us, operator.start_us)
    return min([grid, *(grid // parts for parts in range(2, 11) if not grid % (1_000 * parts))])


def granule_start(event: int, setup: Setup) -> int:
    """Windows are closed on the left, as are their granules; the others' granules are closed on the right."""
    granule = _granule(setup)
    if isinstance(setup.operator, TimeWindow):
        return event - event % granule
    return event - (event - 1) % granule


def _seen(rows: list[Row], setup: Setup, now: int, base: int, maxima: list[int]) -> Observation:
    if not rows:
        return Observation(now)
    shown = []
    for event, _, part in rows:
        start = granule_start(event, setup)
        for key in keys_of(event, setup.operator):
            seen_key = key if isinstance(setup.operator, TimeWindow) else start + (key - event)
            shown.append((part, start, seen_key))
    shown.sort()
    return Observation(
        now_us=now,
        partition=np.array([part for part, _, _ in shown]),
        event_us=np.array([start for _, start, _ in shown]),
        key_us=np.array([key for _, _, key in shown]),
        count=np.ones(len(shown), np.int64),
        need_us=np.array([_need(key, base, 1_000) for _, _, key in shown]),
        base_us=_of_seen(maxima),
    )


def _of_seen(maxima: list[int]) -> Int64s:
    """The partitions are numbered in order of appearance, so those seen come first."""
    return np.array([most for most in maxima if most != NEVER], np.int64)


class _Job:
    """What all of Spark's replays share: batches, their rows, who is late and what is closed."""

    def __init__(self, rows: list[Row], setup: Setup, partitions: int) -> None:
        self.setup, self.first = setup, rows[0][1]
        self.slots = _slots(rows, setup.trigger_us)
        self.last_slot = max(self.slots)
        self.outcome = Simulated()
        self.marks = [NEVER]  # W of each batch; in front what the first batch's rows are late by
        self.maxima = [NEVER] * partitions
        self.history: list[list[int]] = []
        self.arrived: set[int] = set()

    def wall(self, slot: int) -> int:
        return self.first + (slot + 1) * self.setup.trigger_us

    def batch(self, slot: int, rows: list[Row], mark: int, delay: int) -> Observation:
        """Run a batch whose watermark is ``mark``; its late filter knows the maxima of ``delay`` batches before."""
        known = self.history[-delay] if len(self.history) >= delay else [NEVER] * len(self.maxima)
        for event, _, part in rows:
            for key in keys_of(event, self.setup.operator):
                self.arrived.add(key)
                if key <= self.marks[-1]:
                    self.outcome.late[event // 60_000_000, key] += 1
            self.maxima[part] = max(self.maxima[part], event)
        self.marks.append(mark)
        self.outcome.batches.append((slot, mark))
        self.history.append(list(self.maxima))
        return _seen(rows, self.setup, self.wall(slot), _floor_ms(max(known)), list(self.maxima))

    def finish(self) -> Simulated:
        for key in self.arrived:
            self.outcome.emitted[key] = next(
                (self.wall(slot) for slot, mark in self.outcome.batches if mark >= key),
                self.wall(self.outcome.batches[-1][0]),
            )
        return self.outcome


def literal_native(rows: list[Row], setup: Setup, bound_us: int, partitions: int = 1) -> Simulated:
    """Return what Spark does under one bound in whole milliseconds."""
    job = _Job(rows, setup, partitions)
    mark, moved = NEVER, False
    for slot in range(job.last_slot + 2):
        held = job.slots.get(slot, [])
        if not held and not moved:
            continue
        job.batch(slot, held, mark, 2)
        job.outcome.bounds.append(bound_us)
        following = max(mark, _floor_ms(max(job.maxima)) - bound_us)
        moved, mark = following > mark, following
    return job.finish()


def literal_live(
    rows: list[Row], setup: Setup, policy: Any, partitions: int, *, every_move: bool = False
) -> Simulated:
    """Return what Spark does when Live moves its watermark.

    With ``every_move`` it moves even if that closes nothing: each batch may then bring the next one about.
    """
    job = _Job(rows, setup, partitions)
    trigger = setup.trigger_us
    required, mark, moved = NEVER, NEVER, False
    standing = Decision()
    for slot in range(job.last_slot + 4):
        held = job.slots.get(slot, [])
        ran = bool(held) or moved
        if ran:
            policy.observe(job.batch(slot, held, mark, 2))
        if slot <= job.last_slot and (ran or any(key > required for key in job.arrived)):
            decision = policy.decide(job.wall(slot), job.wall(slot) + trigger)
            if decision != Decision():
                standing = decision
            wanted = NEVER
            if standing.watermark_us is not None:
                wanted = standing.watermark_us
            elif standing.bound_us is not None:
                wanted = max(job.maxima) - standing.bound_us
            required = max(required, _floor_ms(wanted))
        moved = required > mark and (every_move or any(mark < key <= required for key in job.arrived))
        mark = required if moved else mark
    return job.finish()


def literal_restart(rows: list[Row], setup: Setup, policy: Any, partitions: int) -> Simulated:
    """Return what Spark does when each change of the bound starts the query anew."""
    job = _Job(rows, setup, partitions)

    def plan(decision: Decision, bound: int | None) -> int | None:
        if decision.bound_us is None:
            return bound
        return max(0, decision.bound_us + -decision.bound_us % 1_000)

    bound = plan(policy.decide(job.first, job.first), None)
    mark, moved, up_at = NEVER, False, 0
    of_this_run = NEVER
    waiting: list[Row] = []
    slot = -1
    while slot <= job.last_slot or waiting or moved:
        slot += 1
        waiting += job.slots.get(slot, [])
        if job.wall(slot) < up_at or not (waiting or moved):
            continue
        seen = job.batch(slot, waiting, mark, 2)
        job.outcome.bounds.append(bound)
        policy.observe(seen)
        of_this_run = max([of_this_run, *(event for event, _, _ in waiting)])
        waiting = []
        wanted = bound
        if slot <= job.last_slot:
            now = job.wall(slot)
            wanted = plan(policy.decide(now, now + setup.restart_cost_us), bound)
        following = mark
        if bound is not None and of_this_run != NEVER:
            following = max(mark, _floor_ms(of_this_run) - bound)
        moved, mark = following > mark, following
        if wanted != bound:
            bound, moved, of_this_run = wanted, False, NEVER
            up_at = job.wall(slot) + max(setup.restart_cost_us, 1)
    return job.finish()


def assert_same(arrivals: Arrivals, run: Any, outcome: Simulated) -> None:
    """Hold a run against what the simulation found."""
    assert list(zip(run.slot.tolist(), run.watermark_us.tolist(), strict=True)) == outcome.batches
    by_minute: Counter[int] = Counter()
    by_key: Counter[int] = Counter()
    for (minute, key), count in outcome.late.items():
        by_minute[minute] += count
        by_key[key] += count
    assert dict(zip(arrivals.minutes.tolist(), run.late_by_minute.tolist(), strict=True)) == {
        minute: by_minute[minute] for minute in arrivals.minutes.tolist()
    }
    assert dict(zip(arrivals.keys_us.tolist(), run.late_by_key.tolist(), strict=True)) == {
        key: by_key[key] for key in arrivals.keys_us.tolist()
    }
    assert run.late == outcome.late.total()
    assert dict(zip(arrivals.keys_us.tolist(), run.emit_wall_us.tolist(), strict=True)) == outcome.emitted
