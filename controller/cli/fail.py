"""How a command ends when it cannot do its work: one line on standard error, and an exit code."""

from __future__ import annotations

from typing import NoReturn

import typer

__all__ = ["fail", "refused"]

REFUSED = 1
"""Exit code of a command whose request was refused or could not be made."""

EXIT_CODE = 2
"""Exit code of a command that could not do its work for a reason in its own arguments or surroundings."""


def fail(message: str) -> NoReturn:
    """End the command with one line: something in its arguments or surroundings has to be mended."""
    _end(message, EXIT_CODE)


def refused(message: str) -> NoReturn:
    """End the command with one line: the controller refused, or did not answer."""
    _end(message, REFUSED)


def _end(message: str, code: int) -> NoReturn:
    typer.echo(f"tidemark: {message}", err=True)
    raise typer.Exit(code)
