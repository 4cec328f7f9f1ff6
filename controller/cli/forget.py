"""``tidemark forget``: delete a stream."""

from __future__ import annotations

from typing import Annotated

import typer

from tidemark.controller.cli.remote import (
    Call,
    DryRunOption,
    JobArgument,
    StreamArgument,
    calls_controller,
)
from tidemark.controller.cli.show import as_json, say

_NAMES = frozenset({"job", "stream", "dry_run"})


def register(app: typer.Typer) -> None:
    """Add the command to ``app``."""

    @app.command("forget")
    @calls_controller
    def forget(
        job: JobArgument,
        stream: StreamArgument,
        *,
        reason: Annotated[str, typer.Option(help="Why; the event, which stays, records it.")],
        while_reporting: Annotated[
            bool,
            typer.Option(
                "--while-reporting",
                help="Delete it although its job still reports; it begins anew with the next report.",
            ),
        ] = False,
        dry_run: DryRunOption = False,
        call: Call,
    ) -> None:
        """Delete a stream with all of its data; it cannot be undone."""
        with call.open() as tidemark:
            found = tidemark.delete_stream(
                job, stream, reason, while_reporting=while_reporting, dry_run=dry_run
            )
        if call.json:
            return as_json(found)
        say(f"{'would delete' if dry_run else 'deleted'} {job}/{stream}:")
        for name, count in found:
            if name not in _NAMES and count:
                say(f"  {name.replace('_', ' ')}: {count:,}")
        return None
