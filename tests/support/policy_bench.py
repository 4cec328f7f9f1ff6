"""The table of the live policy beside its yardsticks: ``make bench-policy``.

Kinds, seeds, triggers and targets; latencies as multiples of the better of two constants in hindsight, Spark's and
Flink's, and of the clairvoyant (``support.policy_table``). A target is *beyond what was seen* where the most careful
policy with the same knowledge misses it too (``bench.policies.as_long_as_ever``). The kinds are those of
``support.synthetic`` and of ``support.system_kinds``, each with windows of its own and triggers of a tenth and a half
of them. Seeds from 101 on: nothing was tuned on them.

With ``--kinds`` and ``--seeds`` only these are done, with ``--baselines`` other policies beside Tidemark. With
``--minutes`` streams are that long in place of two hours: what a policy does before it knows much. With ``--rate`` they
have so many rows a second, with ``--pack`` so many of them at once in one partition, and with ``--traffic`` the rate
changes as it says; these four are for the synthetic kinds, and the system kinds are then left out.

With ``--restart`` the bound moves by restarts that cost their time: Tidemark is then the recommendation, beside what it
does in Live on the same trace.

What is done is kept under ``build/bench-policy``, so a run that was stopped goes on where it was, and the table there
is always that of all that is done. Results are kept by the code that they came from, the yardsticks, Tidemark and the
other policies apart, so that only Tidemark runs again when its policy changes. Real traces take part where
``TIDEMARK_TRACES`` names them, each as ``path:window:trigger``, separated by commas; ``--seeds`` without a number
leaves out all others. A file has the format that ``tidemark trace`` writes.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass, replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from tidemark.controller.lab.traces.format import read_trace
from tidemark.models.backtest.arrivals import Arrivals
from tidemark.models.backtest.arrivals_builder import ArrivalsBuilder
from tidemark.models.backtest.catalogue import FROM_THE_TRACE, make_policy, policy_for
from tidemark.models.backtest.run import meets, run, score
from tidemark.models.backtest.yardstick import clairvoyant, fixed_hindsight, flink_hindsight
from tidemark.models.base.duration import format_duration, parse_duration
from tidemark.models.base.operators import TimeWindow
from tidemark.models.base.target import parse_target
from tidemark.models.live.policy import BacktestMode, BoundPolicy, Setup

from bench.policies.as_long_as_ever import AsLongAsEver
from bench.policies.ring import Ring
from support.import_graph import all_imported
from support.policy_table import table
from support.synthetic import KINDS, RATE, TRAFFIC, Trace, synthetic
from support.system_kinds import SYSTEM_KINDS, WINDOW_US, make_trace, window_us_of
from support.tree import ROOT

PROCESSES = 2
LIVE = "tidemark live"
TIDEMARK: dict[BacktestMode, tuple[str, ...]] = {"live": ("tidemark",), "restart": ("tidemark", LIVE)}
"""What is judged, by how a decision reaches the job."""
BASELINES: dict[BacktestMode, tuple[str, ...]] = {
    "live": ("flink-quarter", "flink", "max60", "ring:0.95", "ring:target", "ring:certified"),
    "restart": ("flink-quarter", "ring:target", "max60"),
}
"""What it is judged beside; trackers change their bound in every batch, for which a restart is too dear."""
PARTS: dict[str, dict[BacktestMode, tuple[str, ...]]] = {
    "yardsticks": {"live": (), "restart": ()},
    "tidemark": TIDEMARK,
    "baselines": BASELINES,
}
"""What is done apart and kept apart, each with its policies."""
TARGETS_PPM = (990_000, 999_000)
SEEDS = tuple(range(101, 121))
TRIGGERS = (10, 2)
"""Triggers to a window."""
LEFT_OUT = ("future",)
"""A bound in hindsight is worthless where a few rows are dated a day ahead."""
ALL_KINDS = (*(kind for kind in KINDS if kind not in LEFT_OUT), *SYSTEM_KINDS)
YARDSTICKS = ("hindsight_us", "flink_us", "clairvoyant_us", "careful")
FOLDER = ROOT / "build" / "bench-policy"


@dataclass(frozen=True)
class Cell:
    """One trace at one trigger."""

    name: str
    seed: int
    window_us: int
    trigger_us: int
    seconds: int = 0
    """Length of a synthetic stream; 0 for a system kind and a recorded trace, which have their own."""
    path: str = ""
    """A recorded trace, which has the name of its file; else ``name`` is a kind."""
    mode: BacktestMode = "live"
    """How a decision reaches the job."""
    rate: int = RATE
    """Rows a second of a synthetic stream."""
    pack: int = 1
    """How many of them happen at once in one partition."""
    traffic: str = "steady"
    """How the rate changes."""

    def trace(self) -> Trace:
        if self.name in SYSTEM_KINDS:
            return make_trace(self.name, self.seed)
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
    quick: bool = False,
    kinds: Sequence[str] = ALL_KINDS,
    seeds: Sequence[int] = SEEDS,
    minutes: int | None = None,
    mode: BacktestMode = "live",
    **shape: Any,
) -> list[Cell]:
    """Return what is asked, in the order in which it is done: seed by seed, so that the table fills evenly.

    ``shape`` is that of synthetic streams: ``rate``, ``pack`` and ``traffic`` as in ``Cell``.
    """
    if quick:
        seeds = seeds[:1]
    plain = minutes is None and all(shape[name] == getattr(Cell, name) for name in shape)
    seconds = 60 * (minutes or (30 if quick else 120))
    drawn = [
        Cell(kind, seed, window_us_of(kind), window_us_of(kind) // triggers, **of_kind)
        for seed in seeds
        for triggers in (TRIGGERS[:1] if quick else TRIGGERS)
        for kind in kinds
        if plain or kind in KINDS
        for of_kind in [{"seconds": seconds, **shape} if kind in KINDS else {}]
    ]
    return [replace(cell, mode=mode) for cell in (*recorded(os.environ.get("TIDEMARK_TRACES", "")), *drawn)]


def recorded(named: str) -> list[Cell]:
    """Return the traces that are named as ``path:window:trigger``, separated by commas."""
    found = []
    for item in filter(None, (item.strip() for item in named.split(","))):
        path, window, trigger = item.rsplit(":", 2)
        found.append(
            Cell(Path(path).name, 0, parse_duration(window), parse_duration(trigger), path=str(Path(path)))
        )
    return found


def judged(cell: Cell, part: str) -> list[dict[str, Any]]:
    """Return a part of what is asked about one trace: the yardsticks at every target, or what each policy does."""
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
        about = {**asdict(cell), "target_ppm": target_ppm}
        if part == "yardsticks":
            figures = (
                fixed_hindsight(arrivals, setup)[1].latency_mean_us,
                flink_hindsight(arrivals, setup)[1].latency_mean_us,
                clairvoyant(arrivals, setup),
                score(arrivals, setup, run(arrivals, setup, AsLongAsEver())).completeness,
            )
            found.append({**about, **dict(zip(YARDSTICKS, figures, strict=True))})
        for policy in PARTS[part][cell.mode]:
            name, its = ("tidemark", replace(setup, mode="live")) if policy == LIVE else (policy, setup)
            result = score(arrivals, its, run(arrivals, its, _policy(name, arrivals, its)))
            found.append(
                {
                    **about,
                    "policy": policy,
                    "met": meets(setup, result),
                    "completeness": result.completeness,
                    "latency_us": result.latency_mean_us,
                }
            )
    return found


def _policy(name: str, arrivals: Arrivals, setup: Setup) -> BoundPolicy:
    return _ring(name, setup) or policy_for(name, arrivals, setup)


def _ring(name: str, setup: Setup) -> Ring | None:
    kind, _, share = name.partition(":")
    if kind != "ring":
        return None
    fixed = share not in {"target", "certified"}
    return Ring(parse_target(share) if fixed else setup.target_ppm, certified=share == "certified")


def joined(records: dict[str, list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """Return what the policies did, each with the yardsticks, as far as these are known.

    Raises:
        AssertionError: when a policy met a target faster than the clairvoyant.
    """
    known = {_key(one): {name: one[name] for name in YARDSTICKS} for one in records["yardsticks"]}
    found = [
        {**one, **known[_key(one)]}
        for part in ("tidemark", "baselines")
        for one in records.get(part, ())
        if _key(one) in known
    ]
    impossible = [one for one in found if one["met"] and one["latency_us"] < one["clairvoyant_us"]]
    assert not impossible, f"below the clairvoyant: {impossible}"
    return found


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
        trigger_us=WINDOW_US // TRIGGERS[0],
        target_ppm=TARGETS_PPM[0],
        mode=mode,
    )
    policies = [
        _ring(name, setup) or make_policy("tidemark" if name == LIVE else name, setup)
        for name in PARTS[part][mode]
        if name not in FROM_THE_TRACE
    ]
    judges = (
        synthetic,
        make_trace,
        ArrivalsBuilder,
        run,
        score,
        fixed_hindsight,
        flink_hindsight,
        AsLongAsEver,
    )
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
        "--quick", action="store_true", help="one seed, one trigger, synthetic kinds for half an hour"
    )
    parser.add_argument("--kinds", nargs="+", choices=ALL_KINDS, default=ALL_KINDS, metavar="KIND")
    parser.add_argument("--seeds", nargs="*", type=int, default=SEEDS, metavar="SEED")
    parser.add_argument("--baselines", action="store_true", help="other policies beside Tidemark")
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
    parts = [part for part in PARTS if part != "baselines" or given.baselines]
    kept = {part: FOLDER / f"{part}-{mode}-{_code(part, mode)}.jsonl" for part in parts}
    shown = kept["tidemark"].with_suffix(".md")
    wanted = cells(
        quick=given.quick,
        kinds=given.kinds,
        seeds=given.seeds,
        minutes=given.minutes,
        mode=mode,
        rate=given.rate,
        pack=given.pack,
        traffic=given.traffic,
    )
    asked = {tuple(asdict(cell).values()) for cell in wanted}
    records = {part: [one for one in _read(kept[part]) if _trace(one) in asked] for part in parts}
    done = {part: {_trace(one) for one in records[part]} for part in parts}
    left = [
        (cell, part) for cell in wanted for part in parts if tuple(asdict(cell).values()) not in done[part]
    ]
    counted = ", ".join(f"{part} {len(done[part])}" for part in parts)
    print(f"done of {len(wanted)} traces: {counted}; the table is {os.path.relpath(shown)}")
    began = time.monotonic()
    with ProcessPoolExecutor(given.processes, mp_context=get_context("spawn")) as pool:
        running = {pool.submit(judged, cell, part): (cell, part) for cell, part in left}
        for number, future in enumerate(as_completed(running), 1):
            (cell, part), found = running[future], future.result()
            # A line before it that was cut off must not run into it.
            with kept[part].open("a", encoding="utf-8") as out:
                out.write("\n" + json.dumps(found) + "\n")
            records[part] += found
            shown.write_text(table(joined(records)), encoding="utf-8")
            print(
                f"{number} of {len(left)}: {cell.name}, seed {cell.seed}, {format_duration(cell.trigger_us)}; {part} "
                f"({time.monotonic() - began:.0f} s)",
                flush=True,
            )
    print(table(joined(records)))


if __name__ == "__main__":
    main()
