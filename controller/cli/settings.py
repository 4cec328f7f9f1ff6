"""``tidemark settings``: the settings in force and where each comes from."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tidemark.controller.cli.fail import fail_usage

if TYPE_CHECKING:
    from tidemark.controller.settings import Configuration

ConfigOption = Annotated[
    Path | None,
    typer.Option(
        help="File of settings, TOML (TIDEMARK_CONFIG). Environment variables take precedence over it."
    ),
]
"""The option ``--config``."""


def register(app: typer.Typer) -> None:
    """Add the command to ``app``."""

    @app.command("settings")
    def settings(config: ConfigOption = None) -> None:
        """Show the settings in force and where each comes from; passwords are masked."""
        show_settings(settings_in_force({}, config))


def settings_in_force(given: Mapping[str, str | int], config: Path | None) -> Configuration:
    """Return the settings; end the command with one line when they are not valid."""
    from tidemark.controller.settings import ConfigurationError, load_settings  # noqa: PLC0415

    try:
        return load_settings(given, config)
    except ConfigurationError as error:
        fail_usage(str(error))


def show_settings(found: Configuration) -> None:
    """Print the settings as a table."""
    rows = [("setting", "value", "from"), *found.shown()]
    widths = [max(len(row[column]) for row in rows) for column in (0, 1)]
    for name, value, source in rows:
        typer.echo(f"{name:<{widths[0]}}  {value:<{widths[1]}}  {source}")
