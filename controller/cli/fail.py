"""How a command ends when it cannot do its work: one line, exit code 2."""

from __future__ import annotations

from typing import NoReturn

import typer

__all__ = ["fail"]

EXIT_CODE = 2
"""Exit code of a command that could not do its work for a reason the user can mend."""


def fail(told: str) -> NoReturn:
    """End the command with one line on standard error."""
    typer.echo(f"tidemark: {told}", err=True)
    raise typer.Exit(EXIT_CODE)
