"""The table of the live policy beside its yardsticks: ``make bench-policy``.

Kinds, seeds, triggers and targets, each with Tidemark, Flink fitted to the first quarter, SAOCP, a ring and the highest
need of a minute; latencies as multiples of the best constant bound in hindsight, of Flink with its best bound and idle
timeout in hindsight at the same tick, and of the clairvoyant. Seeds from 101 on: nothing was tuned on them.

With ``--minutes`` streams are that long in place of two hours: what a policy does before it knows much. With
``--rate`` they have so many rows a second, with ``--pack`` so many of them at once in one partition.

With ``--restart`` the bound moves by restarts that cost their time: Tidemark is then the recommendation, beside what it
does in Live on the same trace.

What is done is kept under ``build/bench-policy``, by the code that did it, so a run that was stopped goes on where it
was, and the table there is always that of all that is done. Real traces take part where ``TIDEMARK_TRACES`` names them,
as in ``tests/bench/bench_policy.py``.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import os
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass, replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from tidemark.controller.traces.format import read_trace
from tidemark.models.backtest.arrivals_builder import ArrivalsBuilder
from tidemark.models.backtest.flink_yardstick import flink_hindsight
from tidemark.models.backtest.named import policy_for
from tidemark.models.backtest.run import run
from tidemark.models.backtest.score import meets, score
from tidemark.models.backtest.yardstick import clairvoyant, fixed_hindsight
from tidemark.models.duration import format_duration, parse_duration
from tidemark.models.operators import TimeWindow
from tidemark.models.policies.setup import BacktestMode, Setup

from support.synthetic import KINDS, RATE, Trace, synthetic
from support.tree import ROOT

PROCESSES = 2
POLICIES = ("tidemark", "flink-quarter", "saocp", "ring:target", "max60")
LIVE = "tidemark live"
RESTART_POLICIES = ("tidemark", LIVE, "flink-quarter", "ring:target", "max60")
"""Policies where a bound takes a restart; ``saocp`` changes it in every batch."""
TARGETS_PPM = (990_000, 999_000)
SEEDS = range(101, 121)
TRIGGERS_US = (1_000_000, 200_000)
WINDOW_US = 10_000_000
LEFT_OUT = ("future",)
"""A bound in hindsight is worthless where a few rows are dated a day ahead."""
FOLDER = ROOT / "build" / "bench-policy"


@dataclass(frozen=True)
class Cell:
    """One trace at one trigger."""

    name: str
    seed: int
    window_us: int
    trigger_us: int
    seconds: int
    path: str = ""
    """A recorded trace; else ``name`` is a synthetic kind."""
    mode: BacktestMode = "live"
    """How a decision reaches the job."""
    rate: int = RATE
    """Rows a second of a synthetic stream."""
    pack: int = 1
    """How many of them happen at once in one partition."""

    @property
    def policies(self) -> Sequence[str]:
        """What is judged, in the order in which it is shown."""
        return POLICIES if self.mode == "live" else RESTART_POLICIES

    def trace(self) -> Trace:
        if not self.path:
            return synthetic(self.name, self.seed, seconds=self.seconds, rate=self.rate, pack=self.pack)
        found = read_trace(Path(self.path))
        return Trace(found.event_time_us, found.arrival_time_us, found.partition)


def cells(
    *,
    quick: bool,
    minutes: int | None = None,
    mode: BacktestMode = "live",
    rate: int = RATE,
    pack: int = 1,
) -> list[Cell]:
    """Return what is asked, in the order in which it is done: seed by seed, so that the table fills evenly."""
    seeds = SEEDS[:1] if quick else SEEDS
    triggers = TRIGGERS_US[:1] if quick else TRIGGERS_US
    seconds = 60 * (minutes or (30 if quick else 120))
    kinds = [kind for kind in KINDS if kind not in LEFT_OUT]
    drawn = [
        Cell(kind, seed, WINDOW_US, trigger_us, seconds, rate=rate, pack=pack)
        for seed in seeds
        for trigger_us in triggers
        for kind in kinds
    ]
    return [replace(cell, mode=mode) for cell in (*recorded(os.environ.get("TIDEMARK_TRACES", "")), *drawn)]


def recorded(named: str) -> list[Cell]:
    """Return the traces that are named as ``path:window:trigger``, separated by commas."""
    found = []
    for item in filter(None, (item.strip() for item in named.split(","))):
        path, window, trigger = item.rsplit(":", 2)
        found.append(
            Cell(Path(path).stem, 0, parse_duration(window), parse_duration(trigger), 0, str(Path(path)))
        )
    return found


def judged(cell: Cell) -> list[dict[str, Any]]:
    """Return what every policy does on one trace at every target."""
    asked = Setup(
        operator=TimeWindow(cell.window_us, cell.window_us),
        trigger_us=cell.trigger_us,
        target_ppm=TARGETS_PPM[0],
    )
    trace = cell.trace()
    builder = ArrivalsBuilder(asked)
    builder.add(*trace, int(trace.partition.max()) + 1)
    arrivals = builder.build()
    found = []
    for target_ppm in TARGETS_PPM:
        setup = replace(asked, target_ppm=target_ppm, mode=cell.mode)
        yardsticks = {
            "hindsight": fixed_hindsight(arrivals, setup)[1].latency_mean_us,
            "flink": flink_hindsight(arrivals, setup)[1].latency_mean_us,
            "clairvoyant": clairvoyant(arrivals, setup),
        }
        for policy in cell.policies:
            name, its = ("tidemark", replace(setup, mode="live")) if policy == LIVE else (policy, setup)
            result = score(arrivals, its, run(arrivals, its, policy_for(name, arrivals, its)))
            found.append(
                {
                    **asdict(cell),
                    "target_ppm": target_ppm,
                    "policy": policy,
                    "met": meets(setup, result),
                    "completeness": result.completeness,
                    "latency_us": result.latency_mean_us,
                    **{f"{name}_us": latency_us for name, latency_us in yardsticks.items()},
                }
            )
    return found


def table(records: Sequence[dict[str, Any]]) -> str:
    """Return the table of what is done: by kind, trigger and target, then over all of them."""
    lines = [
        "| trace | trigger | target | policy | met | latency | x hindsight | x Flink | x clairvoyant | worst |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    groups: dict[tuple[str, int, int, str], list[dict[str, Any]]] = {}
    for one in records:
        groups.setdefault((one["name"], one["trigger_us"], one["target_ppm"], one["policy"]), []).append(one)
    policies = list(dict.fromkeys(one["policy"] for one in records))
    order = {policy: number for number, policy in enumerate(policies)}
    for key in sorted(groups, key=lambda key: (key[0], -key[1], key[2], order[key[3]])):
        name, trigger_us, target_ppm, policy = key
        lines.append(
            _line(name, format_duration(trigger_us), f"{target_ppm / 10_000:g} %", policy, groups[key])
        )
    lines += [
        _line("all", "", "", policy, [one for one in records if one["policy"] == policy])
        for policy in policies
    ]
    return "\n".join(lines) + "\n"


def _line(name: str, trigger: str, target: str, policy: str, found: Sequence[dict[str, Any]]) -> str:
    met = sum(one["met"] for one in found)
    latency_s = sum(one["latency_us"] for one in found) / max(len(found), 1) / 1e6
    ratios = [
        f"{_geometric(_ratio(one['latency_us'], one[f'{yardstick}_us']) for one in found):.2f}"
        for yardstick in ("hindsight", "flink", "clairvoyant")
    ]
    worst = max(
        (_ratio(one["latency_us"], min(one["hindsight_us"], one["flink_us"])) for one in found), default=0
    )
    return (
        f"| {name} | {trigger} | {target} | {policy} | {met} of {len(found)} | {latency_s:.3g} s | "
        f"{' | '.join(ratios)} | {worst:.2f} |"
    )


def _ratio(latency_us: float, yardstick_us: float) -> float:
    if yardstick_us:
        return latency_us / yardstick_us
    return math.inf if latency_us else 1.0


def _geometric(ratios: Iterable[float]) -> float:
    logs = [math.log(max(ratio, 1e-9)) for ratio in ratios]
    return math.exp(sum(logs) / len(logs)) if logs else math.nan


def _code() -> str:
    """Return a name for the code whose results are kept: any change of the models may change them."""
    digest = hashlib.sha256()
    for path in sorted((ROOT / "models").rglob("*.py")):
        digest.update(path.read_bytes())
    digest.update((ROOT / "tests" / "support" / "synthetic.py").read_bytes())
    return digest.hexdigest()[:12]


def _read(path: Path) -> list[dict[str, Any]]:
    """Return what was done before; a last line that was cut off counts as not done."""
    records = []
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else []:
        try:
            records += json.loads(line)
        except ValueError:
            continue
    return records


def main(arguments: Sequence[str] | None = None) -> None:
    """Do what is not done yet, and print where the table is."""
    parser = argparse.ArgumentParser(prog="make bench-policy ARGS=", description=__doc__)
    parser.add_argument(
        "--quick", action="store_true", help="one seed, half an hour of each kind, one trigger"
    )
    parser.add_argument("--minutes", type=int, help="length of each synthetic stream; two hours by default")
    parser.add_argument("--rate", type=int, default=RATE, help="rows a second of each synthetic stream")
    parser.add_argument("--pack", type=int, default=1, help="rows that happen at once in one partition")
    parser.add_argument(
        "--restart", action="store_true", help="by restarts, which cost their time, beside Live"
    )
    parser.add_argument("--processes", type=int, default=PROCESSES)
    given = parser.parse_args(arguments)
    if given.minutes is not None and given.minutes < 1:
        parser.error(f"--minutes must be at least 1, not {given.minutes}")
    if not 1 <= given.pack <= given.rate:
        parser.error(f"--pack must be at least 1, and --rate no less, not {given.pack} and {given.rate}")
    FOLDER.mkdir(parents=True, exist_ok=True)
    mode: BacktestMode = "restart" if given.restart else "live"
    kept, shown = FOLDER / f"{_code()}.jsonl", FOLDER / f"{_code()}-{mode}.md"
    records = _read(kept)
    names = list(Cell.__dataclass_fields__)
    done = {tuple(one[name] for name in names) for one in records}
    wanted = cells(quick=given.quick, minutes=given.minutes, mode=mode, rate=given.rate, pack=given.pack)
    asked = {tuple(asdict(cell).values()) for cell in wanted}
    left = [cell for cell in wanted if tuple(asdict(cell).values()) not in done]
    records = [one for one in records if tuple(one[name] for name in names) in asked]
    print(
        f"{len(wanted) - len(left)} of {len(wanted)} traces are done; the table is {shown.relative_to(ROOT)}"
    )
    began = time.monotonic()
    with ProcessPoolExecutor(given.processes, mp_context=get_context("spawn")) as pool:
        running = {pool.submit(judged, cell): cell for cell in left}
        for number, future in enumerate(as_completed(running), 1):
            cell, found = running[future], future.result()
            # A line before it that was cut off must not run into it.
            with kept.open("a", encoding="utf-8") as out:
                out.write("\n" + json.dumps(found) + "\n")
            records += found
            shown.write_text(table(records), encoding="utf-8")
            missed = sum(not one["met"] for one in found if one["policy"] == "tidemark")
            print(
                f"{number} of {len(left)}: {cell.name}, seed {cell.seed}, {format_duration(cell.trigger_us)}; tidemark "
                f"missed {missed} of {len(TARGETS_PPM)} ({time.monotonic() - began:.0f} s)",
                flush=True,
            )
    print(table(records))


if __name__ == "__main__":
    main()
