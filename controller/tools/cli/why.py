"""``tidemark why``: why a stream has the bound that it has, in one sentence, or step by step."""

from __future__ import annotations

from shlex import quote
from typing import TYPE_CHECKING, Annotated

import typer

from tidemark.controller.tools.cli.remote import Call, JobArgument, StreamArgument, calls_controller
from tidemark.controller.tools.cli.show import bound, decision, moment, rollout_line, say, table

if TYPE_CHECKING:
    from tidemark.controller.server.schemas.streams import StreamStatus


def register(app: typer.Typer) -> None:
    """Add the command to ``app``."""

    @app.command("why")
    @calls_controller
    def why(
        job: JobArgument,
        stream: StreamArgument,
        *,
        every: Annotated[bool, typer.Option("--all", help="Show each step of the decision.")] = False,
        call: Call,
    ) -> None:
        """Say why a stream has the bound that it has: the step that decides, or with --all each step."""
        with call.open() as tidemark:
            found = tidemark.status(job, stream)
        if call.structured:
            return call.write({"summary": found.summary, "recommended": found.recommended})
        say(why_text(found))
        return _show_steps(found) if every else None


def why_text(found: StreamStatus) -> str:
    """Return why a stream has the bound that it has, in one sentence."""
    recommended = found.recommended
    if recommended is None or recommended.bound_ms is None:
        return found.summary
    return f"{bound(recommended.bound_ms)} is recommended: {decision(recommended)}"


def _show_steps(found: StreamStatus) -> None:
    say(f"now: {found.summary}")
    if found.recommended is None:
        return say(f"next: tidemark slo set {quote(found.job)} {quote(found.stream)} --target 99.5%")
    decided_by = found.recommended.decided_by
    rows = [
        (f"{'*' if step.kind == decided_by else ' '} {step.name}", bound(step.bound_ms), step.reason)
        for step in found.recommended.steps
    ]
    say(f"decided at {moment(found.recommended.decided_us)}, by the step with a star:")
    table(("  step", "bound", "why"), rows, "")
    if found.transition is not None:
        say(f"expected effect: {found.transition.text}")
    if found.rollout is not None:
        say(f"rollout {rollout_line(found.rollout)}")
    return None
