"""The consequences of a write, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from tidemark.controller.cli.show import bound

if TYPE_CHECKING:
    from tidemark.controller.api.schemas import Consequences


def show_consequences(answer: Consequences) -> None:
    """Print what is recommended and published after a write, and what applying the recommendation will do."""
    published, recommended = answer.published, answer.recommended
    if recommended is not None and recommended.bound_ms is not None:
        typer.echo(f"  recommended: {bound(recommended.bound_ms)}; {recommended.steps[-1].reason}")
    if answer.transition is not None:
        typer.echo(f"  expected effect: {answer.transition.text}")
    what = "the job keeps its own bound" if published.bound_ms is None else bound(published.bound_ms)
    typer.echo(f"  published: {what} (generation {published.generation}); {published.reason}")
