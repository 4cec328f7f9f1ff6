"""The command line: ``tidemark``. The module of a command is imported when the command runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from tidemark.controller.tools.cli import commands
from tidemark.controller.tools.cli.command_table import rows
from tidemark.controller.tools.cli.commands_analyse import ANALYSE
from tidemark.controller.tools.cli.commands_operate import OPERATE
from tidemark.controller.tools.cli.parameters import SHARED, common
from tidemark.controller.tools.cli.shape import Command, Commands, Group, Row

PANELS: dict[str, tuple[Row, ...]] = {
    title: rows(table, SHARED)
    for title, table in {
        "Watch": commands.WATCH,
        "Set": commands.SET,
        "Roll out and hold": commands.ROLL_OUT,
        "Analyse": ANALYSE,
        "Operate": OPERATE,
    }.items()
}
"""The commands by task, in the order in which the help lists them."""


GROUPS = {
    "slo": "Set, show, delete and list SLOs: which share of a stream's rows must count.",
    "policy": "Set, show and delete what the controller may do to a stream.",
    "join": "Set, list, show and delete the SLO on the joined output of several streams.",
    "token": "Create, list, rotate and revoke tokens.",
    "late": "Keep the rows that Spark dropped as late.",
}
"""By name, what a group of commands is for."""


def _commands(panel: Sequence[Row]) -> dict[str, click.Command]:
    """Return commands by name; those whose names begin with the same word are a group."""
    made: dict[str, click.Command] = {}
    for row in panel:
        command, (first, *rest) = Command(row, common(row), _run), row.name.split(" ")
        if not rest:
            made[first] = command
            continue
        group = made.setdefault(first, Group(first, help=GROUPS[first], no_args_is_help=True))
        assert isinstance(group, Group)
        group.add_command(command)
    return made


def _run(row: Row, options: dict[str, Any]) -> None:
    from tidemark.controller.tools.cli.run import run_row  # noqa: PLC0415 - help needs no client

    run_row(row, options)


def _show_version(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted:
        click.echo(f"tidemark {distribution_version()}")
        ctx.exit()


def distribution_version() -> str:
    """Return the version of the installed distribution; ``"unknown"`` when run from a folder not installed."""
    from importlib.metadata import PackageNotFoundError, version  # noqa: PLC0415 - --help starts fast without it

    try:
        return version("tidemark-streaming")
    except PackageNotFoundError:
        return "unknown"


_VERSION = click.Option(
    ["--version"],
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_version,
    help="Show the version and exit.",
)

app = Commands({title: _commands(panel) for title, panel in PANELS.items()}, [_VERSION])


def main() -> None:
    """Run the command line."""
    app(prog_name="tidemark")


__all__ = ["PANELS", "app", "distribution_version", "main"]
