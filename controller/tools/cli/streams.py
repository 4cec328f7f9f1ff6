"""The partitions of a stream, who loses rows, and the deletion of a stream."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from tidemark.controller.tools.cli.ask import NeededReasonOption
from tidemark.controller.tools.cli.options import milliseconds_of
from tidemark.controller.tools.cli.remote import (
    Call,
    DryRunOption,
    JobArgument,
    StreamArgument,
    calls_controller,
)
from tidemark.controller.tools.cli.show import duration, measured, moment, percent, say, table
from tidemark.models.base.target import PPM
from tidemark.models.base.text import plural

if TYPE_CHECKING:
    from tidemark.controller.server.schemas.partitions import LostValue, Partition


def register(app: typer.Typer) -> None:
    """Add the commands to ``app``."""
    for command in (partitions, lost, adopt, forget):
        app.command()(command)


@calls_controller(lists=True)
def partitions(job: JobArgument, stream: StreamArgument, *, call: Call) -> None:
    """Show the partitions of a stream, those that cost most latency first."""
    with call.open() as tidemark:
        found = sorted(tidemark.partitions(job, stream), key=_most_costly)
    if call.structured:
        return call.write(found, "partitions")
    if call.names(row.partition for row in found):
        return None
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


_Dimension = Annotated[
    str | None,
    typer.Option("--dimension", help="The dimension, or partition. Default: the one that the job names."),
]
_Window = Annotated[
    str | None,
    typer.Option("--window", help="How far back to count, such as '6 h'. Default: the SLO's window."),
]
_Limit = Annotated[int, typer.Option("--limit", min=1, max=1_000, help="How many values to show at most.")]


@calls_controller
def lost(
    job: JobArgument,
    stream: StreamArgument,
    dimension: _Dimension = None,
    window: _Window = None,
    limit: _Limit = 20,
    *,
    call: Call,
) -> None:
    """Show which values of a dimension, such as the region, lose rows, and who loses far more.

    The job counts them with late=side(..., dimension="region").
    """
    with call.open() as tidemark:
        window_ms = None if window is None else milliseconds_of(window, "--window")
        found = tidemark.lost(job, stream, dimension, window_ms, limit)
    if call.structured:
        return call.write(found)
    if found.dimension is None:
        return say(
            f"nothing is counted by a dimension of {job}/{stream}: "
            'the job names one with late=side(..., dimension="region")'
        )
    total = found.total
    counted = f"; {found.counted.text}" if found.counted else ""
    say(f"{found.dimension}, {moment(found.from_us)} to {moment(found.to_us)}{counted}")
    reasons = [name for name in _REASONS if getattr(total, name)]
    why = ", ".join(f"{getattr(total, name):,} {_REASONS[name]}" for name in reasons)
    rows = f"{plural(total.rows, 'row')}, {total.lost:,} lost ({percent(total.lost_ppm)})"
    say(f"{rows}: {why}" if why else rows)
    columns = (
        found.dimension,
        "rows",
        "lost",
        *(_REASONS[name] for name in reasons),
        "share lost",
        "of all rows",
        "of all lost",
        "half by",
        "99 % by",
        "latest by",
        "",
    )
    table(columns, (_row(value, reasons) for value in found.values), "")
    if found.more_values:
        say(f"{plural(found.more_values, 'more value')}: see --limit")
    others = [name for name in found.dimensions if name != found.dimension]
    if others:
        say(f"also counted by {', '.join(others)}: see --dimension")
    return None


_REASONS = {"late": "late", "no_event_time": "without an event time", "set_aside": "set aside"}
"""Why a row was not taken, as the table has it; rows that were set aside are not lost."""


def _row(value: LostValue, reasons: list[str]) -> tuple[str, ...]:
    name = "(null)" if value.value is None else value.value
    verdict = ""
    if value.biased:
        verdict = f"biased: at least {(value.factor_ppm or 0) / PPM:.1f} times as often as all others"
    return (
        "(all others)" if value.other else name,
        f"{value.rows:,}",
        f"{value.lost:,}",
        *(f"{getattr(value, name):,}" for name in reasons),
        percent(value.lost_ppm),
        percent(value.of_rows_ppm),
        percent(value.of_lost_ppm),
        duration(value.median_late_ms),
        duration(value.p99_late_ms),
        duration(value.max_late_ms),
        verdict,
    )


_NAMES = frozenset({"job", "stream", "dry_run"})


@calls_controller
def adopt(
    job: JobArgument,
    stream: StreamArgument,
    former: Annotated[str, typer.Argument(metavar="FORMER", help="Name of the stream that it was.")],
    *,
    reason: NeededReasonOption = "",
    dry_run: DryRunOption = False,
    call: Call,
) -> None:
    """Let a stream that began anew go on as the one that it was, with its SLO, approvals and history."""
    with call.open() as tidemark:
        found = tidemark.adopt(job, stream, former, reason, dry_run=dry_run)
    if call.structured:
        return call.write(found)
    goes_on = "would go on" if dry_run else "goes on"
    return say(f"{job}/{stream} {goes_on} as {former}, with {plural(found.reports, 'report')} of its own")


@calls_controller
def forget(
    job: JobArgument,
    stream: StreamArgument,
    *,
    reason: NeededReasonOption = "",
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
        found = tidemark.delete_stream(job, stream, reason, while_reporting=while_reporting, dry_run=dry_run)
    if call.structured:
        return call.write(found)
    say(f"{'would delete' if dry_run else 'deleted'} {job}/{stream}:")
    for name, count in found:
        if name not in _NAMES and count:
            say(f"  {name.replace('_', ' ')}: {count:,}")
    return None
