"""``tidemark openapi``: print the OpenAPI document."""

from __future__ import annotations

import typer


def register(app: typer.Typer) -> None:
    """Add the command to ``app``."""

    @app.command("openapi")
    def print_document() -> None:
        """Print the OpenAPI document of the REST API."""
        # Imported here so that --help starts fast.
        from tidemark.controller.api.openapi import as_text  # noqa: PLC0415
        from tidemark.controller.app import create_app  # noqa: PLC0415
        from tidemark.controller.settings import Settings  # noqa: PLC0415

        typer.echo(as_text(create_app(Settings(database_url="sqlite:///tidemark.db"))), nl=False)
