"""How a command ends when it cannot do its work: one line on standard error, and an exit code."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import NoReturn

import typer

from tidemark.controller.cli.show import plain

_REQUEST_FAILED = 1
"""Exit code when the controller rejects the request or does not answer."""

_USAGE_ERROR = 2
"""Exit code when the arguments or the surroundings of the command have to be corrected."""


def fail_usage(*messages: str) -> NoReturn:
    """End the command with a line for each message: its arguments or its surroundings have to be corrected."""
    _end(messages, _USAGE_ERROR)


def fail_request(message: str) -> NoReturn:
    """End the command with one line: the controller rejects the request or does not answer."""
    _end([message], _REQUEST_FAILED)


@contextmanager
def input_errors_in_one_line() -> Iterator[None]:
    """End the command with one line when its input cannot be used."""
    try:
        yield
    except (ValueError, OSError) as error:
        fail_usage(" ".join(str(error).split()))


def _end(messages: Iterable[str], code: int) -> NoReturn:
    for message in messages:
        typer.echo(plain(f"tidemark: {message}"), err=True)
    raise typer.Exit(code)
