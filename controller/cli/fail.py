"""How a command ends when it cannot do its work: one line on standard error, and an exit code."""

from __future__ import annotations

from typing import NoReturn

import typer

from tidemark.controller.cli.show import plain

_REQUEST_FAILED = 1
"""Exit code when the controller rejects the request or does not answer."""

_USAGE_ERROR = 2
"""Exit code when the arguments or the surroundings of the command have to be corrected."""


def fail_usage(message: str) -> NoReturn:
    """End the command with one line: its arguments or its surroundings have to be corrected."""
    _end(message, _USAGE_ERROR)


def fail_request(message: str) -> NoReturn:
    """End the command with one line: the controller rejects the request or does not answer."""
    _end(message, _REQUEST_FAILED)


def _end(message: str, code: int) -> NoReturn:
    typer.echo(plain(f"tidemark: {message}"), err=True)
    raise typer.Exit(code)
