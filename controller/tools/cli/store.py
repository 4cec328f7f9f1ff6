"""The settings in force, and copies of the store."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tidemark.controller.tools.cli.run import CommandAnswer
from tidemark.controller.tools.cli.shape import fail_usage
from tidemark.controller.tools.cli.show import say, table

if TYPE_CHECKING:
    from tidemark.controller.base.settings import Configuration


def settings(config: Path | None) -> CommandAnswer:
    """Show the settings in force and where each comes from; passwords are masked."""
    configuration = settings_in_force({}, config)
    rows = [{"name": name, "value": value, "from": source} for name, value, source in configuration.shown()]
    columns = ("setting", "value", "from")
    return CommandAnswer({"settings": rows}, lambda: table(columns, configuration.shown(), ""))


def settings_in_force(options: Mapping[str, str | int], config: Path | None) -> Configuration:
    """Return the settings; end the command with one line when they are not valid."""
    from tidemark.controller.base.settings import ConfigurationError, load_settings  # noqa: PLC0415

    try:
        return load_settings(options, config)
    except ConfigurationError as error:
        fail_usage(str(error))


def backup(file: Path, database_url: str | None, config: Path | None) -> None:
    """Write a whole and checked copy of a SQLite store to a file, while the controller runs."""
    from tidemark.controller.base.db.copies import back_up  # noqa: PLC0415 - --help starts fast

    with _store_at(database_url, config) as url:
        back_up(url, file)
    say(f"{file} holds the store, whole; to restore it: tidemark restore {file}")


def restore(file: Path | None, database_url: str | None, config: Path | None) -> None:
    """Replace the store by a backup, and give it a new epoch."""
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

    options = {} if database_url is None else {"database_url": database_url}
    try:
        yield settings_in_force(options, config).settings.database_url
    except TidemarkError as error:
        fail_usage(error.detail)
