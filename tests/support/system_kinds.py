"""Kinds of stream that real systems have: overload, growth, outages, uploads, clocks, rare rows.

Each kind has a rate, a length and windows of its own, at most some 400,000 rows, and is the same at each call with the
same seed. What the seed draws is said at each kind. ``make_trace`` draws these and those of ``support.synthetic``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from support.streams import SECOND
from support.synthetic import (
    KINDS,
    START_US,
    Float64s,
    Rows,
    Trace,
    ends_s,
    even_times,
    fifo,
    synthetic,
    usual_delay,
)

__all__ = ["SYSTEM_KINDS", "WINDOW_US", "make_trace", "window_us_of"]

WINDOW_US = 10 * SECOND
"""Windows of the kinds that say nothing else."""
MINUTE_S = 60
HOUR_S = 3_600
DAY_S = 86_400
Int64s = NDArray[np.int64]
Rng = np.random.Generator


@dataclass(frozen=True, slots=True)
class SystemKind:
    """A kind of stream and the windows that suit it."""

    draw: Callable[[Rng], Rows]
    """Draws its rows, in seconds from a full hour."""
    window_us: int = WINDOW_US


# -- overload ------------------------------------------------------------------------------------------------


def spike(rng: Rng) -> Rows:
    """Traffic is 20 times the usual for two minutes, before a first-in-first-out queue that serves 4 times the usual.

    Drawn: when, and up to 8 partitions, which share the queue.
    """
    event_s = _with_spikes(rng, [rng.uniform(900, 1_800)], factor=20, lasting_s=120)
    served_s = fifo(event_s + _transit(rng, event_s), _NEVER, _SERVED)
    return Rows(event_s, served_s, _any_of_several(rng, event_s))


def spike_mild(rng: Rng) -> Rows:
    """As ``spike``, but 6 times the usual for one minute, and twice.

    Drawn: when, and up to 8 partitions, which share the queue.
    """
    event_s = _with_spikes(rng, rng.uniform([600, 2_100], [1_500, 3_000]), factor=6, lasting_s=60)
    served_s = fifo(event_s + _transit(rng, event_s), _NEVER, _SERVED)
    return Rows(event_s, served_s, _any_of_several(rng, event_s))


def spike_newest_first(rng: Rng) -> Rows:
    """As ``spike``, but the queue serves the newest row first while it is behind.

    Drawn: as there.
    """
    event_s = _with_spikes(rng, [rng.uniform(900, 1_800)], factor=20, lasting_s=120)
    served_s = _last_in_first_out(event_s + _transit(rng, event_s), _SERVED)
    return Rows(event_s, served_s, _any_of_several(rng, event_s))


def spike_put_aside(rng: Rng) -> Rows:
    """As ``spike``, but the queue takes 5 s of work at most; what is beyond is put aside and delivered later.

    Drawn: as there, and that it comes U(5, 15) minutes after the spike began, as fast as the queue serves.
    """
    at_s, again_s = np.cumsum(rng.uniform([900, 300], [1_800, 900]))
    event_s = _with_spikes(rng, [at_s], factor=20, lasting_s=120)
    arrival_s = _with_a_limit(event_s + _transit(rng, event_s), _SERVED, limit_s=5)
    aside = np.isnan(arrival_s)
    arrival_s[aside] = event_s[0] + again_s + np.arange(int(aside.sum())) / _SERVED
    return Rows(event_s, arrival_s, _any_of_several(rng, event_s))


_USUAL = 50
"""Usual rows a second of the spikes."""
_SERVED = 4 * _USUAL
"""Rows a second that their queue serves."""
_NEVER = np.empty((0, 2))
"""When a queue stops that never does."""


def _with_spikes(rng: Rng, begins_s: Float64s | list[float], factor: int, lasting_s: int) -> Float64s:
    more = [begin + even_times(rng, (factor - 1) * _USUAL, lasting_s) for begin in begins_s]
    return _somewhere(rng, np.sort(np.concatenate([even_times(rng, _USUAL, HOUR_S), *more])))


def _last_in_first_out(entered_s: Float64s, rows_per_s: float) -> Float64s:
    """Return when each row leaves a queue that serves the newest first; rows enter in any order."""
    order = np.argsort(entered_s, kind="stable").tolist()
    waiting: list[int] = []
    left_s, now_s, step = np.empty_like(entered_s), 0.0, 1 / rows_per_s
    for row in order:
        while waiting and now_s <= entered_s[row]:
            left_s[waiting.pop()] = now_s
            now_s += step
        now_s = max(now_s, float(entered_s[row]))
        waiting.append(row)
    for row in reversed(waiting):
        left_s[row] = now_s
        now_s += step
    return left_s


def _with_a_limit(entered_s: Float64s, rows_per_s: float, limit_s: float) -> Float64s:
    """Return when each row leaves a queue that takes none while it has so many seconds of work: NaN for these."""
    left_s, free_s, step = np.full_like(entered_s, np.nan), -np.inf, 1 / rows_per_s
    for row in np.argsort(entered_s, kind="stable").tolist():
        enters_s = float(entered_s[row])
        if free_s - enters_s <= limit_s:
            left_s[row] = free_s = max(free_s, enters_s) + step
    return left_s


# -- partitions that come and go -----------------------------------------------------------------------------


def growth(rng: Rng) -> Rows:
    """Twice the partitions double; the consumer finds the new ones a minute late and then reads their backlog.

    Drawn: when, and 2 to 4 partitions at first; the consumer finds them U(40, 80) s late.
    """
    event_s = _somewhere(rng, even_times(rng, 80, HOUR_S))
    count, grows_s = int(rng.integers(2, 5)), event_s[0] + rng.uniform([600, 2_100], [1_500, 3_000])
    partition = rng.integers(count << np.searchsorted(grows_s, event_s))
    arrival_s = event_s + usual_delay(rng, len(event_s))
    for doubled, begin in enumerate(grows_s):
        unknown_s = np.array([[begin, begin + rng.uniform(40, 80)]])
        for new in range(count << doubled, count << (doubled + 1)):
            arrival_s[partition == new] = fifo(arrival_s[partition == new], unknown_s)
    return Rows(event_s, arrival_s, partition)


def shrink(rng: Rng) -> Rows:
    """Twice half of the partitions leave for good, and the others take over.

    Drawn: when, 8 to 16 partitions at first, and a hand-over of U(5, 20) s: what would have gone to a partition that
    left waits until it is over.
    """
    event_s = _somewhere(rng, even_times(rng, 80, HOUR_S))
    count, leaves_s = 4 * int(rng.integers(2, 5)), event_s[0] + rng.uniform([600, 2_100], [1_500, 3_000])
    partition = rng.integers(count, size=len(event_s))
    arrival_s = event_s + usual_delay(rng, len(event_s))
    for halved, begin in enumerate(leaves_s):
        left = count >> (halved + 1)
        moved = (event_s >= begin) & (partition >= left)
        partition[moved] %= left
        arrival_s[moved] = fifo(arrival_s[moved], np.array([[begin, begin + rng.uniform(5, 20)]]))
    return Rows(event_s, arrival_s, partition)


def young(rng: Rng) -> Rows:
    """Partitions live for minutes; each has a delay of its own, and new ones take the place of those that ended.

    Drawn: 3 to 6 at a time, lives of U(2, 8) minutes, and of each the median delay, between 0.1 and 10 s.
    """
    event_s = _somewhere(rng, even_times(rng, 40, 2 * HOUR_S))
    partition = np.empty(len(event_s), np.int64)
    place = rng.integers(rng.integers(3, 7), size=len(event_s))
    count = 0
    for each in range(int(place.max()) + 1):
        at = place == each
        partition[at] = count + np.searchsorted(ends_s(rng, event_s[at], 120, 480), event_s[at])
        count = int(partition[at].max()) + 1
    median_s = 10 ** rng.uniform(-1, 1, count)
    return Rows(
        event_s, event_s + median_s[partition] * np.exp(0.5 * rng.standard_normal(len(event_s))), partition
    )


# -- outages and deliveries ----------------------------------------------------------------------------------


def outage(rng: Rng) -> Rows:
    """Once nothing is read for minutes, and then everything within a second.

    Drawn: when, for U(150, 210) s, and up to 8 partitions.
    """
    event_s = _somewhere(rng, even_times(rng, 40, 2 * HOUR_S))
    begin = event_s[0] + rng.uniform(1_800, 5_400)
    stopped_s = np.array([[begin, begin + rng.uniform(150, 210)]])
    return Rows(event_s, _not_read(rng, event_s, stopped_s), _any_of_several(rng, event_s))


def outages(rng: Rng) -> Rows:
    """As ``outage``, but again and again over five hours.

    Drawn: U(10, 25) minutes from one to the next, each lasts U(60, 240) s, and up to 8 partitions.
    """
    event_s = _somewhere(rng, even_times(rng, 16, 5 * HOUR_S))
    begin = event_s[0] + np.cumsum(rng.uniform(600, 1_500, 30))
    begin = begin[begin < event_s[-1] - 600]
    stopped_s = np.column_stack([begin, begin + rng.uniform(60, 240, len(begin))])
    return Rows(event_s, _not_read(rng, event_s, stopped_s), _any_of_several(rng, event_s))


def producer_outage(rng: Rng) -> Rows:
    """One producer of eight, a partition, holds its rows for minutes and then sends them all within a second; 3 times.

    Drawn: which one, when, and U(2, 10) minutes for each.
    """
    event_s = _somewhere(rng, even_times(rng, 40, 2 * HOUR_S))
    partition = rng.integers(8, size=len(event_s))
    begin = event_s[0] + 600 + 2_200 * np.arange(3) + rng.uniform(0, 1_000, 3)
    stopped_s = np.column_stack([begin, begin + rng.uniform(120, 600, 3)])
    arrival_s = event_s + usual_delay(rng, len(event_s))
    its = partition == rng.integers(8)
    arrival_s[its] = _not_read(rng, event_s[its], stopped_s)
    return Rows(event_s, arrival_s, partition)


def hourly(rng: Rng) -> Rows:
    """One partition of eight, with 5 % of the rows, uploads once an hour what it has; the others have a second's delay.

    Drawn: which one, the minute of the hour, and the delay of each upload, U(4, 8) minutes.
    """
    event_s = _somewhere(rng, even_times(rng, 8, 12 * HOUR_S))
    which = int(rng.integers(8))
    partition = rng.choice(8, len(event_s), p=np.where(np.arange(8) == which, 0.05, 0.95 / 7))
    its, minute_s = partition == which, rng.uniform(0, HOUR_S)
    uploads = (event_s[its] - minute_s) // HOUR_S
    upload = (uploads - uploads[0]).astype(np.int64)
    delay_s = rng.uniform(240, 480, int(upload[-1]) + 1)[upload] + rng.uniform(0, 1, len(upload))
    arrival_s = event_s + 5 * usual_delay(rng, len(event_s))
    arrival_s[its] = (uploads + 1) * HOUR_S + minute_s + delay_s
    return Rows(event_s, arrival_s, partition)


def phones(rng: Rng) -> Rows:
    """400 phones in 8 partitions go offline at times, for minutes to hours, and come back with all their rows.

    Drawn: exponential times online, with a mean of 5 h, and offline, Pareto from 2 minutes on (shape 1.1), at most 4 h.
    """
    event_s = _somewhere(rng, even_times(rng, 8, 12 * HOUR_S))
    phone = rng.integers(400, size=len(event_s))
    arrival_s = event_s + 5 * usual_delay(rng, len(event_s))
    for each in range(400):
        online_s = rng.exponential(5 * HOUR_S, 20)
        offline_s = np.minimum(2 * MINUTE_S * (1 + rng.pareto(1.1, 20)), 4 * HOUR_S)
        ends_s = event_s[0] + np.cumsum(online_s + offline_s)
        its = phone == each
        arrival_s[its] = fifo(arrival_s[its], np.column_stack([ends_s - offline_s, ends_s]))
    return Rows(event_s, arrival_s, phone % 8)


# -- clocks and seasons --------------------------------------------------------------------------------------


def drift(rng: Rng) -> Rows:
    """The clock of one producer of four runs fast, that of another slow, and both are set right by steps.

    Rows of the fast one may be dated after they arrive. Drawn: which ones, drifts of U(1, 4) ms a second, and U(15, 30)
    minutes from one step to the next.
    """
    event_s = _somewhere(rng, even_times(rng, 40, 2 * HOUR_S))
    partition = rng.integers(4, size=len(event_s))
    dated_s = event_s.copy()
    for which, sign in zip(rng.permutation(4)[:2], (1, -1), strict=True):
        its = partition == which
        set_s = np.append(event_s[0], ends_s(rng, event_s[its], 900, 1_800))
        since_set_s = event_s[its] - set_s[np.searchsorted(set_s, event_s[its], "right") - 1]
        dated_s[its] += sign * rng.uniform(0.001, 0.004) * since_set_s
    return Rows(dated_s, event_s + usual_delay(rng, len(event_s)), partition)


def days(rng: Rng) -> Rows:
    """Delays swing between 1 and 20 times the usual over the day, for three days; one row a second.

    Drawn: the phase, and up to 8 partitions.
    """
    event_s = _somewhere(rng, even_times(rng, 1, 3 * DAY_S))
    angle = 2 * np.pi * (event_s / DAY_S + rng.random())
    delay_s = 10 * usual_delay(rng, len(event_s)) * 20 ** (0.5 - 0.5 * np.cos(angle))
    return Rows(event_s, event_s + delay_s, _any_of_several(rng, event_s))


# -- rare rows -----------------------------------------------------------------------------------------------


def sparse(rng: Rng) -> Rows:
    """A row a minute, for five days, with delays of seconds.

    Drawn: up to 8 partitions.
    """
    event_s = _somewhere(rng, even_times(rng, 1 / MINUTE_S, 5 * DAY_S))
    return Rows(event_s, event_s + 10 * usual_delay(rng, len(event_s)), _any_of_several(rng, event_s))


def edges(rng: Rng) -> Rows:
    """Usual rows, and in one window of fifty a cluster just before its end that comes late, all at once.

    Drawn: which windows, U(20, 60) rows in the last 100 ms, U(5, 40) s late, in one of up to 8 partitions.
    """
    event_s = _somewhere(rng, even_times(rng, 40, 2 * HOUR_S))
    window_s = WINDOW_US / SECOND
    end_s = np.arange(event_s[0] // window_s + 1, event_s[-1] // window_s) * window_s
    end_s = rng.choice(end_s, len(end_s) // 50, replace=False)
    size = rng.integers(20, 61, len(end_s))
    late_s = (end_s + rng.uniform(5, 40, len(end_s))).repeat(size)
    cluster_s = end_s.repeat(size) - rng.uniform(0.001, 0.1, int(size.sum()))
    partition = _any_of_several(rng, event_s)
    of_cluster = rng.integers(partition.max() + 1, size=len(end_s)).repeat(size)
    return Rows(
        np.concatenate([event_s, cluster_s]),
        np.concatenate([event_s + usual_delay(rng, len(event_s)), late_s]),
        np.concatenate([partition, of_cluster]),
    )


SYSTEM_KINDS: dict[str, SystemKind] = {
    draw.__name__: SystemKind(draw, window_us)
    for window_us, draws in {
        WINDOW_US: (
            *(spike, spike_mild, spike_newest_first, spike_put_aside, growth, shrink, young),
            *(outage, outages, producer_outage, drift, edges),
        ),
        MINUTE_S * SECOND: (hourly, phones, days, sparse),
    }.items()
    for draw in draws
}


def make_trace(kind: str, seed: int) -> Trace:
    """Return a trace of one of ``SYSTEM_KINDS`` or of ``synthetic.KINDS``, of which nothing but the seed varies."""
    if kind in KINDS:
        return synthetic(kind, seed)
    rng = np.random.default_rng([seed, *kind.encode()])
    trace = SYSTEM_KINDS[kind].draw(rng).trace(START_US)
    # Partitions are numbered as they appear.
    first, partition = np.unique(trace.partition, return_index=True, return_inverse=True)[1:]
    number = np.empty(len(first), np.int32)
    number[np.argsort(first)] = np.arange(len(first))
    return trace._replace(partition=number[partition])


def window_us_of(kind: str) -> int:
    """Return the windows that a kind is judged by."""
    return WINDOW_US if kind in KINDS else SYSTEM_KINDS[kind].window_us


def _somewhere(rng: Rng, event_s: Float64s) -> Float64s:
    """Let a stream begin anywhere on the grid of windows: within the first hour."""
    return event_s + rng.uniform(0, HOUR_S)


def _any_of_several(rng: Rng, event_s: Float64s) -> Int64s:
    return rng.integers(rng.integers(2, 9), size=len(event_s))


def _transit(rng: Rng, event_s: Float64s) -> Float64s:
    """Return delays before a queue: lognormal, median 0.1 s, sigma 0.5."""
    return 0.1 * np.exp(0.5 * rng.standard_normal(len(event_s)))


def _not_read(rng: Rng, event_s: Float64s, stopped_s: Float64s) -> Float64s:
    """Return usual arrivals, but what arrives in a stop is read within a second of its end, in any order."""
    arrival_s = event_s + usual_delay(rng, len(event_s))
    for begin, end in stopped_s:
        waiting = (arrival_s >= begin) & (arrival_s < end)
        arrival_s[waiting] = end + rng.random(int(waiting.sum()))
    return arrival_s
