"""``tidemark curve``: what each bound admits and costs, for a trace or for a stream of a running controller."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from tidemark.controller.cli.fail import fail_usage
from tidemark.controller.cli.remote import TokenFileOption, UrlOption
from tidemark.controller.client.address import DEFAULT_URL


def register(app: typer.Typer) -> None:
    """Add the command to ``app``."""
    app.command("curve")(curve)


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
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
    url: UrlOption = DEFAULT_URL,
    token_file: TokenFileOption = None,
) -> None:
    """Show completeness and latency by bound, for a trace or a stream.

    For a trace it also chooses the smallest bound that its rows certify for the target. With JOB STREAM it asks a
    running controller.
    """
    if plot and as_json:
        fail_usage("--plot goes without --json: it draws for people")
    if stream is not None:
        from tidemark.controller.cli.stream_curve import show_stream_curve  # noqa: PLC0415 - needs no scipy

        options = (window, slide, session_gap, latency_cap, grace)
        show_stream_curve(
            str(trace), stream, bounds, options, json=as_json, plot=plot, url=url, token_file=token_file
        )
        return
    from tidemark.controller.cli.trace_curve import Question, show_trace_curve  # noqa: PLC0415 - a stream needs no scipy

    question = Question(
        window, slide, session_gap, engine, trigger, bounds, grace, target, confidence, latency_cap, latency
    )
    show_trace_curve(trace, question, json=as_json, plot=plot)
