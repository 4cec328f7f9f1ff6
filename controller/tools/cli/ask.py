"""Questions at a terminal: why, and whether to go on. Where nobody can answer, what is missing is named instead."""

from __future__ import annotations

import sys
from typing import Annotated

import typer


def somebody_answers() -> bool:
    """Return whether there is a terminal at which somebody can be asked."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def confirm(what: str, option: str) -> None:
    """Ask whether to go on.

    Raises:
        ValueError: when nobody can answer; the message names the option that asks for it.
    """
    if not somebody_answers():
        raise ValueError(f"{option} asks first, and nobody can answer here: add --yes")
    typer.confirm(f"{what}?", abort=True, err=True)


def _ask_reason(given: str) -> str:
    if given:
        return given
    if not somebody_answers():
        raise typer.BadParameter("say why; the event records it")
    return str(typer.prompt("Why (the event records it)", err=True))


NeededReasonOption = Annotated[
    str,
    typer.Option(
        "--reason",
        callback=_ask_reason,
        show_default=False,
        help="Why; the event records it. Asked for at a terminal where it is missing.",
    ),
]
"""A reason that a command cannot do without: empty, the default, it is asked for."""
