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


_NAMED_BY = {"every": "ROLLOUT or --all", "fleet": "JOB, JOB and STREAM, or --fleet"}
"""By the option that stands for all: how a command line names what it acts on."""


def _ask_reason(context: typer.Context, given: str) -> str:
    if given:
        return given
    if not somebody_answers():
        # All other options and arguments are read before: what is not named either is said at once.
        named = any(context.params.get(name) for name in ("rollout", "job", *_NAMED_BY))
        missing = "".join(
            f"; and name {how}" for by, how in _NAMED_BY.items() if by in context.params and not named
        )
        raise typer.BadParameter(f"say why; the event records it{missing}")
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
