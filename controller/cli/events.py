"""``tidemark events``: what changed, why and by whom."""

from __future__ import annotations

from itertools import islice
from typing import Annotated

import typer

from tidemark.controller.cli.remote import Call, SomeJobArgument, SomeStreamArgument, calls_controller
from tidemark.controller.cli.show import as_json, brief, moment, table


def register(app: typer.Typer) -> None:
    """Add the command to ``app``."""

    @app.command("events")
    @calls_controller
    def events(
        job: SomeJobArgument = None,
        stream: SomeStreamArgument = None,
        *,
        kind: Annotated[
            str | None, typer.Option(help="Only events of this kind, such as RolloutRolledBack.")
        ] = None,
        limit: Annotated[int, typer.Option(min=1, help="Maximum number of events.")] = 50,
        call: Call,
    ) -> None:
        """Show what changed, why and by whom, the newest first."""
        with call.open() as tidemark:
            found = list(islice(tidemark.events(job, stream, kind=kind), limit))
        if call.json:
            return as_json(found, "events")
        rows = [
            (
                moment(row.last_us),
                f"{row.job}/{row.stream}",
                row.kind if row.count == 1 else f"{row.kind} ({row.count:,} times)",
                row.by or "-",
                brief(row.reason),
            )
            for row in found
        ]
        return table(("last", "stream", "what", "by", "why"), rows, "nothing has happened yet")
