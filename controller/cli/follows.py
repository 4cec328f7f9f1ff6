"""What follows from a write, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from tidemark.controller.cli.show import bound

if TYPE_CHECKING:
    from tidemark.controller.api.schemas import Consequences

__all__ = ["show_follows"]


def show_follows(found: Consequences) -> None:
    """Print what the job is told after a write, and what taking up the recommendation will do."""
    published, recommended = found.published, found.recommended
    if recommended is not None and recommended.bound_ms is not None:
        typer.echo(f"  recommended: {bound(recommended.bound_ms)}; {recommended.steps[-1].reason}")
    if found.transition is not None:
        typer.echo(f"  what it will do: {found.transition.text}")
    keeps = "the job keeps its own bound" if published.bound_ms is None else bound(published.bound_ms)
    typer.echo(f"  the job is told: {keeps} (generation {published.generation}); {published.reason}")
