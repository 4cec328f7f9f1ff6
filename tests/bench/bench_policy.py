"""What the table of ``make bench-policy`` does not show: windows that must each be good.

Windows are those of ``support.synthetic``, every kind with the seeds 11 and 12. Everything is printed before anything
is asserted.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from typing import TypeVar

import numpy as np
import pytest

from tidemark.models.backtest.arrivals import Arrivals
from tidemark.models.backtest.arrivals_builder import ArrivalsBuilder
from tidemark.models.backtest.catalogue import make_policy
from tidemark.models.backtest.run import meets, run, score
from tidemark.models.backtest.yardstick import clairvoyant, fixed_hindsight
from tidemark.models.base.operators import TimeWindow
from tidemark.models.live.policy import Setup

from support.policy_table import geometric, grouped, ratio
from support.streams import SECOND
from support.synthetic import KINDS, Trace, synthetic

pytestmark = [pytest.mark.bench, pytest.mark.timeout(7200)]

PROCESSES = 2
WINDOW_US = 10 * SECOND
TRIGGER_US = SECOND
TARGET_PPM = 990_000
TIDEMARK = "tidemark"

GOOD_WINDOWS_SEEDS = (11, 12)

Asked = TypeVar("Asked")
Answer = TypeVar("Answer")


@dataclass(frozen=True)
class Found:
    """What Tidemark did on one trace."""

    kind: str
    seed: int
    met: bool
    windows: float
    """Share of the windows that reached the target."""
    latency_us: float
    hindsight_us: float
    """Latency of the best constant bound in hindsight."""
    clairvoyant_us: float


@pytest.fixture(scope="module")
def pool(pytestconfig: pytest.Config) -> Iterator[Executor]:
    """Processes that share no thread and no lock with pytest's; they know this file by its path from the root."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "path", [str(pytestconfig.rootpath), *sys.path])
        with ProcessPoolExecutor(PROCESSES, mp_context=get_context("spawn")) as executor:
            yield executor


def test_timeslices(pool: Executor, capsys: pytest.CaptureFixture[str]) -> None:
    """99 % of the windows, the first ones too, must have 99 % of their rows each."""
    traces = [(kind, seed) for kind in KINDS for seed in GOOD_WINDOWS_SEEDS]
    with capsys.disabled():
        print(f"\ntimeslices, live, window {WINDOW_US // SECOND} s, trigger {TRIGGER_US // SECOND} s")
        found = list(_mapped(pool, good_windows, traces))
        for kind, runs in grouped(found, lambda each: each.kind).items():
            print(
                f"  {kind:12} met {sum(each.met for each in runs)} of {len(runs)}"
                f"  windows {100 * min(each.windows for each in runs):6.2f} %"
                f"  latency {np.mean([each.latency_us for each in runs]) / SECOND:7.3f} s"
                f"  x {geometric(ratio(each.latency_us, each.hindsight_us) for each in runs):6.3f} of the best constant"
                f"  x {geometric(ratio(each.latency_us, each.clairvoyant_us) for each in runs):6.3f} of clairvoyant"
            )
    missed = [f"{each.kind}, seed {each.seed}" for each in found if not each.met]
    assert not missed, f"tidemark missed the SLO: {_listed(missed)}"
    assert all(each.latency_us >= each.clairvoyant_us for each in found)


# -- what the processes do -----------------------------------------------------------------------------------


def good_windows(trace: tuple[str, int]) -> Found:
    kind, seed = trace
    setup = Setup(
        operator=TimeWindow(WINDOW_US, WINDOW_US),
        trigger_us=TRIGGER_US,
        target_ppm=TARGET_PPM,
        objective="timeslices",
    )
    arrivals = _counted(synthetic(kind, seed), setup)
    hindsight_us = fixed_hindsight(arrivals, setup)[1].latency_mean_us
    clairvoyant_us = clairvoyant(arrivals, setup)
    result = score(arrivals, setup, run(arrivals, setup, make_policy(TIDEMARK, setup)))
    assert result.latency_mean_us is not None, f"{kind}, seed {seed}: no window is scored"
    assert hindsight_us is not None
    assert clairvoyant_us is not None
    assert result.windows_meeting_target is not None
    return Found(
        kind,
        seed,
        meets(setup, result),
        result.windows_meeting_target,
        result.latency_mean_us,
        hindsight_us,
        clairvoyant_us,
    )


def _counted(trace: Trace, setup: Setup) -> Arrivals:
    builder = ArrivalsBuilder(setup)
    builder.add(trace.event_time_us, trace.arrival_time_us, trace.partition, int(trace.partition.max()) + 1)
    return builder.build()


def _mapped(pool: Executor, function: Callable[[Asked], Answer], asked: Sequence[Asked]) -> Iterator[Answer]:
    """Yield the answers in order, each when it is there."""
    for done, answer in enumerate(pool.map(function, asked), 1):
        print(f"  {done} of {len(asked)} traces", end="\r", file=sys.stderr, flush=True)
        yield answer


# -- what is printed -----------------------------------------------------------------------------------------


def _listed(items: Iterable[object]) -> str:
    return ", ".join(map(str, items))
