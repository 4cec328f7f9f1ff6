"""``tidemark curve``: what each bound would have kept and cost on a recorded stream, and which bound to choose."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.console import Console
from rich.table import Table

from tidemark.controller.cli.options import duration_of, operator_of
from tidemark.controller.cli.remote import DEFAULT_URL, TokenFileOption, UrlOption
from tidemark.controller.cli.stream_curve import show_stream_curve
from tidemark.controller.cli.trace import one_line_errors, progress_bar
from tidemark.models.choice import BoundChoice, Latency, choose_bound, needed_rank, percent
from tidemark.models.curve import Curve, CurvePoint, MeanLatency, NeedDistribution
from tidemark.models.duration import format_duration
from tidemark.models.granules import SPARK_TICK_US
from tidemark.models.operators import Operator
from tidemark.models.plural import plural
from tidemark.models.replay import Engine, Replay, batches_of_slots, replay_per_row, replay_spark
from tidemark.models.target import parse_target

if TYPE_CHECKING:
    from tidemark.controller.traces.format import Trace

__all__ = ["curve"]

LADDER = (0.5, 0.75, 0.9, 0.95, 0.99, 0.995, 0.999, 1.0)
"""Shares of the rows whose needs are the candidate bounds when none are given, beside 0 and the target's own."""


def curve(
    trace: Annotated[
        Path,
        typer.Argument(
            metavar="TRACE | JOB", help="A trace, as `tidemark trace` makes it; or with STREAM, a job."
        ),
    ],
    stream: Annotated[
        str | None, typer.Argument(metavar="[STREAM]", help="Stream of a job that a controller knows.")
    ] = None,
    *,
    window: Annotated[
        str | None, typer.Option(help="Size of the windows (10s unless told otherwise); 0 for row-level.")
    ] = None,
    slide: Annotated[str | None, typer.Option(help="Slide of the windows; else they tumble.")] = None,
    session_gap: Annotated[
        str | None, typer.Option(help="Gap of session windows, instead of --window.")
    ] = None,
    engine: Annotated[Literal["spark", "per-row"], typer.Option(help="Whose late rule to replay.")] = "spark",
    trigger: Annotated[str, typer.Option(help="Spark's processing-time trigger.")] = "1s",
    bounds: Annotated[
        str | None,
        typer.Option(
            help="Candidates such as 0,2s,5s; bare numbers are seconds. Else a ladder of the needs."
        ),
    ] = None,
    target: Annotated[str, typer.Option(help="Completeness target, a decimal share.")] = "0.99",
    latency_cap: Annotated[str | None, typer.Option(help="Greatest mean latency allowed.")] = None,
    latency: Annotated[
        Literal["base", "wall"],
        typer.Option(help="Which latency the cap is on: by event time or by the clock."),
    ] = "base",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
    url: UrlOption = DEFAULT_URL,
    token_file: TokenFileOption = None,
) -> None:
    """Show completeness and latency under each bound: of a recorded stream, choosing one, or of a controller's."""
    if stream is not None:
        with one_line_errors():
            if any(option is not None for option in (window, slide, session_gap, latency_cap)):
                raise ValueError("--window, --slide, --session-gap and --latency-cap go with a trace")
            asked = [] if bounds is None else [bound // 1_000 for bound in _bounds(bounds, SPARK_TICK_US)]
        show_stream_curve(str(trace), stream, asked, json=as_json, url=url, token_file=token_file)
        return
    with one_line_errors():
        if session_gap is not None and (window is not None or slide is not None):
            raise ValueError("--session-gap goes without --window and --slide")
        operator = operator_of(window or "10s", slide, session_gap)
        trigger_us = duration_of(trigger)
        target_ppm = parse_target(target)
        cap_us = None if latency_cap is None else duration_of(latency_cap)
        tick_us = SPARK_TICK_US if engine == "spark" else 1
        wanted = None if bounds is None else _bounds(bounds, tick_us)
        recorded = _read(trace)
        replayed = Curve.of_replay(_replay(recorded, operator, engine, trigger_us), operator)
        points = [replayed.at(bound) for bound in wanted or _ladder(replayed.needs, target_ppm)]
        choice = choose_bound(points, target_ppm, cap_us, latency=latency)
    rows, partitions = plural(len(recorded), "row"), plural(len(recorded.partitions), "partition")
    how = f"{rows}, {partitions}; {operator}; {engine} engine"
    if engine == "spark":
        how += f", trigger {format_duration(trigger_us)}"
    if as_json:
        typer.echo(json.dumps(_document(how, points, choice), indent=2))
    else:
        _show(how, points, choice, latency)


def _bounds(text: str, tick_us: int) -> list[int]:
    found = sorted({duration_of(part) for part in text.split(",")})
    for bound in found:
        if bound < 0 or bound % tick_us:
            raise ValueError(
                f"bound {format_duration(bound)}: a bound is at least 0 and, for Spark, of whole milliseconds"
            )
    return found


def _ladder(needs: NeedDistribution, target_ppm: int) -> list[int]:
    """Return 0 and the needs at the ladder's shares and at the target, so that the least bound that fits is there."""
    rows = round(needs.weight)
    ranks = [needed_rank(rows, target_ppm, None), *(math.ceil(share * rows) for share in LADDER)]
    values = [needs.value_at_rank(rank) for rank in ranks if rank is not None]
    return sorted({0, *(math.ceil(value) for value in values if value is not None and value > 0)})


def _read(path: Path) -> Trace:
    from tidemark.controller.traces.format import join, open_trace  # noqa: PLC0415 - pyarrow only where it is needed

    opened = open_trace(path)
    with progress_bar() as progress:
        task = progress.add_task("reading", total=opened.rows)
        parts = []
        for part in opened.batches():
            parts.append(part)
            progress.advance(task, len(part))
    if not opened.rows:
        raise ValueError(f"{path}: the trace has no rows")
    return join(iter(parts))


def _replay(trace: Trace, operator: Operator, engine: Engine, trigger_us: int) -> Replay:
    if engine == "per-row":
        return replay_per_row(trace.event_time_us, trace.arrival_time_us, operator)
    batch, wall_us = batches_of_slots(trace.event_time_us, trace.arrival_time_us, trigger_us)
    return replay_spark(trace.event_time_us, batch, wall_us, operator)


def _show(how: str, points: Sequence[CurvePoint], choice: BoundChoice, latency: Latency) -> None:
    table = Table()
    for name in ("bound", "completeness", "late rows", "base - end", "wall - end", "windows"):
        table.add_column(name, justify="right", no_wrap=True)
    for point in points:
        table.add_row(
            format_duration(point.bound_us),
            percent(point),
            str(point.late),
            _two_decimals(point.latency_base_us),
            _wall(point.latency_wall),
            str(point.windows_emitted),
            style="bold" if point == choice.point else None,
        )
    console = Console(highlight=False, markup=False)
    console.print(how, soft_wrap=True)
    console.print(table)
    console.print(
        "Latencies are means over windows, in seconds; ≥: too many windows are still open.", soft_wrap=True
    )
    console.print(
        f"chosen ({latency} latency): {choice.reason}" if choice.point else choice.reason, soft_wrap=True
    )
    for rejection in choice.rejections:
        console.print(f"  not {format_duration(rejection.bound_us)}: {rejection.detail}", soft_wrap=True)


def _wall(latency: MeanLatency | None) -> str:
    if latency is None:
        return "-"
    return f"{'≥ ' if latency.censored else ''}{_two_decimals(latency.mean_us)}"


def _two_decimals(duration_us: float | None) -> str:
    return "-" if duration_us is None else f"{duration_us / 1e6:.2f}"


def _document(how: str, points: Sequence[CurvePoint], choice: BoundChoice) -> dict[str, Any]:
    """Return the result as JSON has it: integers with their unit in the name, and no float."""
    return {
        "replayed": how,
        "points": [
            {
                "bound_us": point.bound_us,
                "completeness": percent(point),
                "rows": point.rows,
                "late": point.late,
                "latency_base_us": _whole(point.latency_base_us),
                "latency_wall_us": _whole(
                    None if point.latency_wall is None else point.latency_wall.measured_us
                ),
                "latency_at_least_us": _whole(
                    point.latency_wall.mean_us if point.latency_wall and point.latency_wall.censored else None
                ),
                "windows_emitted": point.windows_emitted,
            }
            for point in points
        ],
        "chosen_bound_us": choice.point.bound_us if choice.point else None,
        "reason": choice.reason,
        "rejections": [asdict(rejection) for rejection in choice.rejections],
    }


def _whole(value: float | None) -> int | None:
    return None if value is None else round(value)
