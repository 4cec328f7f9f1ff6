"""How well the policies do: against hindsight and the clairvoyant, after a step and through stalls.

The traces are those of ``support.synthetic``, every kind with the seeds 11 to 15; seeds 1 to 4 were used to tune
``tidemark`` and are left out, and one constant was chosen on the step's seeds 13 and 15. The literature's step and
stalls have its seed 0 and the seeds 6 to 9; 0 to 5 tuned the step.

Real traces take part where they are named, each as ``path:window:trigger``, separated by commas:
``TIDEMARK_TRACES=/traces/a.parquet:60s:5s,/traces/b.parquet:7d:1d make bench``. A file has the format that ``tidemark
trace`` writes. Real traces are printed apart and in the summary, and the SLO is not asserted there.

Latencies are means over windows, then over seeds. Ratios are geometric means; a ratio is 1 where both sides are 0.
Everything is printed before anything is asserted.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from dataclasses import dataclass, replace
from itertools import groupby
from multiprocessing import get_context
from pathlib import Path
from typing import TypeVar

import numpy as np
import pytest

from tidemark.controller.tools.traces.format import read_trace
from tidemark.models.backtest.arrivals import Arrivals
from tidemark.models.backtest.arrivals_builder import ArrivalsBuilder
from tidemark.models.backtest.catalogue import FIXED_HINDSIGHT, policy_names
from tidemark.models.backtest.run import meets, run, score
from tidemark.models.backtest.yardstick import clairvoyant, fixed_hindsight
from tidemark.models.base.duration import parse_duration
from tidemark.models.base.operators import Int64s, RowLevel, TimeWindow
from tidemark.models.live.policy import Scope, Setup
from tidemark.models.specs.slo import Objective

from bench.policies.named import LITERATURE, make_policy, policy_for
from support.streams import SECOND
from support.synthetic import KINDS, RATE, START_US, Trace, s3_stalls, s4_step, synthetic

pytestmark = [pytest.mark.bench, pytest.mark.timeout(7200)]

PROCESSES = 2
SEEDS = (11, 12, 13, 14, 15)
SECONDS = 7_200
WINDOW_US = 10 * SECOND
TRIGGER_US = SECOND
TARGETS = (990_000, 999_000)
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
Item = TypeVar("Item")
Key = TypeVar("Key")


@dataclass(frozen=True)
class Source:
    """Where a trace comes from, and what is asked of it."""

    name: str
    window_us: int = WINDOW_US
    trigger_us: int = TRIGGER_US
    seed: int = 0
    path: Path | None = None
    """A recorded trace; else ``name`` is a synthetic kind."""

    @property
    def label(self) -> str:
        return f"{self.name}, seed {self.seed}" if self.path is None else self.name

    def arrivals(self, setup: Setup) -> Arrivals:
        if self.path is None:
            return _counted(synthetic(self.name, self.seed, rate=RATE, seconds=SECONDS), setup)
        trace = read_trace(self.path)
        return _counted(Trace(trace.event_time_us, trace.arrival_time_us, trace.partition), setup)


@dataclass(frozen=True)
class Job:
    """What one process does at a time."""

    source: Source
    objective: Objective
    targets_ppm: tuple[int, ...]
    policies: tuple[str, ...]


@dataclass(frozen=True)
class Found:
    """What a policy did on one trace at one target."""

    source: Source
    target_ppm: int
    policy: str
    met: bool
    completeness: float
    windows: float
    latency_us: float
    hindsight_us: float
    clairvoyant_us: float

    @property
    def to_hindsight(self) -> float:
        return _ratio(self.latency_us, self.hindsight_us)

    @property
    def to_clairvoyant(self) -> float:
        return _ratio(self.latency_us, self.clairvoyant_us)


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


def test_against_hindsight(pool: Executor, capsys: pytest.CaptureFixture[str]) -> None:
    """No policy that meets the SLO is faster than the clairvoyant, and tidemark meets it on every synthetic trace."""
    jobs = _jobs(SEEDS, "occurrences", TARGETS, (*policy_names(), *LITERATURE))
    with capsys.disabled():
        found = _found(pool, jobs, "occurrences")
    _assert_exact(found)


def test_timeslices(pool: Executor, capsys: pytest.CaptureFixture[str]) -> None:
    """The same where 99 % of the windows, the first ones too, must have 99 % of their rows each."""
    jobs = _jobs(GOOD_WINDOWS_SEEDS, "timeslices", TARGETS[:1], (TIDEMARK, FIXED_HINDSIGHT))
    with capsys.disabled():
        found = _found(pool, jobs, "timeslices")
    _assert_exact(found)


def test_step(pool: Executor, capsys: pytest.CaptureFixture[str]) -> None:
    """Literature S4: delays five times as long from 3,600 s on. Printed; the best known is ACI's 10 s and 35 rows."""
    with capsys.disabled():
        began = time.monotonic()
        runs = list(_mapped(pool, after_step, ROWS_SEEDS))
        print(
            f"\nstep, per-row, window 0, 99 %, seeds {_listed(ROWS_SEEDS)} ({time.monotonic() - began:.0f} s)"
        )
        for policy, of_seeds in _by_policy(runs):
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
            for policy, of_seeds in _by_policy([of_scopes[scope] for of_scopes in runs]):
                print(
                    f"  {policy:14} completeness {_range([100 * rows.completeness for rows in of_seeds])} %"
                    f"  worst minute {_range([100 * rows.worst_minute for rows in of_seeds])} %"
                    f"  median lag {_range([rows.lag_median_s for rows in of_seeds])} s"
                    f"  p99 lag {_range([rows.lag_p99_s for rows in of_seeds])} s"
                )


# -- what the processes do -----------------------------------------------------------------------------------


def judged(job: Job) -> list[Found]:
    """Run every policy of the job at every target; the arrivals are counted once."""
    source = job.source
    asked = Setup(
        operator=TimeWindow(source.window_us, source.window_us),
        trigger_us=source.trigger_us,
        target_ppm=job.targets_ppm[0],
        objective=job.objective,
    )
    arrivals = source.arrivals(asked)
    found = []
    for target_ppm in job.targets_ppm:
        setup = replace(asked, target_ppm=target_ppm)
        _, hindsight = fixed_hindsight(arrivals, setup)
        min_us = clairvoyant(arrivals, setup)
        for policy in job.policies:
            if policy == FIXED_HINDSIGHT:
                result = hindsight
            else:
                result = score(arrivals, setup, run(arrivals, setup, policy_for(policy, arrivals, setup)))
            assert result.latency_mean_us is not None, f"{source.label}: no window is scored"
            assert hindsight.latency_mean_us is not None
            assert min_us is not None
            assert result.windows_meeting_target is not None
            found.append(
                Found(
                    source,
                    target_ppm,
                    policy,
                    meets(setup, result),
                    result.completeness,
                    result.windows_meeting_target,
                    result.latency_mean_us,
                    hindsight.latency_mean_us,
                    min_us,
                )
            )
    return found


def after_step(seed: int) -> list[Rows]:
    return _judged_rows(s4_step(seed), "global")


def through_stalls(seed: int) -> dict[Scope, list[Rows]]:
    trace = s3_stalls(seed)
    return {scope: _judged_rows(trace, scope) for scope in SCOPES}


def _judged_rows(trace: Trace, scope: Scope) -> list[Rows]:
    setup = Setup(
        operator=RowLevel(), trigger_us=TRIGGER_US, target_ppm=TARGETS[0], engine="per-row", scope=scope
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


# -- what is asked -------------------------------------------------------------------------------------------


def _jobs(
    seeds: Sequence[int], objective: Objective, targets_ppm: tuple[int, ...], policies: tuple[str, ...]
) -> list[Job]:
    sources = [Source(kind, seed=seed) for kind in KINDS for seed in seeds]
    return [Job(source, objective, targets_ppm, policies) for source in [*_recorded(), *sources]]


def _recorded() -> list[Source]:
    """Return the traces that ``TIDEMARK_TRACES`` names; they are the longest, so they come first."""
    named = [item.strip() for item in os.environ.get("TIDEMARK_TRACES", "").split(",") if item.strip()]
    sources = []
    for item in named:
        path, window, trigger = item.rsplit(":", 2)
        sources.append(
            Source(Path(path).stem, parse_duration(window), parse_duration(trigger), path=Path(path))
        )
    return sources


def _mapped(pool: Executor, function: Callable[[Asked], Answer], asked: Sequence[Asked]) -> Iterator[Answer]:
    """Yield the answers in order, each when it is there."""
    for done, answer in enumerate(pool.map(function, asked), 1):
        print(f"  {done} of {len(asked)} traces", end="\r", file=sys.stderr, flush=True)
        yield answer


# -- what is printed -----------------------------------------------------------------------------------------


def _found(pool: Executor, jobs: list[Job], objective: Objective) -> list[Found]:
    """Run the jobs and print everything, each table as soon as its traces are done; return what was found."""
    began = time.monotonic()
    print(
        f"\n{objective}, live; synthetic: {RATE} rows/s for {SECONDS:,} s, window {WINDOW_US // SECOND} s, trigger "
        f"{TRIGGER_US // SECOND} s"
    )
    found: list[Found] = []
    for _, of_kind in groupby(_mapped(pool, judged, jobs), key=lambda of_job: of_job[0].source.name):
        runs = [each for of_job in of_kind for each in of_job]
        _print_tables(runs, objective)
        found += runs
    synthetic_found = [each for each in found if each.source.path is None]
    recorded = [each for each in found if each.source.path is not None]
    print(f"\n{objective}: summary ({time.monotonic() - began:.0f} s)")
    _print_means("synthetic, future-dated left out", [each for each in synthetic_found if _counts(each)])
    if recorded:
        _print_means("real", recorded)
        _print_means("both, future-dated left out", [each for each in found if _counts(each)])
    _print_anchors([each for each in (*synthetic_found, *recorded) if each.policy == TIDEMARK])
    _print_faster_baselines([*synthetic_found, *recorded])
    return found


def _print_tables(found: list[Found], objective: Objective) -> None:
    for (name, target_ppm), of_kind in _grouped(found, lambda each: (each.source.name, each.target_ppm)):
        clairvoyant_s = np.mean([each.clairvoyant_us for each in of_kind]) / SECOND
        kind = "synthetic" if of_kind[0].source.path is None else "real trace"
        print(f" {kind} {name} at {_percent(target_ppm)}, clairvoyant {clairvoyant_s:.3f} s")
        for policy, runs in _grouped(of_kind, lambda each: each.policy):
            kept = (
                f"completeness {100 * min(each.completeness for each in runs):8.4f} %"
                if objective == "occurrences"
                else f"windows {100 * min(each.windows for each in runs):6.2f} %"
            )
            print(
                f"  {policy:15} met {sum(each.met for each in runs)} of {len(runs)}  {kept}"
                f"  latency {_mean_latency_s(runs):9.3f} s  {_ratios(runs)}",
                flush=True,
            )


def _print_means(what: str, found: list[Found]) -> None:
    print(f" {what}")
    targets = sorted({each.target_ppm for each in found})
    for chosen in [[target] for target in targets] + ([targets] if len(targets) > 1 else []):
        at_these = [each for each in found if each.target_ppm in chosen]
        for policy, runs in _grouped(at_these, lambda each: each.policy):
            print(
                f"  {' and '.join(map(_percent, chosen)):15} {policy:15}"
                f" met {sum(each.met for each in runs):2} of {len(runs)}  {_ratios(runs)}"
            )


def _print_anchors(found: list[Found]) -> None:
    """Print what tidemark is held against: bursts, and where even the clairvoyant gains little."""
    for target_ppm, runs in _grouped(
        [each for each in found if each.source.name == "bursts"], lambda each: each.target_ppm
    ):
        print(
            f" bursts at {_percent(target_ppm)}: x {_geometric(each.to_clairvoyant for each in runs):.3f} of "
            f"clairvoyant, by seed {_listed(f'{each.to_clairvoyant:.2f}' for each in runs)}"
        )
    tight = [each for each in found if _ratio(each.clairvoyant_us, each.hindsight_us) > 0.9]
    print(f" clairvoyant above 0.9 of fixed-hindsight: {len(tight)} of {len(found)} runs")
    for each in sorted(tight, key=lambda each: -each.to_hindsight)[:5]:
        print(
            f"  {each.source.label} at {_percent(each.target_ppm)}: x {each.to_hindsight:.3f} of fixed-hindsight"
        )


def _print_faster_baselines(found: list[Found]) -> None:
    """Name the fastest causal baseline of those that meet the SLO on every seed, where it is faster than tidemark."""
    causal = [each for each in found if each.policy != FIXED_HINDSIGHT]
    if {each.policy for each in causal} == {TIDEMARK}:
        return
    print(" causal baselines that meet the SLO on all seeds of a kind with a smaller mean latency")
    for (name, target_ppm), runs in _grouped(causal, lambda each: (each.source.name, each.target_ppm)):
        by_policy = dict(_grouped(runs, lambda each: each.policy))
        own = _mean_latency_s(by_policy.pop(TIDEMARK))
        meeting = {
            policy: _mean_latency_s(of_seeds)
            for policy, of_seeds in by_policy.items()
            if all(each.met for each in of_seeds)
        }
        faster = sorted((latency, policy) for policy, latency in meeting.items() if latency < own)
        body = _listed(f"{policy} {latency:.3f} s" for latency, policy in faster)
        print(
            f"  {name:20} {_percent(target_ppm):7} tidemark {own:.3f} s; of the {len(meeting)} that meet it: "
            f"{body or 'none'}"
        )


def _assert_exact(found: list[Found]) -> None:
    impossible = [each for each in found if each.met and each.latency_us < each.clairvoyant_us]
    assert not impossible, f"below the clairvoyant: {impossible}"
    missed = [
        f"{each.source.label} at {_percent(each.target_ppm)}"
        for each in found
        if each.policy == TIDEMARK and each.source.path is None and not each.met
    ]
    assert not missed, f"tidemark missed the SLO: {_listed(missed)}"


def _grouped(items: Iterable[Item], key: Callable[[Item], Key]) -> list[tuple[Key, list[Item]]]:
    """Return the items by key, keys in order of appearance."""
    groups: dict[Key, list[Item]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return list(groups.items())


def _by_policy(runs: list[list[Rows]]) -> list[tuple[str, list[Rows]]]:
    return _grouped([rows for of_seed in runs for rows in of_seed], lambda rows: rows.policy)


def _counts(found: Found) -> bool:
    """A bound in hindsight is worthless where a few rows are dated a day ahead, so that any policy shines."""
    return found.source.name != "future"


def _ratio(value: float, yardstick: float) -> float:
    if yardstick:
        return value / yardstick
    return float("inf") if value else 1.0


def _geometric(ratios: Iterable[float]) -> float:
    with np.errstate(divide="ignore"):  # of nothing against something the ratio is 0
        return float(np.exp(np.mean(np.log(list(ratios)))))


def _ratios(runs: list[Found]) -> str:
    return (
        f"x {_geometric(each.to_hindsight for each in runs):6.3f} of fixed-hindsight"
        f"  x {_geometric(each.to_clairvoyant for each in runs):6.3f} of clairvoyant"
    )


def _mean_latency_s(runs: list[Found]) -> float:
    return float(np.mean([each.latency_us for each in runs])) / SECOND


def _percent(target_ppm: int) -> str:
    return f"{target_ppm / 10_000:g} %"


def _range(values: list[float]) -> str:
    return f"{min(values):.2f} to {max(values):.2f}"


def _listed(items: Iterable[object]) -> str:
    return ", ".join(map(str, items))
