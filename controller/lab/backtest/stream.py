"""``tidemark backtest JOB STREAM``: what a job has reported, replayed under the SLO in force and under another one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

import click

from tidemark.controller.base.clock import system_clock
from tidemark.controller.lab.backtest.record import figures_of
from tidemark.controller.lab.backtest.table import floor_percent, format_latency
from tidemark.controller.lab.backtest.trial import PolicyResult, replay
from tidemark.controller.lab.progress import progress
from tidemark.controller.lab.traces.command import stream_trace
from tidemark.controller.lab.traces.format import PlausibleRows
from tidemark.controller.tools.cli.options import milliseconds_of
from tidemark.controller.tools.cli.run import Format, open_client, write
from tidemark.controller.tools.cli.show import duration, percent, say, table
from tidemark.models.backtest.arrivals_builder import ArrivalsBuilder
from tidemark.models.backtest.recommended import RecommendedPolicy
from tidemark.models.base.target import parse_target
from tidemark.models.base.text import plain, plural
from tidemark.models.live.policy import BoundPolicy, Setup
from tidemark.models.live.tidemark import Tidemark
from tidemark.models.specs.slo import Policy, Slo

if TYPE_CHECKING:
    from tidemark.controller.lab.traces.from_reports import StreamTrace
    from tidemark.controller.tools.client.client import Client

_NAMES = ("in force", "tried")


def _tried(slo: Slo, target: str | None, latency_cap: str | None, horizon: str | None) -> Slo:
    """Return the SLO with what is tried in place of its own, as the options have it."""
    changes: dict[str, Any] = {}
    if target is not None:
        changes["target_ppm"] = parse_target(target)
    if latency_cap is not None:
        changes["latency_cap_ms"] = milliseconds_of(latency_cap, "--latency-cap")
    if horizon is not None:
        changes["horizon_ms"] = milliseconds_of(horizon, "--horizon")
    if not changes:
        raise ValueError("say what to try beside the SLO in force: --target, --latency-cap or --horizon")
    return replace(slo, **changes)


def backtest_stream(
    job: str,
    stream: str,
    *,
    target: str | None,
    latency_cap: str | None,
    horizon: str | None,
    restart_cost_us: int,
    since: str,
    output: Format,
    url: str,
    token_file: Path | None,
) -> None:
    """Print what the SLO in force and the one that is tried would have admitted, side by side.

    Raises:
        ValueError: when there is nothing to replay, or a replay would not say what the controller does.
    """
    with open_client(url, token_file) as tidemark:
        slo, policy = _in_force(tidemark, job, stream)
        slos = slo, _tried(slo, target, latency_cap, horizon)
        made = stream_trace(tidemark, job, stream, since)
    results, notes = _replayed(f"{job}/{stream}", made, slos, policy, restart_cost_us)
    records = [
        {"job": job, "stream": stream, "slo": name, **figures_of(*result)}
        for name, result in zip(_NAMES, results, strict=True)
    ]
    if output == "table":
        _show(f"{job}/{stream}", made, slos, results)
    else:
        write(records, output)
    for note in notes:
        click.echo(plain(note), err=output != "table")


def _in_force(tidemark: Client, job: str, stream: str) -> tuple[Slo, Policy]:
    """Return the SLO and the policy of a stream whose decisions a replay can repeat."""
    slo, policy = tidemark.status(job, stream).slo, tidemark.policy(job, stream)
    if slo is None or policy is None:
        step = f"tidemark trace {quote(job)} {quote(stream)} --from controller"
        raise ValueError(
            f"{job}/{stream} has no SLO to try another one beside; `{step}` makes a trace, to replay under any target"
        )
    if slo.objective == "timeslices" or slo.worst_window_ppm is not None:
        raise ValueError(
            f"the SLO of {job}/{stream} has a goal for single windows (timeslices or worst-window), and how those come "
            "out is known only of the bound in use"
        )
    join = next((spec.join for spec in tidemark.joins(job) if stream in spec.streams), None)
    if join is not None:
        raise ValueError(f"{job}/{stream} is a side of join {join}, whose SLO decides about its bound")
    return slo, policy


def _replayed(
    name: str, made: StreamTrace, slos: tuple[Slo, Slo], policy: Policy, restart_cost_us: int
) -> tuple[list[tuple[Setup, PolicyResult]], list[str]]:
    """Return what each SLO leads to on the same rows, and notes about rows that are left out."""
    setups = [_setup(made, slo, policy, restart_cost_us) for slo in slos]
    plausible = PlausibleRows(system_clock())
    rows = plausible.of(made.trace)
    plausible.reject_if_none(Path(name))
    builder = ArrivalsBuilder(setups[0])
    builder.add(rows.event_time_us, rows.arrival_time_us, rows.partition, len(rows.partitions))
    arrivals = builder.build()
    with progress("slots", arrivals.slots) as progressed:
        results = [
            (setup, replay(which, arrivals, setup, _policy(setup, slo, policy, made), progressed))
            for which, setup, slo in zip(_NAMES, setups, slos, strict=True)
        ]
    return results, plausible.notes()


def _setup(made: StreamTrace, slo: Slo, policy: Policy, restart_cost_us: int) -> Setup:
    live = policy.mode == "Live"
    # As the envelope of a job in Live has it.
    capped = live and slo.latency_cap_ms is not None and slo.on_conflict != "exceed_latency_cap"
    return Setup(
        operator=made.operator,
        trigger_us=made.trigger_us,
        target_ppm=slo.target_ppm,
        mode="live" if live else "restart",
        latency_cap_us=(slo.latency_cap_ms or 0) * 1_000 if capped else None,
        restart_cost_us=restart_cost_us,
        horizon_ms=slo.horizon_ms,
    )


def _policy(setup: Setup, slo: Slo, policy: Policy, made: StreamTrace) -> BoundPolicy:
    if setup.mode == "live":
        return Tidemark(setup)
    return RecommendedPolicy(setup, slo, policy, made.bound_ms * 1_000)


def _show(
    name: str, made: StreamTrace, slos: tuple[Slo, Slo], results: list[tuple[Setup, PolicyResult]]
) -> None:
    live = results[0][0].mode == "live"
    say(
        f"{name}: {plural(len(made.trace), 'row')} of {plural(made.batches, 'batch', 'batches')} that were reported, "
        f"replayed as in mode {'Live' if live else 'Restart'}"
    )
    rows = []
    for which, slo, (_, result) in zip(_NAMES, slos, results, strict=True):
        score = result.score
        rows.append(
            (
                which,
                percent(slo.target_ppm),
                duration(slo.latency_cap_ms),
                _verdict(slo, result),
                f"{floor_percent(score.pairs - score.late, score.pairs, slo.target_ppm)} %",
                f"{score.late:,} of {score.pairs:,}",
                format_latency(score.latency_mean_us),
                format_latency(score.latency_p95_us),
                format_latency(score.median_lag_us if live else score.bound_mean_us),
                f"{score.bound_changes:,}",
            )
        )
    bound = "median lag" if live else "mean bound"
    latencies = ("mean latency", "p95 latency", bound, "moves")
    table(("SLO", "target", "latency cap", "verdict", "admitted", "late", *latencies), rows)
    for which, (_, result) in zip(_NAMES, results, strict=True):
        if result.reasons and not result.score.bound_changes and not live:
            say(f"{which}, the bound never changed: {'; '.join(result.reasons)}")
    if any(slo.state_cap_rows is not None for slo in slos):
        say("note: a replay knows no state, so the state cap is left out")
    if not live and any(slo.latency_cap_ms is not None for slo in slos):
        say("note: this replay does not decide by the latency cap; the verdict says whether it is kept")


def _verdict(slo: Slo, result: PolicyResult) -> str:
    mean_us = result.score.latency_mean_us
    above = slo.latency_cap_ms is not None and mean_us is not None and mean_us > slo.latency_cap_ms * 1_000
    if not result.score.decided:
        return "never decided"
    return ("met" if result.meets else "MISSED") + (", above the cap" if above else "")
