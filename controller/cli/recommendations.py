"""``tidemark recommendations``: what is recommended, why, its expected effect, and what it waits for."""

from __future__ import annotations

from shlex import quote
from typing import TYPE_CHECKING

import typer

from tidemark.controller.cli.remote import (
    Call,
    SomeJobArgument,
    SomeStreamArgument,
    calls_controller,
    streams_by_name,
)
from tidemark.controller.cli.show import approval_command, as_json, bound, moment, rollout_line, say, table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tidemark.controller.api.schemas.streams import StreamStatus
    from tidemark.controller.client.client import Client


def register(app: typer.Typer) -> None:
    """Add the command to ``app``."""

    @app.command("recommendations")
    @calls_controller
    def recommendations(
        job: SomeJobArgument = None, stream: SomeStreamArgument = None, *, call: Call
    ) -> None:
        """Show what is recommended for each stream, and why.

        For one stream, it shows each step of the decision.
        """
        with call.open() as tidemark:
            found = list(_statuses(tidemark, job, stream))
        if call.json:
            return as_json(found, "streams")
        if stream is not None:
            return _show(found[0])
        rows = [
            (
                f"{status.job}/{status.stream}",
                bound(status.in_use_bound_ms),
                bound(None if status.recommended is None else status.recommended.bound_ms),
                "-" if status.rollout is None else status.rollout.state,
                _next(status),
            )
            for status in found
        ]
        return table(("stream", "in use", "recommended", "rollout", "why"), rows, "there are no streams yet")


def _statuses(tidemark: Client, job: str | None, stream: str | None) -> Iterator[StreamStatus]:
    if job is not None and stream is not None:
        yield tidemark.status(job, stream)
        return
    for row in streams_by_name(tidemark, job):
        yield tidemark.status(row.job, row.stream)


def _show(status: StreamStatus) -> None:
    say(f"{status.job}/{status.stream}: {bound(status.in_use_bound_ms)} in use")
    say(f"  {_next(status)}")
    if status.recommended is None:
        return
    say(f"  decided at {moment(status.recommended.decided_us)}:")
    for step in status.recommended.steps:
        say(f"  {step.name}: {bound(step.bound_ms)}; {step.reason}")
    if status.transition is not None:
        say(f"  expected effect: {status.transition.text}")
    if status.rollout is not None:
        say(f"  rollout {rollout_line(status.rollout)}")


def _next(status: StreamStatus) -> str:
    """Return what holds now, with the command for what it waits for."""
    if status.slo is None:
        names = f"{quote(status.job)} {quote(status.stream)}"
        return f"{status.summary}: tidemark slo set {names} --target 0.99"
    rollout = status.rollout
    if rollout is not None and rollout.state == "AwaitingApproval":
        return f"{status.summary}; {approval_command(rollout.id)}"
    return status.summary
