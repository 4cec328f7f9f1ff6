"""The settings in force, and copies of the store."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tidemark.controller.tools.cli.output import Format, prints_data, write
from tidemark.controller.tools.cli.show import fail_usage, say, table

if TYPE_CHECKING:
    from tidemark.controller.base.settings import Configuration


def register(app: typer.Typer) -> None:
    """Add the commands to ``app``."""
    for command in (settings, backup, restore):
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


_DatabaseOption = Annotated[str | None, typer.Option(help="URL of the store (TIDEMARK_DATABASE_URL).")]


def backup(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="File to write; it must not exist.")],
    database_url: _DatabaseOption = None,
    config: ConfigOption = None,
) -> None:
    """Write a whole and checked copy of a SQLite store to a file, while the controller runs."""
    from tidemark.controller.base.db.copies import back_up  # noqa: PLC0415 - --help starts fast

    with _store_at(database_url, config) as url:
        back_up(url, file)
    say(f"{file} holds the store, whole; to restore it: tidemark restore {file}")


def restore(
    file: Annotated[
        Path | None,
        typer.Argument(
            metavar="[FILE]", help="What tidemark backup wrote; without it, the store is taken as it is."
        ),
    ] = None,
    database_url: _DatabaseOption = None,
    config: ConfigOption = None,
) -> None:
    """Replace the store by a backup, and give it a new epoch; every controller must be stopped.

    A backup that is not whole, or a store that is in use, is refused, and the store stays as it was. Without a file it
    is for a store that was put there by other means: pg_restore, a snapshot of its disk. What jobs and people hold of
    another history is then out of date: every job is answered in full, and a write that rests on an older reading is
    rejected.
    """
    from tidemark.controller.base.db.copies import restore as restore_store  # noqa: PLC0415 - --help starts fast

    with _store_at(database_url, config) as url:
        epoch = restore_store(url, file)
    say(
        f"the store is whole and has the new epoch {epoch}; next: start the controller, then tidemark doctor JOB"
    )


@contextmanager
def _store_at(database_url: str | None, config: Path | None) -> Iterator[str]:
    """Give the URL of the store; what is wrong with it ends the command with one line."""
    from tidemark.controller.base.errors import TidemarkError  # noqa: PLC0415

    given = {} if database_url is None else {"database_url": database_url}
    try:
        yield settings_in_force(given, config).settings.database_url
    except TidemarkError as error:
        fail_usage(error.detail)
