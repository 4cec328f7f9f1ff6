"""``tidemark curve``: what each bound admits and costs, for a trace or for a stream of a running controller."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from tidemark.controller.tools.cli.curve_chart import Marks, chart
from tidemark.controller.tools.cli.options import bounds_of
from tidemark.controller.tools.cli.output import Format, prints_data, write
from tidemark.controller.tools.cli.remote import TokenFileOption, UrlOption, open_client
from tidemark.controller.tools.cli.show import (
    bound,
    fail_usage,
    measured,
    moment,
    percent,
    say,
    table,
)
from tidemark.controller.tools.client.address import DEFAULT_URL
from tidemark.models.base.granules import SPARK_TICK_US

if TYPE_CHECKING:
    from tidemark.controller.server.schemas.charts import CurvePointAnswer


def register(app: typer.Typer) -> None:
    """Add the command to ``app``."""
    app.command("curve")(curve)


@prints_data
def curve(
    trace: Annotated[
        Path,
        typer.Argument(
            metavar="TRACE|JOB",
            help="A trace made by `tidemark trace`; or, before STREAM, the name of a job.",
        ),
    ],
    stream: Annotated[
        str | None,
        typer.Argument(metavar="STREAM", help="Name of the stream, to show a stream and not a trace."),
    ] = None,
    *,
    window: Annotated[
        str | None, typer.Option(help="Size of the windows; 0 for a row-level operator. Default: 10s.")
    ] = None,
    slide: Annotated[
        str | None, typer.Option(help="Slide of the windows. Default: they tumble, the slide is the size.")
    ] = None,
    session_gap: Annotated[
        str | None, typer.Option(help="Gap of session windows, instead of --window.")
    ] = None,
    engine: Annotated[
        Literal["spark", "per-row"],
        typer.Option(
            help="Which late rule to replay: Spark's, by batches, or that of an engine that works row by row."
        ),
    ] = "spark",
    trigger: Annotated[str, typer.Option(help="Spark's processing-time trigger.")] = "1s",
    bounds: Annotated[
        str | None,
        typer.Option(
            help="Bounds to show, such as 0,2s,5s; bare numbers are seconds. Default: chosen from the data."
        ),
    ] = None,
    grace: Annotated[
        str | None,
        typer.Option(
            help="Time that a window is still corrected after the bound, such as 5s,15s: shows what it admits then."
        ),
    ] = None,
    target: Annotated[str, typer.Option(help="Completeness target, a decimal share such as 0.99.")] = "0.99",
    confidence: Annotated[
        str,
        typer.Option(
            help="Confidence with which rows to come must meet the target, as in an SLO; none: the trace alone counts."
        ),
    ] = "0.95",
    latency_cap: Annotated[str | None, typer.Option(help="Maximum mean latency, such as 12s.")] = None,
    latency: Annotated[
        Literal["base", "wall"],
        typer.Option(help="Which latency the cap limits: base, by event time, or wall, by the clock."),
    ] = "base",
    plot: Annotated[
        bool, typer.Option("--plot", help="Draw the late rows by bound under the table, in the terminal.")
    ] = False,
    output: Format | None = None,
    url: UrlOption = DEFAULT_URL,
    token_file: TokenFileOption = None,
) -> None:
    """Show completeness and latency by bound, for a trace or a stream.

    For a trace it also chooses the smallest bound that its rows certify for the target. With JOB STREAM it asks a
    running controller.
    """
    if plot and output is not None:
        fail_usage(f"--plot goes without -o {output}: it draws for people")
    if stream is not None:
        options = (window, slide, session_gap, latency_cap, grace)
        show_stream_curve(
            str(trace), stream, bounds, options, output=output, plot=plot, url=url, token_file=token_file
        )
        return
    from tidemark.controller.tools.cli.trace_curve import Question, show_trace_curve  # noqa: PLC0415 - a stream needs no scipy

    if not trace.is_file() and not trace.suffix:
        fail_usage(f"there is no trace {trace}; of a stream name both: tidemark curve {trace} STREAM")
    question = Question(
        window, slide, session_gap, engine, trigger, bounds, grace, target, confidence, latency_cap, latency
    )
    show_trace_curve(trace, question, output=output, plot=plot)


def show_stream_curve(
    job: str,
    stream: str,
    bounds: str | None,
    trace_options: Sequence[str | None],
    *,
    output: Format | None,
    plot: bool,
    url: str,
    token_file: Path | None,
) -> None:
    """Print completeness and latency of a stream by bound: at ``bounds``, or where the curve bends.

    ``plot`` draws the late rows by bound, too.
    """
    with open_client(url, token_file) as tidemark:
        if any(option is not None for option in trace_options):
            raise ValueError("--window, --slide, --session-gap, --latency-cap and --grace need a trace")
        bounds_ms = (
            []
            if bounds is None
            else [each_us // 1_000 for each_us in bounds_of(bounds, "--bounds", SPARK_TICK_US)]
        )
        found = tidemark.curve(job, stream, bounds_ms)
        evidence = tidemark.status(job, stream).evidence
    if output is not None:
        return write(found, output=output)
    rows = [
        (
            bound(point.bound_ms),
            percent(point.completeness_ppm),
            percent(point.completeness_min_ppm),
            f"{point.late:,}",
            measured(point.latency_base_ms),
            measured(point.latency_wall_ms)
            if point.latency_at_least_ms is None
            else f"at least {measured(point.latency_at_least_ms)}",
            f"{point.windows_emitted:,}",
            {True: "yes", False: "no", None: "-"}[point.meets_all],
        )
        for point in (found.points if bounds_ms else _that_say_something(found.points))
    ]
    basis = found.basis
    if rows:
        say(f"{job}/{stream}, batches of {moment(basis.from_us)} to {moment(basis.to_us)}")
    columns = (
        *("bound", "completeness", "at least", "late rows", "base - end", "wall - end", "windows"),
        "meets the SLO",
    )
    table(columns, rows, f"no rows of {job}/{stream} are known yet")
    if rows and plot:
        operating = found.operating
        marks = Marks(
            found.target_ppm,
            _microseconds(operating.bound_ms),
            "published" if operating.is_published else "in use",
        )
        points = [(point.bound_ms * 1_000, point.late) for point in found.points]
        for line in chart(points, found.points[0].rows, marks):
            typer.echo(line)
    needed = evidence.rows_needed
    if rows and needed is not None and evidence.rows < needed:
        say(f"not enough evidence: {evidence.rows:,} of {needed:,} rows, so no bound is certified")
    return None


def _microseconds(duration_ms: int | None) -> int | None:
    return None if duration_ms is None else duration_ms * 1_000


def _that_say_something(points: Sequence[CurvePointAnswer]) -> list[CurvePointAnswer]:
    """Return the points without those that admit no more rows than a smaller bound does."""
    return [*points[:1], *(point for before, point in pairwise(points) if point.late != before.late)]
