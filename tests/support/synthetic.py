"""Synthetic traces: named kinds of delay, the same at each call with the same seed.

``synthetic`` varies with the seed what a policy could be tuned to by mistake: where the stream begins on the grid of
windows, the number of partitions, and the parameters of each kind.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tidemark.models.base.operators import Int64s

from support.streams import SECOND

__all__ = [
    "KINDS",
    "RATE",
    "START_US",
    "TRAFFIC",
    "Float64s",
    "Rows",
    "Trace",
    "ends_s",
    "even_times",
    "fifo",
    "synthetic",
    "usual_delay",
]

Float64s = NDArray[np.float64]

START_US = 1_767_225_600 * SECOND
"""2026-01-01T00:00:00Z, on the grid of every window."""
RATE = 200
"""Rows a second, unless another rate is asked for."""
MEDIAN_S = 0.2
"""Median of the usual delay, as in literature S1."""
BACKLOG_ROWS_PER_S = 2_000
"""Pace at which a backlog leaves after a stall (S3)."""
DAY_S = 86_400


class Trace(NamedTuple):
    """Rows in order of arrival."""

    event_time_us: Int64s
    """Event times in microseconds, shape (rows,)."""
    arrival_time_us: Int64s
    """Arrival times in microseconds, non-decreasing, shape (rows,)."""
    partition: NDArray[np.int32]
    """Partition of each row, from 0, shape (rows,)."""


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows in order of event time; seconds from the start of the stream, shape (rows,) each."""

    event_s: Float64s
    arrival_s: Float64s
    partition: NDArray[np.int64]

    def trace(self, start_us: int) -> Trace:
        arrival_us = start_us + np.rint(self.arrival_s * SECOND).astype(np.int64)
        order = np.argsort(arrival_us, kind="stable")
        event_us = start_us + np.rint(self.event_s * SECOND).astype(np.int64)
        return Trace(event_us[order], arrival_us[order], self.partition[order].astype(np.int32))


# -- the kinds -----------------------------------------------------------------------------------------------


def stationary(rng: np.random.Generator, event_s: Float64s, partition: NDArray[np.int64]) -> Rows:
    """Lognormal delays, median 0.2 s, sigma 1 (S1)."""
    return Rows(event_s, event_s + usual_delay(rng, len(event_s)), partition)


def step(rng: np.random.Generator, event_s: Float64s, partition: NDArray[np.int64]) -> Rows:
    """As ``stationary``; from the middle of the stream on delays are five times as long (S1, S4)."""
    factor = np.where(event_s >= (event_s[0] + event_s[-1]) / 2, 5, 1)
    return Rows(event_s, event_s + usual_delay(rng, len(event_s)) * factor, partition)


def diurnal(rng: np.random.Generator, event_s: Float64s, partition: NDArray[np.int64]) -> Rows:
    """Delays swing between 1 and 6 times the usual, ``6 ** (0.5 - 0.5 cos)`` with a period of 1,800 s (S1).

    Drawn: the phase.
    """
    angle = 2 * np.pi * (event_s / 1_800 + rng.random())
    factor = 6 ** (0.5 - 0.5 * np.cos(angle))
    return Rows(event_s, event_s + usual_delay(rng, len(event_s)) * factor, partition)


def heavy(rng: np.random.Generator, event_s: Float64s, partition: NDArray[np.int64]) -> Rows:
    """Lognormal delays (0.2 s, sigma 0.6), of which 2 % are replaced by a Pareto tail (shape 1.2, scale 2 s) (S1)."""
    size = len(event_s)
    delay = MEDIAN_S * np.exp(0.6 * rng.standard_normal(size))
    tail = 2 * (1 + rng.pareto(1.2, size))
    return Rows(event_s, event_s + np.where(rng.random(size) < 0.02, tail, delay), partition)


def bursts(rng: np.random.Generator, event_s: Float64s, partition: NDArray[np.int64]) -> Rows:
    """Usual delays, and periodic bursts in which they are larger.

    Drawn: the period U(120, 900) s, the share of it in a burst U(0.03, 0.2), the phase, and whether a burst
    multiplies delays by U(5, 30) or adds U(5, 30) s.
    """
    period, share, phase, size = rng.uniform([120, 0.03, 0, 5], [900, 0.2, 1, 30])
    inside = (event_s / period + phase) % 1 < share
    usual = usual_delay(rng, len(event_s))
    larger = usual * size if rng.random() < 0.5 else usual + size
    return Rows(event_s, event_s + np.where(inside, larger, usual), partition)


def stalls(rng: np.random.Generator, event_s: Float64s, partition: NDArray[np.int64]) -> Rows:
    """Usual delays; the last partition is a queue that stalls every 560 s or so for U(10, 40) s (S3).

    A stall begins at 300 + 560 k + U(0, 60) s. Rows that reach the queue in the meantime leave in order from its end
    on, 2,000 a second, and later ones wait for them. With 7,200 s there are 12 stalls.
    """
    return _stalled(rng, event_s, partition, np.array([partition.max()]))


def joint(rng: np.random.Generator, event_s: Float64s, partition: NDArray[np.int64]) -> Rows:
    """As ``stalls``, but 30 % of the partitions, by default of 8 to 32, stop together, each a queue of its own.

    Drawn: which ones.
    """
    count = int(partition.max()) + 1
    queues = rng.choice(count, max(round(0.3 * count), 1), replace=False)
    return _stalled(rng, event_s, partition, queues)


def slow(rng: np.random.Generator, event_s: Float64s, partition: NDArray[np.int64]) -> Rows:
    """Usual delays; one partition, by default of eight, trails the others all the time.

    Drawn: which one, and by how much, U(5, 60) s.
    """
    trails = partition == rng.integers(partition.max() + 1)
    delay = usual_delay(rng, len(event_s)) + np.where(trails, rng.uniform(5, 60), 0)
    return Rows(event_s, event_s + delay, partition)


def night(rng: np.random.Generator, event_s: Float64s, partition: NDArray[np.int64]) -> Rows:
    """Usual delays; the whole stream is silent for about half of each cycle.

    Drawn: 3 to 6 cycles, the silent share U(0.4, 0.6), the phase.
    """
    cycles = rng.integers(3, 7)
    share, phase = rng.uniform([0.4, 0], [0.6, 1])
    day = (event_s / (event_s[-1] / cycles) + phase) % 1 >= share
    return stationary(rng, event_s[day], partition[day])


def shifts(rng: np.random.Generator, event_s: Float64s, partition: NDArray[np.int64]) -> Rows:
    """Usual delays; two partitions go on, the others, by default six, are silent for 20 of every 60 minutes.

    Drawn: the phase.
    """
    resting = (partition > 1) & ((event_s / 3_600 + rng.random()) % 1 < 1 / 3)
    return stationary(rng, event_s[~resting], partition[~resting])


def future(rng: np.random.Generator, event_s: Float64s, partition: NDArray[np.int64]) -> Rows:
    """As ``stationary``, but a few rows are future-dated by a day.

    Drawn: 3 to 8 of them, anywhere in the stream.
    """
    rows = stationary(rng, event_s, partition)
    wrong = rng.choice(len(event_s), rng.integers(3, 9), replace=False)
    dated = event_s.copy()
    dated[wrong] += DAY_S
    return Rows(dated, rows.arrival_s, partition)


Kind = Callable[[np.random.Generator, Float64s, NDArray[np.int64]], Rows]

KINDS: dict[str, Kind] = {
    kind.__name__: kind
    for kind in (stationary, step, diurnal, heavy, bursts, stalls, joint, slow, night, shifts, future)
}
"""Each takes a generator, event times in seconds (ascending) and partitions."""


# -- traffic -------------------------------------------------------------------------------------------------


def steady(_rng: np.random.Generator, event_s: Float64s, _partition: NDArray[np.int64]) -> Float64s:
    """All the time the same."""
    return np.ones(len(event_s))


def jumps(rng: np.random.Generator, event_s: Float64s, _partition: NDArray[np.int64]) -> Float64s:
    """Every U(200, 700) s a tenth, a quarter, a half of the rate, or all of it."""
    episode = _episode(rng, event_s, 200, 700)
    share: Float64s = rng.choice([0.1, 0.25, 0.5, 1], int(episode[-1]) + 1)[episode]
    return share


def swing(rng: np.random.Generator, event_s: Float64s, _partition: NDArray[np.int64]) -> Float64s:
    """Between 0.05 and 1 with a period of 1,800 s.

    Drawn: the phase.
    """
    return 0.05 + 0.95 * (0.5 - 0.5 * np.cos(2 * np.pi * (event_s / 1_800 + rng.random())))


def spikes(rng: np.random.Generator, event_s: Float64s, _partition: NDArray[np.int64]) -> Float64s:
    """A tenth, and all of it for the first 20 s of every period.

    Drawn: the period, U(200, 400) s.
    """
    return np.where(event_s % rng.uniform(200, 400) < 20, 1, 0.1)


def shares(rng: np.random.Generator, event_s: Float64s, partition: NDArray[np.int64]) -> Float64s:
    """Every U(300, 900) s each partition by itself has a twentieth, a third or all of its rate."""
    episode = _episode(rng, event_s, 300, 900)
    of_partition = rng.choice([0.05, 1 / 3, 1], (int(episode[-1]) + 1, int(partition.max()) + 1))
    share: Float64s = of_partition[episode, partition]
    return share


def ends_s(rng: np.random.Generator, event_s: Float64s, least_s: float, most_s: float) -> Float64s:
    """Return the ends of episodes that last U(least, most) seconds, from the first row to beyond the last."""
    ends: Float64s = event_s[0] + np.cumsum(rng.uniform(least_s, most_s, 1 + int(np.ptp(event_s) // least_s)))
    return ends


def _episode(rng: np.random.Generator, event_s: Float64s, least_s: float, most_s: float) -> NDArray[np.intp]:
    """Return in which episode each row is."""
    return np.searchsorted(ends_s(rng, event_s, least_s, most_s), event_s)


TRAFFIC: dict[str, Callable[[np.random.Generator, Float64s, NDArray[np.int64]], Float64s]] = {
    each.__name__: each for each in (steady, jumps, swing, spikes, shares)
}
"""How the rate changes: each takes what a kind takes, and returns the share of it at each row."""


# -- traces --------------------------------------------------------------------------------------------------


def synthetic(
    kind: str,
    seed: int,
    *,
    rate: int = RATE,
    seconds: int = 7_200,
    partitions: int | None = None,
    pack: int = 1,
    traffic: str = "steady",
) -> Trace:
    """Return a trace of a kind.

    Args:
        kind: one of ``KINDS``.
        seed: seed of every draw.
        rate: rows a second while the traffic is highest; ``night`` and ``shifts`` have fewer while they are silent.
        seconds: event time from the first row to the last, about.
        partitions: how many; by default 2 to 8 as the seed has it, four times as many for ``joint``, 2 for
            ``stalls``, 8 for ``slow`` and ``shifts``.
        pack: rows that happen at once in one partition, each with a delay of its own.
        traffic: how the rate changes, one of ``TRAFFIC``.
    """
    rng = np.random.default_rng([seed, *kind.encode()])
    start_us = START_US + int(rng.integers(3_600 * SECOND))
    drawn = int(rng.integers(2, 9))
    count = partitions or {"stalls": 2, "joint": 4 * drawn, "slow": 8, "shifts": 8}.get(kind, drawn)
    pack_s = even_times(rng, rate // pack, seconds)
    weights = np.r_[np.full(count - 1, 0.7 / (count - 1)), 0.3] if kind == "stalls" and count > 1 else None
    partition = rng.choice(count, len(pack_s), p=weights)
    if traffic != "steady":
        kept = rng.random(len(pack_s)) < TRAFFIC[traffic](rng, pack_s, partition)
        pack_s, partition = pack_s[kept], partition[kept]
    return KINDS[kind](rng, pack_s.repeat(pack), partition.repeat(pack)).trace(start_us)


def fifo(entered_s: Float64s, stopped_s: Float64s, rows_per_s: float = BACKLOG_ROWS_PER_S) -> Float64s:
    """Return when each row leaves a queue that stops at times, and that no row overtakes another in.

    Args:
        entered_s: when each row enters, in any order, shape (rows,).
        stopped_s: begin and end of each stop, ascending, shape (stops, 2).
        rows_per_s: pace of the queue.
    """
    order = np.argsort(entered_s, kind="stable")
    ready = entered_s[order]
    for begin, end in stopped_s:
        ready = np.where((ready >= begin) & (ready < end), end, ready)
    queued_s = np.arange(len(ready)) / rows_per_s
    left = np.empty_like(ready)
    # A row leaves when it is ready and its predecessor has left: the running maximum of ready less queued.
    left[order] = queued_s + np.maximum.accumulate(ready - queued_s)
    return left


def _stalled(
    rng: np.random.Generator, event_s: Float64s, partition: NDArray[np.int64], queues: NDArray[np.int64]
) -> Rows:
    entered_s = event_s + usual_delay(rng, len(event_s))
    count = int(max((event_s[-1] - 300) // 560, 0))
    begin = 300 + 560 * np.arange(count) + rng.uniform(0, 60, count)
    stopped = np.column_stack([begin, begin + rng.uniform(10, 40, count)])
    arrival_s = entered_s.copy()
    for queue in queues:
        queued = partition == queue
        arrival_s[queued] = fifo(entered_s[queued], stopped)
    return Rows(event_s, arrival_s, partition)


def even_times(rng: np.random.Generator, rate: float, seconds: float) -> Float64s:
    """Return when rows happen at a constant rate, ascending, in seconds from 0."""
    return np.sort(rng.uniform(0, seconds, round(rate * seconds)))


def usual_delay(rng: np.random.Generator, size: int) -> Float64s:
    """Return lognormal delays with a median of 0.2 s and a sigma of 1, in seconds (S1)."""
    return MEDIAN_S * np.exp(rng.standard_normal(size))
