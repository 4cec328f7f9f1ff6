"""The settings in force, and the epoch of a store that was restored."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tidemark.controller.tools.cli.output import Format, prints_data, write
from tidemark.controller.tools.cli.show import fail_usage, say, table

if TYPE_CHECKING:
    from tidemark.controller.base.settings import Configuration


def register(app: typer.Typer) -> None:
    """Add the commands to ``app``."""
    for command in (settings, restored):
        app.command()(command)


ConfigOption = Annotated[
    Path | None,
    typer.Option(
        help="File of settings, TOML (TIDEMARK_CONFIG). Environment variables take precedence over it."
    ),
]
"""The option ``--config``."""


@prints_data
def settings(config: ConfigOption = None, *, output: Format | None = None) -> None:
    """Show the settings in force and where each comes from; passwords are masked."""
    found = settings_in_force({}, config)
    if output is None:
        return show_settings(found)
    rows = [{"name": name, "value": value, "from": source} for name, value, source in found.shown()]
    return write(rows, "settings", output=output)


def settings_in_force(given: Mapping[str, str | int], config: Path | None) -> Configuration:
    """Return the settings; end the command with one line when they are not valid."""
    from tidemark.controller.base.settings import ConfigurationError, load_settings  # noqa: PLC0415

    try:
        return load_settings(given, config)
    except ConfigurationError as error:
        fail_usage(str(error))


def show_settings(found: Configuration) -> None:
    """Print the settings as a table."""
    table(("setting", "value", "from"), found.shown(), "")


def restored(
    database_url: Annotated[
        str | None, typer.Option(help="SQLAlchemy URL of the store (TIDEMARK_DATABASE_URL).")
    ] = None,
    config: ConfigOption = None,
) -> None:
    """Renew the epoch of a store that was restored from a backup or copied.

    Run it on the store itself, before the controller starts on it. What jobs and people hold of another history
    is then out of date: every job is answered in full, and a write that rests on an older reading is rejected.
    """
    # Imported here so that --help starts fast.
    from tidemark.controller.base.db.database import Database  # noqa: PLC0415
    from tidemark.controller.base.db.epoch import renew_epoch  # noqa: PLC0415
    from tidemark.controller.base.errors import StoreUnusableError  # noqa: PLC0415

    given = {} if database_url is None else {"database_url": database_url}
    try:
        database = Database(settings_in_force(given, config).settings.database_url)
        try:
            database.migrate(only_known=True)
            with database.write() as session:
                epoch = renew_epoch(session)
        finally:
            database.close()
    except StoreUnusableError as error:
        fail_usage(error.detail)
    say(
        f"store {database.name} has the new epoch {epoch}; next: start the controller, then tidemark doctor JOB"
    )
