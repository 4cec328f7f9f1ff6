"""The partitions of a stream, who loses rows, what it was before, and its deletion."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidemark.controller.tools.cli.options import milliseconds_of
from tidemark.controller.tools.cli.run import CommandAnswer
from tidemark.controller.tools.cli.show import duration, measured, moment, percent, say, table
from tidemark.models.base.target import PPM
from tidemark.models.base.text import plural

if TYPE_CHECKING:
    from tidemark.controller.server.schemas.fleet import StreamDeleted
    from tidemark.controller.server.schemas.partitions import LostAnswer, Partition
    from tidemark.controller.tools.client.client import Client
    from tidemark.models.evidence.losses import ValueLoss


def partitions(tidemark: Client, job: str, stream: str) -> CommandAnswer:
    """Show the partitions of a stream, those that cost most latency first."""
    listed = sorted(
        tidemark.partitions(job, stream),
        key=lambda row: (not row.skewed, -(row.costs_ms or 0), row.partition),
    )

    def show() -> None:
        columns = ("partition", "state", "rows", "needs", "costs", "bound without it", "last seen")
        table(columns, map(_partition, listed), f"no partition of {job}/{stream} is known yet")
        for row in listed:
            if row.text is not None:
                say(row.text)

    return CommandAnswer({"partitions": listed}, show)


def _partition(row: Partition) -> tuple[str, ...]:
    marks = {"skewed": row.skewed, "future-dated": row.future, "misdated": row.misdated}
    return (
        row.partition,
        ", ".join([row.state, *(mark for mark, holds in marks.items() if holds)]),
        f"{row.pairs:,}",
        duration(row.need_ms),
        measured(row.costs_ms),
        duration(row.without_bound_ms),
        moment(row.last_seen_us),
    )


def lost(
    tidemark: Client, job: str, stream: str, *, dimension: str | None, window: str | None, limit: int
) -> CommandAnswer:
    """Show which values of a dimension, such as the region, lose rows, and who loses far more."""
    window_ms = None if window is None else milliseconds_of(window, "--window")
    answer = tidemark.lost(job, stream, dimension, window_ms, limit)
    return CommandAnswer(answer, lambda: _show_lost(answer))


_REASONS = {"late": "late", "no_event_time": "without an event time", "set_aside": "set aside"}
"""Why a row was not taken, as the table has it; rows that were set aside are not lost."""


def _show_lost(answer: LostAnswer) -> None:
    if answer.dimension is None:
        say(
            f"nothing is counted by a dimension of {answer.job}/{answer.stream}: "
            'the job names one with late=side(..., dimension="region")'
        )
        return
    total, counted = answer.total, f"; {answer.counted.text}" if answer.counted else ""
    say(f"{answer.dimension}, {moment(answer.from_us)} to {moment(answer.to_us)}{counted}")
    reasons = [name for name in _REASONS if getattr(total, name)]
    why = ", ".join(f"{getattr(total, name):,} {_REASONS[name]}" for name in reasons)
    rows = f"{plural(total.rows, 'row')}, {total.lost:,} lost ({percent(total.lost_ppm)})"
    say(f"{rows}: {why}" if why else rows)
    columns = (answer.dimension, "rows", "lost", *(_REASONS[name] for name in reasons))
    shares = ("share lost", "of all rows", "of all lost", "half by", "99 % by", "latest by", "")
    table((*columns, *shares), (_value(value, reasons) for value in answer.values), "")
    if answer.more_values:
        say(f"{plural(answer.more_values, 'more value')}: see --limit")
    others = [name for name in answer.dimensions if name != answer.dimension]
    if others:
        say(f"also counted by {', '.join(others)}: see --dimension")


def _value(value: ValueLoss, reasons: list[str]) -> tuple[str, ...]:
    factor = (value.factor_ppm or 0) / PPM
    return (
        "(all others)" if value.other else "(null)" if value.value is None else value.value,
        f"{value.rows:,}",
        f"{value.lost:,}",
        *(f"{getattr(value, name):,}" for name in reasons),
        percent(value.lost_ppm),
        percent(value.of_rows_ppm),
        percent(value.of_lost_ppm),
        duration(value.median_late_ms),
        duration(value.p99_late_ms),
        duration(value.max_late_ms),
        f"biased: at least {factor:.1f} times as often as all others" if value.biased else "",
    )


def adopt(
    tidemark: Client, job: str, stream: str, former: str, *, reason: str, dry_run: bool
) -> CommandAnswer:
    """Let a stream that began anew go on as the one that it was."""
    answer = tidemark.adopt(job, stream, former, reason, dry_run)
    goes_on = "would go on" if dry_run else "goes on"
    text = f"{job}/{stream} {goes_on} as {former}, with {plural(answer.reports, 'report')} of its own"
    return CommandAnswer(answer, lambda: say(text))


def forget(
    tidemark: Client, job: str, stream: str, *, reason: str, while_reporting: bool, dry_run: bool
) -> CommandAnswer:
    """Delete a stream with all of its data."""
    answer = tidemark.delete_stream(job, stream, reason, while_reporting=while_reporting, dry_run=dry_run)
    return CommandAnswer(answer, lambda: _show_deleted(answer))


def _show_deleted(answer: StreamDeleted) -> None:
    say(f"{'would delete' if answer.dry_run else 'deleted'} {answer.job}/{answer.stream}:")
    for name, count in answer:
        if name not in {"job", "stream", "dry_run"} and count:
            say(f"  {name.replace('_', ' ')}: {count:,}")
