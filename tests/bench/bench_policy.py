"""What the table of ``make bench-policy`` does not show: windows that must each be good, a step and stalls row by row.

Windows are those of ``support.synthetic``, every kind with the seeds 11 and 12. The literature's step and stalls have
its seed 0 and the seeds 6 to 9; 0 to 5 tuned the step. Everything is printed before anything is asserted.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from typing import TypeVar

import numpy as np
import pytest

from tidemark.models.backtest.arrivals import Arrivals
from tidemark.models.backtest.arrivals_builder import ArrivalsBuilder
from tidemark.models.backtest.run import meets, run, score
from tidemark.models.backtest.yardstick import clairvoyant, fixed_hindsight
from tidemark.models.base.operators import Int64s, RowLevel, TimeWindow
from tidemark.models.live.policy import Scope, Setup

from bench.policies.named import make_policy
from support.policy_table import geometric, grouped, ratio
from support.streams import SECOND
from support.synthetic import KINDS, START_US, Trace, s3_stalls, s4_step, synthetic

pytestmark = [pytest.mark.bench, pytest.mark.timeout(7200)]

PROCESSES = 2
WINDOW_US = 10 * SECOND
TRIGGER_US = SECOND
TARGET_PPM = 990_000
TIDEMARK = "tidemark"

GOOD_WINDOWS_SEEDS = (11, 12)
ROWS_SEEDS = (0, 6, 7, 8, 9)
ROWS_POLICIES = (TIDEMARK, "aci", "ring:target", "ring:certified")
SCOPES: tuple[Scope, ...] = ("partition", "global")
BUCKET_US = 10 * SECOND
STEP_BUCKET = 360
"""The first bucket of event time after the step of S4, at 3,600 s."""

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


@dataclass(frozen=True)
class Rows:
    """What a policy did where each row is judged by its own time."""

    policy: str
    completeness: float
    worst_minute: float
    lag_mean_s: float
    """Base less watermark after each tick."""
    lag_median_s: float
    lag_p99_s: float
    back_s: float
    """Seconds after the step until three buckets in a row lose at most 1.5 %."""
    excess: float
    """Late rows beyond 1 % in the first 120 s of event time after the step."""


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


def test_step(pool: Executor, capsys: pytest.CaptureFixture[str]) -> None:
    """Literature S4: delays five times as long from 3,600 s on. Printed; the best known is ACI's 10 s and 35 rows."""
    with capsys.disabled():
        began = time.monotonic()
        runs = list(_mapped(pool, after_step, ROWS_SEEDS))
        print(
            f"\nstep, per-row, window 0, 99 %, seeds {_listed(ROWS_SEEDS)} ({time.monotonic() - began:.0f} s)"
        )
        for policy, of_seeds in _by_policy(runs).items():
            print(
                f"  {policy:14} back after {_listed(f'{rows.back_s:.0f}' for rows in of_seeds)} s"
                f"  excess loss {_listed(f'{rows.excess:.0f}' for rows in of_seeds)} rows"
                f"  completeness {_range([100 * rows.completeness for rows in of_seeds])} %"
                f"  mean lag {_range([rows.lag_mean_s for rows in of_seeds])} s"
            )


def test_stall(pool: Executor, capsys: pytest.CaptureFixture[str]) -> None:
    """Literature S3: 12 stalls of 10 to 40 s in 30 % of the traffic. Printed.

    Wanted with a watermark a partition: completeness 99 %, worst minute 98.5 %, median lag 2.1 s.
    """
    with capsys.disabled():
        began = time.monotonic()
        runs = list(_mapped(pool, through_stalls, ROWS_SEEDS))
        print(
            f"\nstalls, per-row, window 0, 99 %, seeds {_listed(ROWS_SEEDS)}: lowest to highest; lag is base less "
            f"watermark ({time.monotonic() - began:.0f} s)"
        )
        for scope in SCOPES:
            print(f" scope {scope}")
            for policy, of_seeds in _by_policy([of_scopes[scope] for of_scopes in runs]).items():
                print(
                    f"  {policy:14} completeness {_range([100 * rows.completeness for rows in of_seeds])} %"
                    f"  worst minute {_range([100 * rows.worst_minute for rows in of_seeds])} %"
                    f"  median lag {_range([rows.lag_median_s for rows in of_seeds])} s"
                    f"  p99 lag {_range([rows.lag_p99_s for rows in of_seeds])} s"
                )


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


def after_step(seed: int) -> list[Rows]:
    return _judged_rows(s4_step(seed), "global")


def through_stalls(seed: int) -> dict[Scope, list[Rows]]:
    trace = s3_stalls(seed)
    return {scope: _judged_rows(trace, scope) for scope in SCOPES}


def _judged_rows(trace: Trace, scope: Scope) -> list[Rows]:
    setup = Setup(
        operator=RowLevel(), trigger_us=TRIGGER_US, target_ppm=TARGET_PPM, engine="per-row", scope=scope
    )
    arrivals = _counted(trace, setup)
    bucket = (arrivals.keys_us - START_US) // BUCKET_US
    found = []
    for policy in ROWS_POLICIES:
        done = run(arrivals, setup, make_policy(policy, setup))
        result = score(arrivals, setup, done)
        back_s, excess = _recovery(bucket, done.rows_by_key, done.late_by_key)
        found.append(
            Rows(
                policy,
                result.completeness,
                result.worst_minute,
                float(done.base_lag_us.mean()) / SECOND,
                float(np.median(done.base_lag_us)) / SECOND,
                float(np.quantile(done.base_lag_us, 0.99)) / SECOND,
                back_s,
                excess,
            )
        )
    return found


def _recovery(bucket: Int64s, rows_by_key: Int64s, late_by_key: Int64s) -> tuple[float, float]:
    """Return the seconds until three buckets in a row are good again, and the late rows beyond 1 % in 120 s."""
    rows = np.bincount(bucket, weights=rows_by_key)[STEP_BUCKET:]
    late = np.bincount(bucket, weights=late_by_key)[STEP_BUCKET:]
    good = late <= 0.015 * rows
    three = np.flatnonzero(good[:-2] & good[1:-1] & good[2:])
    back_s = float(three[0]) * BUCKET_US / SECOND if len(three) else float("inf")
    first = 120 * SECOND // BUCKET_US
    return back_s, float(late[:first].sum() - 0.01 * rows[:first].sum())


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


def _by_policy(runs: list[list[Rows]]) -> dict[str, list[Rows]]:
    return grouped([rows for of_seed in runs for rows in of_seed], lambda rows: rows.policy)


def _range(values: list[float]) -> str:
    return f"{min(values):.2f} to {max(values):.2f}"


def _listed(items: Iterable[object]) -> str:
    return ", ".join(map(str, items))
