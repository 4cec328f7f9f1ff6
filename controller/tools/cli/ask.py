"""Questions at a terminal: why, and whether to go on. Where nobody can answer, what is missing is named instead."""

from __future__ import annotations

import sys

import click

_NAMED_BY = {"every": "ROLLOUT or --all", "fleet": "JOB, JOB and STREAM, or --fleet"}
"""By the option that stands for all: how a command line names what it acts on."""


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
    click.confirm(f"{what}?", abort=True, err=True)


def ask_reason(ctx: click.Context, _: click.Parameter, reason: str) -> str:
    """Return the reason that a command cannot do without; one that is empty is asked for."""
    if reason or ctx.resilient_parsing:
        return reason
    if not somebody_answers():
        # All other options and arguments are read before: what is not named either is said at once.
        named = any(ctx.params.get(name) for name in ("rollout", "job", *_NAMED_BY))
        missing = "".join(
            f"; and name {how}" for by, how in _NAMED_BY.items() if by in ctx.params and not named
        )
        raise click.BadParameter(f"say why; the event records it{missing}")
    return str(click.prompt("Why (the event records it)", err=True))
