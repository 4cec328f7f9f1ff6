"""``tidemark backtest``: replays recorded streams under policies and compares them with the best possible."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import click

from tidemark.controller.base.clock import system_clock
from tidemark.controller.lab.backtest.record import record_of, write_timeline
from tidemark.controller.lab.backtest.table import LEGEND, short_trace_warning, show, verdict
from tidemark.controller.lab.backtest.trial import Trial, choose_policies, judge, read
from tidemark.controller.lab.progress import progress
from tidemark.controller.lab.traces.format import OpenTrace, PlausibleRows
from tidemark.controller.tools.cli.options import duration_of, milliseconds_of, operator_of
from tidemark.controller.tools.cli.run import Format, errors_in_one_line, write
from tidemark.controller.tools.cli.shape import check_options
from tidemark.controller.tools.cli.show import say
from tidemark.models.base.target import parse_target
from tidemark.models.live.policy import BacktestMode, Setup
from tidemark.models.specs.slo import Objective

_OF_STREAM = frozenset(
    {
        *("traces", "target", "latency_cap", "horizon", "restart_cost", "since", "output", "json"),
        *("url", "token_file"),
    }
)
"""Parameters that the replay of a stream takes."""


def backtest(
    traces: Sequence[Path],
    *,
    target: str | None,
    objective: Objective,
    window: str,
    slide: str | None,
    trigger: str,
    mode: BacktestMode,
    restart_cost: str,
    horizon: str | None,
    latency_cap: str | None,
    policy: Sequence[str],
    timeline: Path | None,
    since: str,
    output: Format,
    url: str,
    token_file: Path | None,
) -> None:
    """Replay traces under policies and compare the policies, or try a target on a stream."""
    with errors_in_one_line():
        if _is_of_stream(traces):
            from tidemark.controller.lab.backtest.stream import backtest_stream  # noqa: PLC0415 - needs httpx

            backtest_stream(
                *map(str, traces),
                target=target,
                latency_cap=latency_cap,
                horizon=horizon,
                restart_cost_us=duration_of(restart_cost, "--restart-cost"),
                since=since,
                output=output,
                url=url,
                token_file=token_file,
            )
            return
        if mode == "live" and horizon is not None:
            raise ValueError(
                "--horizon needs --mode restart: in Live the driver's own rules say how far back counts"
            )
        setup = Setup(
            operator=operator_of(window, slide),
            trigger_us=duration_of(trigger, "--trigger"),
            target_ppm=parse_target(target or "0.99"),
            objective=objective,
            mode=mode,
            restart_cost_us=duration_of(restart_cost, "--restart-cost"),
            horizon_ms=None if horizon is None else milliseconds_of(horizon, "--horizon"),
            latency_cap_us=None if latency_cap is None else duration_of(latency_cap, "--latency-cap"),
        )
        policies = choose_policies(list(policy) or ["tidemark"], setup)
        if timeline is not None:
            _check_timeline(traces, policies, timeline)
        records: list[dict[str, Any]] = []
        for opened in _open(traces):
            plausible = PlausibleRows(system_clock())
            trial = _judge(opened, setup, policies, plausible)
            records += [record_of(trial, outcome) for outcome in trial.outcomes]
            if timeline is not None:
                write_timeline(timeline, trial.outcomes[0].run)
            warning = short_trace_warning(trial)
            for note in plausible.notes():
                click.echo(note, err=output != "table")
            if output == "table":
                say(verdict(trial))
            if warning is not None:
                click.echo(warning, err=output != "table")
            if output == "table":
                show(trial)
        if output == "table":
            say(LEGEND)
        else:
            write(records, output)


def _is_of_stream(traces: Sequence[Path]) -> bool:
    """Return whether the arguments are the names of a job and a stream, and not files.

    Raises:
        ValueError: when an option is given that does not go with what they are.
    """
    of_stream = len(traces) == 2 and not any(path.suffix == ".parquet" or path.is_file() for path in traces)
    if of_stream:
        check_options("a stream is replayed as it runs, so it does not take", _OF_STREAM)
    else:
        every = {parameter.name for parameter in click.get_current_context().command.params}
        check_options("a trace is replayed whole, so it does not take", every - {"since"})
    return of_stream


def _open(traces: Sequence[Path]) -> list[OpenTrace]:
    """Open all traces, so that a wrong one is found before the first is replayed."""
    if len(traces) == 1 and not traces[0].is_file() and not traces[0].suffix:
        raise ValueError(
            f"there is no trace {traces[0]}; of a stream name both: tidemark backtest {traces[0]} STREAM"
        )
    opened = [OpenTrace(path) for path in traces]
    for one in opened:
        if not one.rows:
            raise ValueError(f"{one.path}: the trace has no rows")
    return opened


def _judge(opened: OpenTrace, setup: Setup, policies: Sequence[str], plausible: PlausibleRows) -> Trial:
    with progress("rows", opened.rows) as progressed:
        arrivals = read(opened, setup, plausible, partial(progressed, f"reading {opened.path.name}"))
    with progress("slots", arrivals.slots) as progressed:
        return judge(opened.path, arrivals, setup, policies, progressed)


def _check_timeline(traces: Sequence[Path], policies: Sequence[str], timeline: Path) -> None:
    """Reject a timeline that could not be written, before the work begins."""
    if len(traces) > 1 or len(policies) > 1:
        raise ValueError(
            f"--timeline takes one trace under one policy, not {len(traces)} under {len(policies)}: "
            "run it once for each"
        )
    if any(timeline.resolve() == trace.resolve() for trace in traces):
        raise ValueError(f"{timeline}: the output is one of the traces")
    if timeline.is_dir():
        raise ValueError(f"{timeline}: cannot be written: it is a folder")
    if not timeline.parent.is_dir():
        raise ValueError(f"{timeline}: cannot be written: there is no folder {timeline.parent}")
