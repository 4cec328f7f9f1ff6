"""The command line: ``tidemark``. Each command has a module of its own, which is imported when the command is used."""

from __future__ import annotations

from typing import Annotated

import typer

from tidemark.controller.tools.cli.lazy import LazyGroup

app = typer.Typer(
    name="tidemark",
    cls=LazyGroup,
    help="Adaptive watermarks for Spark Structured Streaming.",
    no_args_is_help=True,
    # Values of options are taken in any case: --mode onrestart is --mode OnRestart.
    context_settings={"token_normalize_func": str.casefold},
    pretty_exceptions_enable=False,
    # Plain help: rich alone would take as long to import as all the rest.
    rich_markup_mode=None,
)


def _show_version(given: bool) -> None:
    if given:
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


def main() -> None:
    """Run the command line."""
    app(prog_name="tidemark")


def distribution_version() -> str:
    """Return the version of the installed distribution; ``"unknown"`` when run from a folder not installed."""
    from importlib.metadata import PackageNotFoundError, version  # noqa: PLC0415 - --help starts fast without it

    try:
        return version("tidemark")
    except PackageNotFoundError:
        return "unknown"


__all__ = ["app", "main"]
