"""``tidemark restored``: says to a store that it was restored from a backup, or is a copy of another one."""

from __future__ import annotations

from typing import Annotated

import typer

from tidemark.controller.cli.fail import fail_usage
from tidemark.controller.cli.settings import ConfigOption, settings_in_force
from tidemark.controller.cli.show import say


def register(app: typer.Typer) -> None:
    """Add the command to ``app``."""

    @app.command("restored")
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
        from tidemark.controller.db.database import Database  # noqa: PLC0415
        from tidemark.controller.db.epoch import renew_epoch  # noqa: PLC0415
        from tidemark.controller.errors import StoreUnusableError  # noqa: PLC0415

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
