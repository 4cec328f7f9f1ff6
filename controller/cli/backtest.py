"""``tidemark backtest``: what each policy would have done on recorded streams, against the best that was possible."""

from __future__ import annotations

import importlib.util
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import TaskID

from tidemark.controller.backtest.record import as_json, record_of, write_json
from tidemark.controller.backtest.table import LEGEND, show
from tidemark.controller.backtest.timeline import write_timeline
from tidemark.controller.backtest.trial import Trial, choose_policies, judge, read
from tidemark.controller.cli.options import duration_of, operator_of
from tidemark.controller.cli.trace import one_line_errors, progress_bar
from tidemark.controller.traces.format import OpenTrace, open_trace
from tidemark.models.policies.catalogue import policy_forms
from tidemark.models.policies.setup import BacktestMode, Objective, Scope, Setup
from tidemark.models.replay import Engine
from tidemark.models.target import parse_target

__all__ = ["backtest"]

STDOUT = Path("-")
"""The file name that stands for the standard output."""


def backtest(
    traces: Annotated[
        list[Path], typer.Argument(metavar="TRACE", help="Traces, as `tidemark trace` makes them.")
    ],
    *,
    target: Annotated[str, typer.Option(help="Completeness target, a decimal share.")] = "0.99",
    objective: Annotated[
        Objective,
        typer.Option(help="What must meet the target: all rows together, or 99 % of the windows each."),
    ] = "occurrences",
    window: Annotated[str, typer.Option(help="Size of the windows; 0 for row-level.")] = "10s",
    slide: Annotated[str | None, typer.Option(help="Slide of the windows; else they tumble.")] = None,
    trigger: Annotated[
        str, typer.Option(help="Spark's processing-time trigger; per-row: the time between decisions.")
    ] = "1s",
    engine: Annotated[Engine, typer.Option(help="Whose late rule to replay.")] = "spark",
    scope: Annotated[
        Scope, typer.Option(help="One watermark for the stream, or the least of the partitions' own.")
    ] = "global",
    mode: Annotated[
        BacktestMode, typer.Option(help="How a decision reaches the job: the control stream, or a restart.")
    ] = "live",
    restart_cost: Annotated[
        str, typer.Option(help="With --mode restart: time without batches for each change of the bound.")
    ] = "30s",
    latency_cap: Annotated[
        str | None,
        typer.Option(help="Tidemark, live: no window waits longer than this; completeness yields."),
    ] = None,
    policy: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="May be repeated; tidemark unless given, all for one of each kind. "
            f"There are: {', '.join(policy_forms())}.",
        ),
    ] = None,
    json_to: Annotated[
        Path | None,
        typer.Option("--json", metavar="FILE", help="Write the figures as JSON; - prints it, and no table."),
    ] = None,
    timeline: Annotated[
        Path | None,
        typer.Option(metavar="FILE.parquet", help="Write each batch, of one trace under one policy."),
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE.png", help="Draw the bounds and the frontier, of one trace.")
    ] = None,
) -> None:
    """Replay recorded streams under policies: completeness and latency of each, and of the best possible."""
    with one_line_errors():
        if mode == "restart" and engine == "per-row":
            raise ValueError("--mode restart is a Spark job's: it goes with --engine spark")
        setup = Setup(
            operator=operator_of(window, slide),
            trigger_us=duration_of(trigger),
            target_ppm=parse_target(target),
            objective=objective,
            engine=engine,
            scope=scope,
            mode=mode,
            restart_cost_us=duration_of(restart_cost),
            latency_cap_us=None if latency_cap is None else duration_of(latency_cap),
        )
        policies = choose_policies(policy or ["tidemark"], setup)
        _check_outputs(traces, policies, json_to, timeline, plot)
        console = Console(highlight=False, markup=False)
        records: list[dict[str, Any]] = []
        for opened in _open(traces):
            trial = _judge(opened, setup, policies)
            records += [record_of(trial, outcome) for outcome in trial.outcomes]
            if timeline is not None:
                write_timeline(timeline, trial.outcomes[0].run)
            if plot is not None:
                _draw(plot, trial)
            if json_to != STDOUT:
                show(trial, console)
        if json_to == STDOUT:
            typer.echo(as_json(records))
        else:
            console.print(LEGEND, soft_wrap=not console.is_terminal)
            if json_to is not None:
                write_json(json_to, records)


def _open(traces: Sequence[Path]) -> list[OpenTrace]:
    """Open all traces, so that a wrong one is known before the first is replayed."""
    opened = [open_trace(path) for path in traces]
    for one in opened:
        if not one.rows:
            raise ValueError(f"{one.path}: the trace has no rows")
    return opened


def _judge(opened: OpenTrace, setup: Setup, policies: Sequence[str]) -> Trial:
    with progress_bar() as progress:
        task = progress.add_task(f"reading {opened.path.name}", total=opened.rows)
        arrivals = read(opened, setup, lambda rows: progress.advance(task, rows))
    with progress_bar("slots") as progress:
        tasks: dict[str, TaskID] = {}

        def told(what: str, done: int) -> None:
            if what not in tasks:
                tasks[what] = progress.add_task(what, total=arrivals.slots)
            progress.update(tasks[what], completed=done)

        return judge(opened.path, arrivals, setup, policies, told)


def _draw(path: Path, trial: Trial) -> None:
    from tidemark.controller.backtest.picture import FIXED_BOUNDS, draw  # noqa: PLC0415 - matplotlib is an extra

    with progress_bar("bounds") as progress:
        task = progress.add_task(f"drawing {path.name}", total=FIXED_BOUNDS)
        draw(path, trial, lambda done: progress.update(task, completed=done))


def _check_outputs(
    traces: Sequence[Path],
    policies: Sequence[str],
    json_to: Path | None,
    timeline: Path | None,
    plot: Path | None,
) -> None:
    """Refuse before the work what could not be written after it."""
    if timeline is not None and (len(traces) > 1 or len(policies) > 1):
        raise ValueError(
            f"--timeline is of one trace under one policy, not of {len(traces)} under {len(policies)}: "
            "run it once for each"
        )
    if plot is not None and len(traces) > 1:
        raise ValueError(f"--plot is of one trace, not of {len(traces)}: run it once for each")
    if plot is not None and importlib.util.find_spec("matplotlib") is None:
        raise ValueError("--plot needs matplotlib: pip install 'tidemark[plot]'")
    outputs = [path for path in (json_to, timeline, plot) if path is not None and path != STDOUT]
    for path, times in Counter(path.resolve() for path in outputs).items():
        if times > 1:
            raise ValueError(f"{path}: two outputs cannot be one file")
    for path in outputs:
        if any(path.resolve() == trace.resolve() for trace in traces):
            raise ValueError(f"{path}: the output is one of the traces")
        if path.is_dir():
            raise ValueError(f"{path}: cannot be written: it is a folder")
        if not path.parent.is_dir():
            raise ValueError(f"{path}: cannot be written: there is no folder {path.parent}")
