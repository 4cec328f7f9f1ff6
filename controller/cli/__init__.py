"""The command line: ``tidemark``. Each command has a module of its own, imported when it is used."""

from __future__ import annotations

from typing import Annotated

import typer

from tidemark.controller.cli import (
    demo,
    doctor,
    events,
    openapi,
    partitions,
    pin,
    policy,
    recommendations,
    rollouts,
    serve,
    settings,
    slo,
    status,
    token,
)
from tidemark.controller.cli.lazy import add_lazy
from tidemark.controller.runtime.version import distribution_version

__all__ = ["app", "main"]

app = typer.Typer(
    name="tidemark",
    help="Adaptive watermarks for Spark Structured Streaming.",
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"tidemark {distribution_version()}")
        raise typer.Exit


@app.callback()
def _options(
    *,
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit."),
    ] = False,
) -> None:
    """Adaptive watermarks for Spark Structured Streaming."""


serve.register(app)
demo.register(app)
add_lazy(
    app,
    "trace",
    "tidemark.controller.cli.trace",
    extra="trace",
    help_text="Make a trace of recorded arrivals.",
)
add_lazy(
    app,
    "curve",
    "tidemark.controller.cli.curve",
    extra="trace",
    help_text="Show the curve by bound of a trace or a stream.",
)
add_lazy(
    app,
    "backtest",
    "tidemark.controller.cli.backtest",
    extra="trace",
    help_text="Replay traces under policies and compare them.",
)
slo.register(app)
policy.register(app)
status.register(app)
partitions.register(app)
recommendations.register(app)
rollouts.register(app)
events.register(app)
doctor.register(app)
pin.register(app)
token.register(app)
settings.register(app)
openapi.register(app)


def main() -> None:
    """Run the command line."""
    app(prog_name="tidemark")
