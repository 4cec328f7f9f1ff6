"""The fleet of a simulated week: streams of many kinds, at the pace of a batch every half hour, the same at each call.

The kinds are those of ``support.synthetic`` and ``support.system_kinds``, with delays of minutes and hours: a week of
them has some hundred windows and batches, as many as an hour of a stream with windows of seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import cycle, islice
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tidemark.models.base.operators import Operator, row_level, session, sliding, tumbling
from tidemark.models.protocol.messages import Mode

from support.policies import at_once
from support.synthetic import Float64s, Rows, Trace, ends_s, fifo

__all__ = ["LASTING", "START_US", "STEP_S", "WeekStream", "draw", "fleet"]

START_US = 1_767_225_600_000_000
"""2026-01-01T00:00:00Z."""
STEP_S = 1_800
"""Seconds between two batches."""
MINUTE_S, HOUR_S, DAY_S = 60, 3_600, 86_400
_RATE = 100 / HOUR_S
"""Rows a second of most kinds; at noon where traffic swings."""

Rng = np.random.Generator
Int64s = NDArray[np.int64]


class Draft(NamedTuple):
    """What a kind begins with: rows without a delay."""

    rng: Rng
    event_s: Float64s
    """Event times in seconds from the start, ascending, shape (rows,)."""
    lasting_s: float
    """How long the stream lasts."""

    def usual(self, median_s: float = 8 * MINUTE_S) -> Float64s:
        """Return lognormal delays."""
        delay_s: Float64s = median_s * np.exp(0.9 * self.rng.standard_normal(len(self.event_s)))
        return delay_s

    def any_of(self, count: int) -> Int64s:
        """Return a partition for each row."""
        return self.rng.integers(count, size=len(self.event_s))

    def begins_s(self, count: int) -> Float64s:
        """Return when something begins that happens so often, ascending, never on the first day."""
        begins_s: Float64s = np.sort(self.rng.uniform(self.lasting_s / 7, self.lasting_s, count))
        return begins_s


# -- the kinds -----------------------------------------------------------------------------------------------


def steady(draft: Draft) -> Rows:
    """Lognormal delays, median 8 minutes, all the time the same."""
    return Rows(draft.event_s, draft.event_s + draft.usual(), draft.any_of(4))


def heavy(draft: Draft) -> Rows:
    """Delays all the time the same, of which 2 % have a Pareto tail from half an hour on."""
    tail_s = 30 * MINUTE_S * (1 + draft.rng.pareto(1.2, len(draft.event_s)))
    delay_s = np.where(draft.rng.random(len(draft.event_s)) < 0.02, tail_s, draft.usual(5 * MINUTE_S))
    return Rows(draft.event_s, draft.event_s + delay_s, draft.any_of(4))


def days(draft: Draft) -> Rows:
    """Delays swing between 1 and 6 times the usual over the day."""
    angle = 2 * np.pi * (draft.event_s / DAY_S + draft.rng.random())
    delay_s = draft.usual() * 6 ** (0.5 - 0.5 * np.cos(angle))
    return Rows(draft.event_s, draft.event_s + delay_s, draft.any_of(4))


def step(draft: Draft) -> Rows:
    """From some moment on delays are four times as long."""
    (begin_s,) = draft.begins_s(1)
    delay_s = draft.usual() * np.where(draft.event_s >= begin_s, 4, 1)
    return Rows(draft.event_s, draft.event_s + delay_s, draft.any_of(4))


def bursts(draft: Draft) -> Rows:
    """Every 6 to 20 hours a tenth of the time is a burst, in which rows are one to three hours later."""
    period_s, more_s = draft.rng.uniform([6 * HOUR_S, HOUR_S], [20 * HOUR_S, 3 * HOUR_S])
    inside = (draft.event_s / period_s + draft.rng.random()) % 1 < 0.1
    return Rows(draft.event_s, draft.event_s + draft.usual() + np.where(inside, more_s, 0.0), draft.any_of(4))


def stalls(draft: Draft) -> Rows:
    """One partition of four stands still for one to four hours, six times."""
    return _stopped(draft, draft.any_of(4), (0,), 6, (1, 4))


def outage(draft: Draft) -> Rows:
    """Once nothing is read for three to eight hours, and then everything."""
    return _stopped(draft, draft.any_of(4), range(4), 1, (3, 8))


def uploads(draft: Draft) -> Rows:
    """One partition with a twentieth of the rows is uploaded every six hours."""
    partition = draft.rng.choice(4, len(draft.event_s), p=[0.05, 0.3, 0.3, 0.35])
    arrival_s = draft.event_s + draft.usual()
    its = partition == 0
    uploaded_s = (draft.event_s[its] // (6 * HOUR_S) + 1) * 6 * HOUR_S
    arrival_s[its] = uploaded_s + draft.rng.uniform(5 * MINUTE_S, 20 * MINUTE_S, int(its.sum()))
    return Rows(draft.event_s, arrival_s, partition)


def growth(draft: Draft) -> Rows:
    """Twice the partitions double; the new ones are first read one to three hours later."""
    grows_s = draft.begins_s(2)
    partition = draft.rng.integers(2 << np.searchsorted(grows_s, draft.event_s))
    arrival_s = draft.event_s + draft.usual()
    for doubled, begin_s in enumerate(grows_s):
        unread_s = np.array([[begin_s, begin_s + draft.rng.uniform(1, 3) * HOUR_S]])
        for new in range(2 << doubled, 4 << doubled):
            arrival_s[partition == new] = fifo(arrival_s[partition == new], unread_s)
    return Rows(draft.event_s, arrival_s, partition)


def shrink(draft: Draft) -> Rows:
    """Twice half of the partitions leave for good, and the others take over."""
    left = 8 >> np.searchsorted(draft.begins_s(2), draft.event_s)
    return Rows(draft.event_s, draft.event_s + draft.usual(), draft.any_of(8) % left)


def slow(draft: Draft) -> Rows:
    """One partition of six trails the others by one to four hours, all the time."""
    partition = draft.any_of(6)
    behind_s = np.where(partition == 0, draft.rng.uniform(1, 4) * HOUR_S, 0.0)
    return Rows(draft.event_s, draft.event_s + draft.usual() + behind_s, partition)


def phones(draft: Draft) -> Rows:
    """A hundred phones are offline at times, for a quarter of an hour or, with a Pareto tail, much longer."""
    phone = draft.any_of(100)
    arrival_s = draft.event_s + draft.usual()
    for each in range(100):
        offline_s = np.minimum(HOUR_S / 4 * (1 + draft.rng.pareto(1.1, 12)), 12 * HOUR_S)
        back_s = np.cumsum(draft.rng.exponential(DAY_S, 12) + offline_s)
        its = phone == each
        arrival_s[its] = fifo(arrival_s[its], np.column_stack([back_s - offline_s, back_s]))
    return Rows(draft.event_s, arrival_s, phone % 4)


def drift(draft: Draft) -> Rows:
    """The clock of one producer of four runs fast, that of another slow, until both are set right twice a day."""
    partition = draft.any_of(4)
    since_set_s = draft.event_s % (DAY_S / 2)
    skew_s = np.choose(partition, [0.02, -0.02, 0, 0]) * since_set_s
    return Rows(draft.event_s + skew_s, draft.event_s + draft.usual(), partition)


def night(draft: Draft) -> Rows:
    """No rows happen for six hours of each day."""
    rows = steady(draft)
    day = (draft.event_s / DAY_S + draft.rng.random()) % 1 > 0.25
    return Rows(rows.event_s[day], rows.arrival_s[day], rows.partition[day])


def spike(draft: Draft) -> Rows:
    """Twice traffic is ten times the usual for two hours, before a queue that serves four times the usual."""
    more = [
        begin_s + draft.rng.uniform(0, 2 * HOUR_S, round(9 * _RATE * 2 * HOUR_S))
        for begin_s in draft.begins_s(2)
    ]
    whole = draft._replace(event_s=np.sort(np.concatenate([draft.event_s, *more])))
    served_s = fifo(whole.event_s + whole.usual(5 * MINUTE_S), np.empty((0, 2)), 4 * _RATE)
    return Rows(whole.event_s, served_s, whole.any_of(4))


def young(draft: Draft) -> Rows:
    """Partitions live for 4 to 12 hours, each with a delay of its own; new ones take the place of those that ended."""
    place, partition = draft.any_of(3), np.empty(len(draft.event_s), np.int64)
    count = 0
    for each in range(3):
        at = place == each
        ends = ends_s(draft.rng, draft.event_s[at], 4 * HOUR_S, 12 * HOUR_S)
        partition[at] = count + np.searchsorted(ends, draft.event_s[at])
        count = int(partition[at].max()) + 1
    median_s = draft.rng.uniform(2 * MINUTE_S, 30 * MINUTE_S, count)
    return Rows(draft.event_s, draft.event_s + draft.usual(1) * median_s[partition], partition)


def sparse(draft: Draft) -> Rows:
    """Two rows an hour."""
    few = draft.rng.random(len(draft.event_s)) < 0.02
    rows = steady(draft)
    return Rows(rows.event_s[few], rows.arrival_s[few], rows.partition[few])


def _stopped(
    draft: Draft, partition: Int64s, queues: range | tuple[int, ...], times: int, hours: tuple[float, float]
) -> Rows:
    begin_s = draft.begins_s(times)
    stopped_s = np.column_stack([begin_s, begin_s + draft.rng.uniform(*hours, times) * HOUR_S])
    arrival_s = draft.event_s + draft.usual()
    for queue in queues:
        arrival_s[partition == queue] = fifo(arrival_s[partition == queue], stopped_s)
    return Rows(draft.event_s, arrival_s, partition)


LASTING = (steady, heavy)
"""Kinds whose delays are the same all the time, in all of their streams: what is certified of them can be checked."""

_SWINGING = (
    *(days, step, bursts, stalls, outage, uploads, growth, shrink),
    *(slow, phones, drift, night, spike, young, sparse),
)
"""All others: their traffic swings over the day."""


def draw(kind: Callable[[Draft], Rows], seed: int, lasting_s: float) -> Trace:
    """Return the rows of a kind."""
    rng = np.random.default_rng([seed, *kind.__name__.encode()])
    event_s = np.sort(rng.uniform(0, lasting_s, round(_RATE * lasting_s)))
    if kind not in LASTING:
        share = 0.6 - 0.4 * np.cos(2 * np.pi * event_s / DAY_S)
        event_s = event_s[rng.random(len(event_s)) < share]
    return kind(Draft(rng, event_s, lasting_s)).trace(START_US)


# -- the fleet -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class WeekStream:
    """A stream, and what people set for it."""

    name: str
    kind: str
    seed: int
    trace: Trace
    operator: Operator
    mode: Mode
    own_ms: int
    """The bound in the job's call; in Live the ceiling."""
    slo: Mapping[str, Any]
    policy: Mapping[str, Any]


_OPERATORS: tuple[Operator, ...] = (
    *(tumbling("1 hour"), tumbling("30 minutes"), tumbling("1 hour"), tumbling("2 hours")),
    *(
        sliding("2 hours", "1 hour"),
        tumbling("1 hour"),
        session("30 minutes"),
        tumbling("1 hour"),
        row_level(),
    ),
)
_MODES: tuple[Mode, ...] = ("OnRestart", "Restart", "Off", "OnRestart", "Live", "Restart", "OnRestart")
_OWN_HOURS = (0, 0.5, 1, 2, 4, 12)
_TARGETS_PPM = (990_000, 995_000, 950_000, 980_000)
_WINDOW_DAYS = (1, 7, 2)


def fleet(streams: int, days_long: float, seed: int) -> Iterator[WeekStream]:
    """Return so many streams; a fifth of them has delays that stay the same."""
    rng = np.random.default_rng(seed)
    kinds = cycle((*LASTING, *_SWINGING[:8], *LASTING, *_SWINGING[8:]))
    for number, kind in enumerate(islice(kinds, streams)):
        operator = _OPERATORS[int(rng.integers(len(_OPERATORS)))] if kind not in LASTING else _OPERATORS[0]
        mode = _MODES[int(rng.integers(len(_MODES)))]
        own_h = 12 if mode == "Live" else float(rng.choice(_OWN_HOURS))
        slices = operator.kind == "window" and kind not in LASTING and rng.random() < 0.2
        yield WeekStream(
            name=f"{number:03}-{kind.__name__}",
            kind=kind.__name__,
            seed=seed + number,
            trace=draw(kind, seed + number, days_long * DAY_S),
            operator=operator,
            mode=mode,
            own_ms=round(own_h * HOUR_S * 1_000),
            slo={
                "target_ppm": int(rng.choice(_TARGETS_PPM)),
                "window_ms": int(rng.choice(_WINDOW_DAYS)) * DAY_S * 1_000,
                "objective": "timeslices" if slices else "occurrences",
            },
            policy=at_once(mode),
        )
