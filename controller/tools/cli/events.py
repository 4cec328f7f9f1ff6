"""``tidemark events``: what changed, from what to what, why and by whom."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from itertools import islice, takewhile
from time import sleep, time_ns
from typing import TYPE_CHECKING, Annotated

import typer

from tidemark.controller.base.sentences import did_you_mean
from tidemark.controller.tools.cli.changes import change_text
from tidemark.controller.tools.cli.options import duration_of
from tidemark.controller.tools.cli.remote import Call, SomeJobArgument, SomeStreamArgument, calls_controller
from tidemark.controller.tools.cli.show import brief, fail_request, moment, say, table

if TYPE_CHECKING:
    from tidemark.controller.server.schemas.rollouts import Event
    from tidemark.controller.tools.client.client import Client

_FOLLOW_SECONDS = 2.0
"""Time between two looks for new events."""

_KINDS_IN = 1_000
"""Among how many events a kind is looked for that has none."""


def register(app: typer.Typer) -> None:
    """Add the command to ``app``."""
    app.command("events")(events)


@calls_controller(lists=True)
def events(
    job: SomeJobArgument = None,
    stream: SomeStreamArgument = None,
    *,
    kind: Annotated[
        str | None, typer.Option(help="Only events of this kind, such as RolloutRolledBack.")
    ] = None,
    since: Annotated[
        str | None, typer.Option(help="Only events of so long ago and newer. Example: '6 h'")
    ] = None,
    follow: Annotated[
        bool,
        typer.Option(
            "--follow", "-f", help="Then print each event as it comes, the oldest first, until Ctrl-C."
        ),
    ] = False,
    limit: Annotated[int, typer.Option(min=1, help="Maximum number of events.")] = 50,
    call: Call,
) -> None:
    """Show what changed, from what to what, why and by whom, the newest first."""
    with call.open() as tidemark:
        since_us = 0 if since is None else time_ns() // 1_000 - duration_of(since, "--since")
        newest = tidemark.events(job, stream, kind=kind)
        found = list(islice(takewhile(lambda row: row.last_us >= since_us, newest), limit))
        if not found and not follow:
            call.check_job(tidemark)
            if kind is not None:
                _check_kind(tidemark, job, stream, kind)
        if follow:
            # Ctrl-C is how it ends.
            with suppress(KeyboardInterrupt):
                for row in _followed(tidemark, job, stream, kind, found):
                    _show_line(call, row)
            return None
    if call.structured:
        return call.write(found, "events")
    if call.names(row.id for row in found):
        return None
    columns = ("last", "stream", "what", "change", "by", "why")
    more = ("first", "rollout", "number") if call.wide else ()
    rows = [(*_cells(row, wide=call.wide), *(_more(row) if call.wide else ())) for row in found]
    return table(
        (*columns, *more), rows, "nothing has happened yet" if since is None else f"nothing in {since}"
    )


def _followed(
    tidemark: Client, job: str | None, stream: str | None, kind: str | None, found: list[Event]
) -> Iterator[Event]:
    """Yield the events that were found and those that come, the oldest first, without end."""
    last = 0
    while True:
        yield from reversed(found)
        last = max([last, *(row.id for row in found)])
        sleep(_FOLLOW_SECONDS)
        found = _newer_than(last, tidemark.events(job, stream, kind=kind))


def _newer_than(last: int, newest: Iterator[Event]) -> list[Event]:
    return list(takewhile(lambda row: row.id > last, newest))


def _show_line(call: Call, row: Event) -> None:
    if call.structured:
        call.write(row)
    elif not call.names([row.id]):
        say("  ".join(_cells(row, wide=call.wide)))


def _cells(row: Event, *, wide: bool) -> tuple[str, ...]:
    change = change_text(row.before, row.after)
    return (
        moment(row.last_us),
        "-" if row.job is None else f"{row.job}/{row.stream}",
        row.kind if row.count == 1 else f"{row.kind} ({row.count:,} times)",
        change if wide else brief(change),
        row.by or "-",
        row.reason if wide else brief(row.reason),
    )


def _more(row: Event) -> tuple[str, ...]:
    rollout = row.evidence.rollout
    return moment(row.at_us), "-" if rollout is None else str(rollout), str(row.id)


def _check_kind(tidemark: Client, job: str | None, stream: str | None, kind: str) -> None:
    """End the command when there is no event of a kind but are of others."""
    kinds = {row.kind for row in islice(tidemark.events(job, stream), _KINDS_IN)}
    if kinds and kind not in kinds:
        fail_request(f"no event is of kind {kind!r}{did_you_mean(kind, kinds, few=20)}")
