"""``tidemark inspect``: print what a checkpoint holds."""

from __future__ import annotations

import json as json_text
from collections.abc import Callable, Sequence
from dataclasses import asdict
from datetime import UTC, datetime, timedelta

from rich.console import Console
from rich.table import Table

from tidemark.models.base.duration import format_about, format_duration
from tidemark.models.base.text import plural
from tidemark.spark_jobs.plans.checkpoint_contents import Contents, SourceOffset, read_contents
from tidemark.spark_jobs.spark.checkpoint_state import StateRows, StateWindow
from tidemark.spark_jobs.spark.command import session_of, spark_errors

_UNKNOWN = "-"
_WAY_OUT = "if the query runs, try again; else restore the folder from a backup"
_WIDE = 100_000
"""Width of a table that nobody's terminal has to break."""


def inspect(checkpoint: str, limit: int, write: Callable[[object], None] | None, confs: Sequence[str]) -> int:
    """Print what a checkpoint holds.

    Args:
        checkpoint: its path or URI.
        limit: maximum number of batches, and of windows of each operator.
        write: prints a document, for programs; None prints for people.
        confs: settings of Spark of the form KEY=VALUE.

    Returns:
        0 when all of it could be read, 1 when some of the state could not.

    Raises:
        ValueError: when the folder is no checkpoint, or its logs cannot be read.
    """
    with spark_errors():
        contents = read_contents(session_of("tidemark-inspect", confs), checkpoint, limit)
    if write is not None:
        write(asdict(contents))
    else:
        _show(contents)
    return 0 if contents.is_read else 1


def _show(contents: Contents) -> None:
    console = Console(highlight=False, markup=False, soft_wrap=True)
    if not console.is_terminal:
        console.width = _WIDE
    for name, text in _facts(contents):
        console.print(f"{name:<14}{text}")
    _show_table(
        console,
        ("batch", "planned at", "watermark", "moved by", "behind the clock"),
        [
            (
                str(row.batch),
                _moment(row.planned_ms),
                _moment(row.watermark_ms or None),
                _UNKNOWN if row.moved_ms is None else format_duration(row.moved_ms * 1_000),
                format_about((row.planned_ms - row.watermark_ms) * 1_000) if row.watermark_ms else _UNKNOWN,
            )
            for row in contents.batches
        ],
    )
    _show_table(
        console, ("source", "read up to"), [(read.source, _offset(read)) for read in contents.sources]
    )
    _show_table(
        console,
        ("operator", "state", "rows", "windows", "goes by", "oldest", "newest", "bound at first"),
        [_row(part) for part in contents.state],
    )
    for part in contents.state:
        if part.unread is not None:
            console.print(f"operator {part.operator}{_part(part)} is not read: {part.unread}; {_WAY_OUT}")
        windows = [one for one in contents.windows if (one.operator, one.part) == (part.operator, part.part)]
        of = f"windows of operator {part.operator}{_part(part)}"
        _show_table(
            console,
            (f"{of}: start", "end", "rows", "closes when the watermark rises by"),
            [_window(window, contents.watermark_ms) for window in windows],
        )
        if (part.windows or 0) > len(windows):
            rows = (part.rows or 0) - sum(window.rows for window in windows)
            more = plural((part.windows or 0) - len(windows), "later window")
            console.print(f"and {more} with {plural(rows, 'row')}: --limit shows more")


def _facts(contents: Contents) -> list[tuple[str, str]]:
    committed = _UNKNOWN
    if contents.committed_batch is not None:
        committed = f"batch {contents.committed_batch} at {_moment(contents.committed_ms)}"
    facts = [
        ("checkpoint", contents.checkpoint),
        ("query", contents.query_id),
        ("committed", committed),
        ("watermark", f"{_moment(contents.watermark_ms)} in the next batch"),
    ]
    if contents.watermark_ms is None:
        facts[-1] = ("watermark", "none yet, or the query has none")
    if contents.watermark_policy is not None:
        facts.append(("of several", f"the {contents.watermark_policy} of all inputs"))
    if contents.state_unread is not None:
        facts.append(("state", f"not read: {contents.state_unread}"))
    elif not contents.state:
        facts.append(("state", "none"))
    else:
        rows = sum(part.rows or 0 for part in contents.state)
        store = (contents.state_store or "").rpartition(".")[2]
        facts.append(("state", f"{plural(rows, 'row')}{store and f' in {store}'}"))
    return facts


def _offset(source: SourceOffset) -> str:
    return "nothing yet" if source.offset is None else json_text.dumps(source.offset)


def _row(part: StateRows) -> tuple[str, ...]:
    what = f"{part.name or 'not known'}{_part(part)}"
    if part.unread is not None:
        return str(part.operator), what, "not read"
    return (
        str(part.operator),
        what,
        f"{part.rows:,}",
        _UNKNOWN if part.windows is None else f"{part.windows:,}",
        part.event_time or "no event time",
        _moment_us(part.oldest_us),
        _moment_us(part.newest_us),
        _UNKNOWN if part.first_bound_ms is None else format_duration(part.first_bound_ms * 1_000),
    )


def _part(part: StateRows) -> str:
    return "" if part.part is None else f", {part.part}"


def _window(window: StateWindow, watermark_ms: int | None) -> tuple[str, ...]:
    closes = _UNKNOWN
    if watermark_ms is not None:
        missing_us = window.end_us - watermark_ms * 1_000
        closes = format_duration(missing_us) if missing_us > 0 else "it is past the end"
    return _moment_us(window.start_us), _moment_us(window.end_us), f"{window.rows:,}", closes


def _show_table(console: Console, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    if not rows:
        return
    table = Table(*columns, box=None, pad_edge=False)
    for row in rows:
        table.add_row(*row)
    console.print()
    console.print(table)


def _moment_us(time_us: int | None) -> str:
    return _UNKNOWN if time_us is None else _moment(time_us // 1_000)


def _moment(time_ms: int | None) -> str:
    if time_ms is None:
        return _UNKNOWN
    try:
        moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=time_ms)
    except OverflowError:
        return f"{time_ms} ms since 1970"
    return f"{moment:%Y-%m-%d %H:%M:%S}.{moment.microsecond // 1_000:03d} UTC"
