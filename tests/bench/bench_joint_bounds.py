"""What joint bounds of a join are worth: state and pairs beside one common bound, and beside each side by itself.

Bounds are chosen on one hour of each input and judged on the next, by exact replay. Each left row has one partner.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
from numpy.typing import NDArray

from tidemark.models.base.confidence import certified_rank
from tidemark.models.base.operators import Int64s
from tidemark.models.recommend.joint_bounds import choose_joint_bounds

from support.joined_streams import JoinedStreams

pytestmark = pytest.mark.bench

SECOND_US = 1_000_000
HOUR_S = 3_600
ROWS = 36_000
"""Pairs an hour."""
TRIGGER_US = 5 * SECOND_US
RETENTION_US = (6 * SECOND_US, 4 * SECOND_US)
TARGET_PPM, CONFIDENCE_PPM = 990_000, 950_000

Delays = Callable[[np.random.Generator, NDArray[np.float64]], NDArray[np.float64]]
"""Seconds from event to arrival, given the event times in seconds."""
Inputs = dict[str, tuple[Delays, Delays]]


def steady(dice: np.random.Generator, times: NDArray[np.float64]) -> NDArray[np.float64]:
    return dice.exponential(1, len(times))


def heavy(dice: np.random.Generator, times: NDArray[np.float64]) -> NDArray[np.float64]:
    """One row in 200 comes more than a minute late."""
    return np.minimum(2 * dice.pareto(1.5, len(times)), 600)


def heavier(dice: np.random.Generator, times: NDArray[np.float64]) -> NDArray[np.float64]:
    """One row in 200 comes more than three minutes late."""
    return np.minimum(6 * dice.pareto(1.5, len(times)), 600)


def flushed(dice: np.random.Generator, times: NDArray[np.float64]) -> NDArray[np.float64]:
    """Many producers flush once a minute each."""
    return dice.uniform(0, 60, len(times))


def behind(seconds: float, more: Delays) -> Delays:
    return lambda dice, times: seconds + more(dice, times)


def swinging(seconds: float, more: Delays, phase: float = 0) -> Delays:
    """Trail by nothing up to so many seconds and back, within half an hour."""
    return lambda dice, times: (
        seconds / 2 * (1 - np.cos(2 * np.pi * (times / 1_800 + phase))) + more(dice, times)
    )


def now_and_then(seconds: float, more: Delays, phase: int = 0) -> Delays:
    """Trail in every other ten minutes: rows overtake each other when it ends."""
    return lambda dice, times: seconds * ((times // 600 + phase) % 2) + more(dice, times)


SKEWED: Inputs = {
    "left 50 s behind, right heavier": (behind(50, steady), heavier),
    "left 2 min behind, right heavier": (behind(120, steady), heavier),
    "left heavier, right 50 s behind": (heavier, behind(50, steady)),
}
ALTERNATING: Inputs = {
    "left swings by 50 s, right heavy": (swinging(50, steady), heavy),
    "both swing by 50 s in turns, right heavy": (swinging(50, steady), swinging(50, heavy, 0.5)),
    "both swing by 90 s in turns, right flushed": (swinging(90, steady), swinging(90, flushed, 0.5)),
    "left now and then 50 s behind, right heavy": (now_and_then(50, steady), heavy),
}
OTHERS: Inputs = {
    "left 50 s behind, right heavy": (behind(50, steady), heavy),
    "left 10 min behind, right heavy": (behind(600, steady), heavy),
    "both now and then 50 s behind, in turns": (now_and_then(50, steady), now_and_then(50, heavy, 1)),
    "both heavy": (heavy, heavy),
}


@dataclass(frozen=True)
class Outcome:
    """How bounds did in the hour that they were not chosen on."""

    bounds_ms: tuple[int, ...]
    pairs: float
    """Share of the pairs that came out."""
    state: float
    """Mean rows in the state."""


def hours(delays: tuple[Delays, Delays]) -> tuple[JoinedStreams, JoinedStreams]:
    """Return two hours of an input. Row i of one side is the partner of row i of the other."""
    dice = np.random.default_rng(20_260_101)
    left = np.sort(dice.uniform(0, HOUR_S, ROWS))
    found = []
    for _ in range(2):
        times = (left, left + dice.uniform(-4, 6, ROWS))
        arrivals = [time + delay(dice, time) for time, delay in zip(times, delays, strict=True)]
        found.append(
            JoinedStreams([micros(each) for each in times], [micros(each) // TRIGGER_US for each in arrivals])
        )
    return found[0], found[1]


def micros(seconds: NDArray[np.float64]) -> Int64s:
    # An hour later, so that nothing is before the epoch.
    result: Int64s = ((seconds + HOUR_S) * SECOND_US).astype(np.int64)
    return result


def by_own_needs(streams: JoinedStreams) -> tuple[int, ...]:
    """Return the bound of each side against its own base, each with half of the error budget."""
    needs = streams.needs()
    target = (1_000_000 + TARGET_PPM) / 2_000_000
    bounds = []
    for side in range(len(needs.sides)):
        order = np.argsort(needs.needs_ms[:, side])
        rank = certified_rank(int(needs.rows_by_side[side]), target, CONFIDENCE_PPM / 1_000_000)
        at = np.searchsorted(np.cumsum(needs.rows[order, side]), rank or 0)
        bounds.append(max(int(needs.needs_ms[order[at], side]), 0))
    return tuple(bounds)


def outcome(streams: JoinedStreams, bounds_ms: tuple[int, ...]) -> Outcome:
    replayed = streams.replay(bounds_ms, RETENTION_US)
    first = int(min(batch.min() for batch in streams.batches))
    last = int(min(batch.max() for batch in streams.batches))
    quarter = (last - first) // 4
    admitted = [~late for late in streams.late_rows(bounds_ms)]
    return Outcome(
        bounds_ms,
        float((admitted[0] & admitted[1]).mean()),
        float(replayed.state_rows[first + quarter : last - quarter].mean()),
    )


def test_joint_bounds_beside_one_common_bound_and_each_side_by_its_own_needs() -> None:
    heads = ("bounds, s", "pairs", "common, s", "state/common", "own, s", "pairs", "state/own", "chosen in")
    print(f"\n{'input':43}", "".join(f"{head:>14}" for head in heads))
    for kind, inputs in (("skewed", SKEWED), ("alternating", ALTERNATING), ("other", OTHERS)):
        for name, delays in inputs.items():
            learned, judged = hours(delays)
            began = time.process_time()
            chosen = choose_joint_bounds(learned.needs(), TARGET_PPM, CONFIDENCE_PPM)
            took_s = time.process_time() - began
            assert chosen is not None
            joint = outcome(judged, chosen.bounds_ms)
            common = outcome(judged, (chosen.common_ms,) * 2)
            own = outcome(judged, by_own_needs(learned))
            figures = (
                seconds(joint.bounds_ms),
                f"{joint.pairs:.2%}",
                f"{chosen.common_ms / 1e3:.1f}",
                f"{joint.state / common.state:.2f}",
                seconds(own.bounds_ms),
                f"{own.pairs:.2%}",
                f"{joint.state / own.state:.2f}",
                f"{took_s:.2f} s",
            )
            print(f"{name:43}", "".join(f"{figure:>14}" for figure in figures))
            assert joint.pairs >= TARGET_PPM / 1e6
            assert joint.state <= common.state
            assert kind != "skewed" or joint.state <= 0.7 * own.state
            assert kind != "alternating" or joint.state < common.state


def seconds(bounds_ms: tuple[int, ...]) -> str:
    return " / ".join(f"{bound_ms / 1e3:.1f}" for bound_ms in bounds_ms)
