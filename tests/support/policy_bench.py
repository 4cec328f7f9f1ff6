"""The table of the live policy beside its yardsticks: ``make bench-policy``.

Kinds, seeds, triggers and targets, each with Tidemark, Flink fitted to the first quarter, SAOCP, a ring and the highest
need of a minute; latencies as multiples of the best constant bound in hindsight, of Flink with its best bound and idle
timeout in hindsight at the same tick, and of the clairvoyant. Seeds from 101 on: nothing was tuned on them.

With ``--minutes`` streams are that long in place of two hours: what a policy does before it knows much. With
``--rate`` they have so many rows a second, with ``--pack`` so many of them at once in one partition, and with
``--traffic`` the rate changes as it says.

With ``--restart`` the bound moves by restarts that cost their time: Tidemark is then the recommendation, beside what it
does in Live on the same trace.

What is done is kept under ``build/bench-policy``, so a run that was stopped goes on where it was, and the table there
is always that of all that is done. Results are kept by the code that they came from, Tidemark apart from the others,
which need not run again when only its policy changes. Real traces take part where ``TIDEMARK_TRACES`` names them, as in
``tests/bench/bench_policy.py``.
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

from tidemark.controller.tools.traces.format import read_trace
from tidemark.models.backtest.arrivals_builder import ArrivalsBuilder
from tidemark.models.backtest.catalogue import FROM_THE_TRACE
from tidemark.models.backtest.run import meets, run, score
from tidemark.models.backtest.yardstick import clairvoyant, fixed_hindsight, flink_hindsight
from tidemark.models.base.duration import format_duration, parse_duration
from tidemark.models.base.operators import TimeWindow
from tidemark.models.live.policy import BacktestMode, Setup

from bench.policies.named import make_policy, policy_for
from support.import_graph import all_imported
from support.synthetic import KINDS, RATE, TRAFFIC, Trace, synthetic
from support.tree import ROOT

PROCESSES = 2
LIVE = "tidemark live"
TIDEMARK = {"live": ("tidemark",), "restart": ("tidemark", LIVE)}
"""What is judged, by how a decision reaches the job."""
BASELINES = {
    "live": ("flink-quarter", "saocp", "ring:target", "max60"),
    "restart": ("flink-quarter", "ring:target", "max60"),
}
"""What it is judged beside; ``saocp`` changes its bound in every batch, for which a restart is too dear."""
PARTS = {"tidemark": TIDEMARK, "baselines": BASELINES}
"""What is done apart and kept apart; the yardsticks go with the baselines."""
TARGETS_PPM = (990_000, 999_000)
SEEDS = range(101, 121)
TRIGGERS_US = (1_000_000, 200_000)
WINDOW_US = 10_000_000
LEFT_OUT = ("future",)
"""A bound in hindsight is worthless where a few rows are dated a day ahead."""
YARDSTICKS = ("hindsight_us", "flink_us", "clairvoyant_us")
COLUMNS = (
    *("trace", "trigger", "target", "policy", "met", "latency"),
    *("x hindsight", "x Flink", "x clairvoyant", "worst", "behind"),
)
BEHIND = 1.05
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
    traffic: str = "steady"
    """How the rate changes."""

    def trace(self) -> Trace:
        if not self.path:
            return synthetic(
                self.name,
                self.seed,
                seconds=self.seconds,
                rate=self.rate,
                pack=self.pack,
                traffic=self.traffic,
            )
        found = read_trace(Path(self.path))
        return Trace(found.event_time_us, found.arrival_time_us, found.partition)


def cells(
    *,
    quick: bool,
    minutes: int | None = None,
    mode: BacktestMode = "live",
    rate: int = RATE,
    pack: int = 1,
    traffic: str = "steady",
) -> list[Cell]:
    """Return what is asked, in the order in which it is done: seed by seed, so that the table fills evenly."""
    seeds = SEEDS[:1] if quick else SEEDS
    triggers = TRIGGERS_US[:1] if quick else TRIGGERS_US
    seconds = 60 * (minutes or (30 if quick else 120))
    kinds = [kind for kind in KINDS if kind not in LEFT_OUT]
    drawn = [
        Cell(kind, seed, WINDOW_US, trigger_us, seconds, rate=rate, pack=pack, traffic=traffic)
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


def judged(cell: Cell, part: str) -> list[dict[str, Any]]:
    """Return what every policy of a part does on one trace at every target, baselines with the yardsticks."""
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
        yardsticks = {}
        if part == "baselines":
            latencies_us = (
                fixed_hindsight(arrivals, setup)[1].latency_mean_us,
                flink_hindsight(arrivals, setup)[1].latency_mean_us,
                clairvoyant(arrivals, setup),
            )
            yardsticks = dict(zip(YARDSTICKS, latencies_us, strict=True))
        for policy in PARTS[part][cell.mode]:
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
                    **yardsticks,
                }
            )
    return found


def joined(tidemark: Sequence[dict[str, Any]], baselines: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the results of the traces of which both parts are done, each with the yardsticks."""
    yardsticks = {_key(one): {name: one[name] for name in YARDSTICKS} for one in baselines}
    both = {_key(one) for one in tidemark} & set(yardsticks)
    return [{**one, **yardsticks[_key(one)]} for one in (*tidemark, *baselines) if _key(one) in both]


def table(records: Sequence[dict[str, Any]]) -> str:
    """Return the table of what is done: by kind, trigger and target, then over all of them.

    Of each cell the better of hindsight and of Flink is taken: ``worst`` is the highest multiple of it, ``behind`` the
    number of cells above 1.05 times it.
    """
    lines = [f"| {' | '.join(COLUMNS)} |", "| --- " * len(COLUMNS) + "|"]
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
    for trigger_us in sorted({one["trigger_us"] for one in records}, reverse=True):
        of_trigger = [one for one in records if one["trigger_us"] == trigger_us]
        lines += [
            _line("all", format_duration(trigger_us), "", policy, found)
            for policy in policies
            if (found := [one for one in of_trigger if one["policy"] == policy])
        ]
    return "\n".join(lines) + "\n"


def _line(name: str, trigger: str, target: str, policy: str, found: Sequence[dict[str, Any]]) -> str:
    met = sum(one["met"] for one in found)
    latency_s = sum(one["latency_us"] for one in found) / len(found) / 1e6
    ratios = [
        f"{_geometric(_ratio(one['latency_us'], one[yardstick]) for one in found):.2f}"
        for yardstick in YARDSTICKS
    ]
    better = [_ratio(one["latency_us"], min(one["hindsight_us"], one["flink_us"])) for one in found]
    return (
        f"| {name} | {trigger} | {target} | {policy} | {met} of {len(found)} | {latency_s:.3g} s | "
        f"{' | '.join(ratios)} | {max(better):.2f} | {sum(each > BEHIND for each in better)} |"
    )


def _ratio(latency_us: float, yardstick_us: float) -> float:
    if yardstick_us:
        return latency_us / yardstick_us
    return math.inf if latency_us else 1.0


def _geometric(ratios: Iterable[float]) -> float:
    logs = [math.log(max(ratio, 1e-9)) for ratio in ratios]
    return math.exp(sum(logs) / len(logs)) if logs else math.nan


def _key(record: dict[str, Any]) -> tuple[Any, ...]:
    """Return the trace and the target of a result."""
    return (*_trace(record), record["target_ppm"])


def _trace(record: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(record[name] for name in Cell.__dataclass_fields__)


def modules(part: str, mode: BacktestMode) -> list[str]:
    """Return the modules that make the streams, the policies of a part and their figures, but not what finds policies.

    The catalogue imports every policy, so with it any change of Tidemark's would be one of the baselines too.
    """
    setup = Setup(
        operator=TimeWindow(WINDOW_US, WINDOW_US),
        trigger_us=TRIGGERS_US[0],
        target_ppm=TARGETS_PPM[0],
        mode=mode,
    )
    policies = [
        make_policy("tidemark" if name == LIVE else name, setup)
        for name in PARTS[part][mode]
        if name not in FROM_THE_TRACE
    ]
    judges = (synthetic, ArrivalsBuilder, run, score, fixed_hindsight, flink_hindsight)
    return [each.__module__ for each in (*judges, *map(type, policies))]


def _code(part: str, mode: BacktestMode) -> str:
    """Return a name for the code that the results of a part come from."""
    digest = hashlib.sha256()
    for path in sorted(all_imported(modules(part, mode))):
        digest.update(path.read_bytes())
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
        "--traffic", choices=TRAFFIC, default="steady", help="how the rate of each synthetic stream changes"
    )
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
    kept = {part: FOLDER / f"{part}-{mode}-{_code(part, mode)}.jsonl" for part in PARTS}
    shown = kept["tidemark"].with_suffix(".md")
    wanted = cells(
        quick=given.quick,
        minutes=given.minutes,
        mode=mode,
        rate=given.rate,
        pack=given.pack,
        traffic=given.traffic,
    )
    asked = {tuple(asdict(cell).values()) for cell in wanted}
    records = {part: [one for one in _read(kept[part]) if _trace(one) in asked] for part in PARTS}
    done = {part: {_trace(one) for one in records[part]} for part in PARTS}
    left = [
        (cell, part) for cell in wanted for part in PARTS if tuple(asdict(cell).values()) not in done[part]
    ]
    print(
        f"of {len(wanted)} traces, tidemark has done {len(done['tidemark'])} and the baselines "
        f"{len(done['baselines'])}; the table is {os.path.relpath(shown)}"
    )
    began = time.monotonic()
    with ProcessPoolExecutor(given.processes, mp_context=get_context("spawn")) as pool:
        running = {pool.submit(judged, cell, part): (cell, part) for cell, part in left}
        for number, future in enumerate(as_completed(running), 1):
            (cell, part), found = running[future], future.result()
            # A line before it that was cut off must not run into it.
            with kept[part].open("a", encoding="utf-8") as out:
                out.write("\n" + json.dumps(found) + "\n")
            records[part] += found
            shown.write_text(table(joined(**records)), encoding="utf-8")
            missed = sum(not one["met"] for one in found)
            print(
                f"{number} of {len(left)}: {cell.name}, seed {cell.seed}, {format_duration(cell.trigger_us)}; {part} "
                f"missed {missed} of {len(found)} ({time.monotonic() - began:.0f} s)",
                flush=True,
            )
    print(table(joined(**records)))


if __name__ == "__main__":
    main()
