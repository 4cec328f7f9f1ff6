"""``tidemark partitions``: the state of each partition of a stream, and what it does to the bound."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from tidemark.controller.cli.remote import Call, JobArgument, StreamArgument, calls_controller
from tidemark.controller.cli.show import as_json, duration, measured, moment, say, table

if TYPE_CHECKING:
    from tidemark.controller.api.schemas.partitions import Partition


def register(app: typer.Typer) -> None:
    """Add the command to ``app``."""

    @app.command("partitions")
    @calls_controller
    def partitions(job: JobArgument, stream: StreamArgument, *, call: Call) -> None:
        """Show the partitions of a stream, those that cost most latency first."""
        with call.open() as tidemark:
            found = sorted(tidemark.partitions(job, stream), key=_most_costly)
        if call.json:
            return as_json(found, "partitions")
        rows = [
            (
                row.partition,
                _state(row),
                f"{row.pairs:,}",
                duration(row.need_ms),
                measured(row.costs_ms),
                duration(row.without_bound_ms),
                moment(row.last_seen_us),
            )
            for row in found
        ]
        columns = ("partition", "state", "rows", "needs", "costs", "bound without it", "last seen")
        table(columns, rows, f"no partition of {job}/{stream} is known yet")
        for row in found:
            if row.text is not None:
                say(row.text)
        return None


def _most_costly(row: Partition) -> tuple[bool, int, str]:
    return not row.skewed, -(row.costs_ms or 0), row.partition


def _state(row: Partition) -> str:
    marks = {"skewed": row.skewed, "future-dated": row.future, "misdated": row.misdated}
    return ", ".join([row.state, *(mark for mark, holds in marks.items() if holds)])
